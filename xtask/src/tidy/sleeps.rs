//! Rule: no test waits for time to pass.
//!
//! A sleep is a guess about another thread. It is too short on a busy machine and too long on
//! every other one.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::{code, has_word, numbered};
use super::tree::Tree;

const BANNED: [&str; 2] = ["thread::sleep", "time::sleep"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let declared = declared_test_files(tree);
    let mut findings = Vec::new();
    for (path, text) in tree.below("crates/", ".rs") {
        let whole = path.contains("/tests/")
            || path.ends_with("/tests.rs")
            || declared.iter().any(|stem| belongs_to(path, stem));
        let from = if whole { Some(1) } else { test_module_line(text) };
        let Some(from) = from else { continue };
        for (line, content) in numbered(text).skip(from - 1) {
            if let Some(call) = BANNED.iter().find(|call| has_word(code(content), call)) {
                let what =
                    format!("`{call}` in a test: wait for the event, or move a virtual clock");
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    findings
}

/// The line of `#[cfg(test)]` above a module with a body. By custom that module is the last item,
/// so everything from there on is test code.
fn test_module_line(text: &str) -> Option<usize> {
    test_modules(text).find(|(_, item)| item.ends_with('{')).map(|(line, _)| line)
}

/// Modules that only exist for tests: the line of their attribute, and their own line.
fn test_modules(text: &str) -> impl Iterator<Item = (usize, &str)> {
    numbered(text).filter(|(_, line)| line.trim() == "#[cfg(test)]").filter_map(|(line, _)| {
        // Further attributes may stand between this one and its module.
        let item = text.lines().skip(line).map(str::trim).find(|next| !next.starts_with("#["))?;
        has_word(item, "mod").then_some((line, item))
    })
}

/// `dir/name` for each `#[cfg(test)] mod name;`, which lives in `dir/name.rs` or below `dir/name/`.
fn declared_test_files(tree: &Tree) -> BTreeSet<String> {
    let mut stems = BTreeSet::new();
    for (path, text) in tree.below("crates/", ".rs") {
        for (_, item) in test_modules(text).filter(|(_, item)| item.ends_with(';')) {
            let name = item.trim_end_matches(';').rsplit(' ').next().unwrap_or_default();
            let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
            let home = match file {
                "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
                other => format!("{folder}/{}", other.trim_end_matches(".rs")),
            };
            stems.insert(format!("{home}/{name}"));
        }
    }
    stems
}

fn belongs_to(path: &str, stem: &str) -> bool {
    path.strip_prefix(stem).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    const SLEEP: &str = "fn wait() {\n    std::thread::sleep(x);\n}\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        shown(&check(&Tree::of(files)))
    }

    #[test]
    fn code_that_is_no_test_passes() {
        let mixed = "#[cfg(test)]\nuse x;\nfn f() { tokio::time::sleep(x) }\n#[cfg(test)]\nmod tests {\n    // no thread::sleep(x)\n    fn sleepy() {}\n}\n";
        assert_eq!(
            found(&[
                ("crates/server/src/retry.rs", SLEEP),
                ("crates/server/src/mixed.rs", mixed),
                ("crates/server/tests/a.rs", "fn f() { time::sleep_until(x) }\n"),
                ("xtask/src/x.rs", SLEEP),
            ]),
            [""; 0]
        );
    }

    #[test]
    fn a_sleep_in_a_tests_folder_is_reported() {
        let all = found(&[
            ("crates/core/tests/a.rs", SLEEP),
            ("crates/core/tests/help/b.rs", "use tokio::time::sleep;\n"),
            ("crates/core/src/tests.rs", SLEEP),
        ]);
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all[1].starts_with("crates/core/tests/a.rs:2: `thread::sleep`"), "{all:?}");
    }

    #[test]
    fn a_sleep_in_a_test_module_is_reported() {
        let inline = format!("fn f() {{}}\n#[cfg(test)]\nmod tests {{\n{SLEEP}}}\n");
        let all = found(&[("crates/node/src/disk.rs", &inline)]);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].starts_with("crates/node/src/disk.rs:5: "), "{all:?}");
    }

    #[test]
    fn a_sleep_in_a_declared_test_file_is_reported() {
        let all = found(&[
            ("crates/node/src/lib.rs", "#[cfg(test)]\nmod model;\n"),
            ("crates/node/src/model.rs", SLEEP),
            ("crates/node/src/disk.rs", "#[cfg(test)]\n#[expect(x)]\npub(crate) mod fake;\n"),
            ("crates/node/src/disk/fake.rs", SLEEP),
            ("crates/node/src/modeler.rs", SLEEP),
        ]);
        assert_eq!(all.len(), 2, "{all:?}");
    }
}
