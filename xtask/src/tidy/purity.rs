//! Rule: `core` is a pure function of the log.
//!
//! Two nodes that apply the same entries must reach the same state to the last byte. A clock, a
//! thread, a random number or a map with a random order would make them differ, and with them the
//! answer to who holds a lock.

use super::finding::Finding;
use super::manifest;
use super::source::{code, has_word, numbered};
use super::tree::Tree;

const SOURCES: &str = "crates/core/src/";
const LIB: &str = "crates/core/src/lib.rs";
const MANIFEST: &str = "crates/core/Cargo.toml";

/// Few enough that a person can read all of them.
const DEPENDENCIES_MAX: usize = 3;

/// A word that must not stand in the code, and what to use instead. The first that fits is
/// reported, so the particular ones stand before the general one.
const BANNED: [(&str, &str); 10] = [
    ("std::time", "take log time as an argument"),
    ("Instant", "take log time as an argument"),
    ("SystemTime", "take log time as an argument"),
    ("HashMap", "use BTreeMap, whose order is the same on every node"),
    ("HashSet", "use BTreeSet, whose order is the same on every node"),
    ("thread::", "return an effect and let the caller do the work"),
    ("rand::", "take the number as a part of the command"),
    ("getrandom", "take the number as a part of the command"),
    ("std::", "use core or alloc"),
    ("extern crate std", "use core or alloc"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.below(SOURCES, ".rs") {
        for (line, content) in numbered(text) {
            let content = code(content);
            if let Some((word, instead)) = BANNED.iter().find(|(word, _)| has_word(content, word)) {
                let what = format!("`{word}` makes core impure: {instead}");
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    if let Some(text) = tree.text(LIB)
        && !text.lines().any(|line| line.trim() == "#![no_std]")
    {
        findings.push(Finding::new(LIB, 1, "`#![no_std]` is missing: add it, without conditions"));
    }
    findings.extend(too_many_dependencies(tree));
    findings
}

fn too_many_dependencies(tree: &Tree) -> Option<Finding> {
    let entries = manifest::entries(tree.text(MANIFEST)?);
    let excess = entries
        .iter()
        .filter(|entry| manifest::is_dependencies(entry.section))
        .nth(DEPENDENCIES_MAX)?;
    let what = format!(
        "core has more than {DEPENDENCIES_MAX} dependencies: do without `{}`, or write it here",
        excess.key
    );
    Some(Finding::new(MANIFEST, excess.line, what))
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    #[test]
    fn a_pure_core_passes() {
        let lib = "#![no_std]\n//! No `std::time`, no HashMap.\nextern crate alloc;\n";
        let code = "use alloc::collections::BTreeMap; // not std::collections\nuse operand::X;\n";
        let manifest =
            "[dependencies]\na = \"1\"\nb = \"1\"\n[dev-dependencies]\nc = \"1\"\nd = \"1\"\n";
        let tree = Tree::of(&[
            (LIB, lib),
            ("crates/core/src/lock/acquire.rs", code),
            (MANIFEST, manifest),
            ("crates/node/src/disk.rs", "use std::time::Instant;\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn every_banned_word_is_reported_once_with_its_line() {
        for (word, _) in BANNED {
            let text = format!("\nlet x = {word} ;\n");
            let tree = Tree::of(&[("crates/core/src/a.rs", &text)]);
            let found = shown(&check(&tree));
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with("crates/core/src/a.rs:2: "), "{found:?}");
        }
    }

    #[test]
    fn a_core_with_std_is_reported() {
        let tree = Tree::of(&[(LIB, "#![cfg_attr(not(test), no_std)]\n")]);
        assert!(shown(&check(&tree))[0].contains("`#![no_std]` is missing"));
    }

    #[test]
    fn a_fourth_dependency_is_reported() {
        let manifest =
            "[dependencies]\na = \"1\"\nb = \"1\"\nc = \"1\"\n[dependencies.d]\nversion = \"1\"\n";
        let found = shown(&check(&Tree::of(&[(MANIFEST, manifest)])));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/core/Cargo.toml:5: "), "{found:?}");
        assert!(found[0].contains("`d`"), "{found:?}");
    }
}
