//! `cargo xtask tidy`: the house rules that no compiler knows.
//!
//! Each rule is a file with one `check`, a pure function from the [`Tree`] to its findings, so
//! that its tests need no disk. A new rule is a module and one line of [`CHECKS`].

mod finding;
mod forbidden_words;
mod length;
mod licence;
mod links;
mod manifest;
mod purity;
mod requirements;
mod scripts;
mod sleeps;
mod source;
mod tree;

use std::path::Path;

use anyhow::ensure;

use finding::Finding;
use tree::Tree;

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: [(&str, Check); 8] = [
    ("purity", purity::check),
    ("length", length::check),
    ("requirements", requirements::check),
    ("forbidden_words", forbidden_words::check),
    ("sleeps", sleeps::check),
    ("links", links::check),
    ("licence", licence::check),
    ("scripts", scripts::check),
];

/// Prints every finding of every check, and fails if there is one.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let tree = Tree::load(root)?;
    let mut total = 0;
    for (name, check) in CHECKS {
        let findings = check(&tree);
        total += findings.len();
        print(name, &findings);
    }
    ensure!(total == 0, "tidy: {total} findings");
    eprintln!("tidy: {} checks passed", CHECKS.len());
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the findings are this command's result")]
fn print(name: &str, findings: &[Finding]) {
    for finding in findings {
        println!("{finding} [{name}]");
    }
}
