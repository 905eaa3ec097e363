//! Rule: every crate takes its licence and its lints from the workspace.
//!
//! A crate that sets its own would drift: a new lint would not reach it, and nobody would notice.

use super::finding::Finding;
use super::manifest::{self, Entry};
use super::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.below("", "/Cargo.toml").filter(|(path, _)| is_member(path)) {
        let entries = manifest::entries(text);
        if !entries.iter().any(|entry| is(entry, "package", "license.workspace")) {
            let what = "the licence is not inherited: put `license.workspace = true` in [package]";
            findings.push(Finding::new(path, 1, what));
        }
        if !entries.iter().any(|entry| is(entry, "lints", "workspace")) {
            let what = "the lints are not inherited: put `workspace = true` in [lints]";
            findings.push(Finding::new(path, 1, what));
        }
    }
    findings
}

fn is_member(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "Cargo.toml"] | ["xtask", "Cargo.toml"])
}

fn is(entry: &Entry<'_>, section: &str, key: &str) -> bool {
    entry.section == section && entry.key == key && entry.value == "true"
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    #[test]
    fn a_crate_that_inherits_both_passes() {
        let good = "[package]\nlicense.workspace = true\n[lints]\nworkspace = true\n";
        let tree = Tree::of(&[
            ("crates/core/Cargo.toml", good),
            ("xtask/Cargo.toml", good),
            ("Cargo.toml", "[workspace]\n"),
            ("fuzz/Cargo.toml", "[package]\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_crate_that_sets_its_own_is_reported() {
        let own = "[package]\nlicense = \"MIT\"\n[lints.clippy]\nunwrap_used = \"allow\"\n";
        let found = shown(&check(&Tree::of(&[("crates/core/Cargo.toml", own)])));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("license.workspace"), "{found:?}");
        assert!(found[1].contains("[lints]"), "{found:?}");
    }

    #[test]
    fn the_key_in_the_wrong_section_is_reported() {
        let wrong = "[package]\nworkspace = true\n[lints]\nlicense.workspace = true\n";
        assert_eq!(check(&Tree::of(&[("xtask/Cargo.toml", wrong)])).len(), 2);
    }
}
