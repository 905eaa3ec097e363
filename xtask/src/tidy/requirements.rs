//! Rule: every requirement of the founding documents is listed, and every claim to meet one names
//! a test that exists. A test says of itself which requirements it shows, and the page and the tests say
//! the same.
//!
//! The page may be split into several tables. What counts is the sequence of all their rows.
//!
//! What stands in the last cell of a row: `not yet`; or tests; or a remark that says where we differ
//! on purpose, or which page it is about; or tests, a semicolon and a remark.

mod comments;
mod functions;
mod rows;

use std::collections::BTreeSet;

use functions::Tests;
use rows::{Row, rows, split_remark};

use super::finding::Finding;
use super::tree::Tree;

const PAGE: &str = "docs/requirements.md";
const SCRIPTS: &str = "crates/core/tests/scripts/";
const OPEN: &str = "not yet";
const LINK: &str = "](";

/// The founding documents in order: the prefix of its ids, and how many requirements it states.
/// The documents are finished, so these numbers do not change.
const DOCUMENTS: [(&str, u32); 5] = [
    LOCK_SERVICE_SPECIFICATION,
    RAFT_LOCKS_WITH_DATA_STORE,
    LEASE_ORCHESTRATOR,
    IN_MEMORY_PHASE_0,
    CASE_STUDY,
];
const LOCK_SERVICE_SPECIFICATION: (&str, u32) = ("S0", 139);
const RAFT_LOCKS_WITH_DATA_STORE: (&str, u32) = ("S1", 112);
const LEASE_ORCHESTRATOR: (&str, u32) = ("S2", 25);
const IN_MEMORY_PHASE_0: (&str, u32) = ("S3", 34);
const CASE_STUDY: (&str, u32) = ("S4", 40);

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(PAGE) else {
        return vec![Finding::new(PAGE, 1, "the page is missing: restore it")];
    };
    let (rows, mut findings) = rows(text);
    let tests = Tests::of(tree);
    findings.extend(check_rows(tree, &tests, &rows));
    findings.extend(comments::check(tree, &tests, &rows));
    findings
}

/// What the page says is complete, and names only what exists.
fn check_rows(tree: &Tree, tests: &Tests<'_>, rows: &[Row<'_>]) -> Vec<Finding> {
    let mut findings = check_sequence(rows, &expected_ids());
    for row in rows {
        findings.extend(check_row(tree, tests, row));
    }
    findings
}

fn expected_ids() -> Vec<String> {
    DOCUMENTS
        .iter()
        .flat_map(|(prefix, count)| (1..=*count).map(move |number| format!("{prefix}-{number:03}")))
        .collect()
}

fn check_sequence(rows: &[Row<'_>], ids: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = 0;
    for row in rows {
        let mut report = |what: String| findings.push(Finding::new(PAGE, row.line, what));
        match ids.iter().position(|id| id == row.id) {
            None => report(format!("unknown id `{}`: correct or remove it", row.id)),
            Some(_) if !seen.insert(row.id) => report(format!("{} stands twice: keep one", row.id)),
            Some(at) if at < next => report(format!("{} is out of order: move it up", row.id)),
            Some(at) => next = at + 1,
        }
    }
    let missing = ids.iter().filter(|id| !seen.contains(id.as_str()));
    findings
        .extend(missing.map(|id| Finding::new(PAGE, 1, format!("{id} is missing: add its row"))));
    findings
}

fn check_row(tree: &Tree, tests: &Tests<'_>, row: &Row<'_>) -> Vec<Finding> {
    let mut wrong = Vec::new();
    if row.requirement.is_empty() {
        wrong.push(format!("{} says nothing: describe the requirement", row.id));
    }
    if row.shown_by != OPEN {
        let (references, remark) = split_remark(row.shown_by);
        if remark.is_some_and(|remark| !remark.contains(LINK)) {
            wrong.push(format!("{} has a remark without a link: link to what says more", row.id));
        }
        if remark.is_none() || !references.is_empty() {
            let references = references.split(',').map(str::trim);
            wrong.extend(references.filter_map(|one| check_reference(tree, tests, one)));
        }
    }
    wrong.into_iter().map(|what| Finding::new(PAGE, row.line, what)).collect()
}

fn check_reference(tree: &Tree, tests: &Tests<'_>, quoted: &str) -> Option<String> {
    let Some(reference) = quoted.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else {
        return Some(format!("`{quoted}` is no reference: write `{OPEN}`, or tests in backticks"));
    };
    if reference.starts_with(SCRIPTS) && reference.ends_with(".txt") {
        let gone = tree.text(reference).is_none();
        return gone.then(|| format!("`{reference}` does not exist: name a script that does"));
    }
    let Some((room, name)) = reference.split_once("::") else {
        return Some(format!(
            "`{reference}` is neither `{SCRIPTS}NAME.txt` nor `CRATE::test_name`"
        ));
    };
    (!tests.has(room, name)).then(|| format!("no test `{name}` in `{room}`: name one that exists"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    const SCRIPT: &str = "crates/core/tests/scripts/a.txt";
    const CODE: &str = "proptest! {\n    #[test]\n    /// Why.\n    fn tokens_grow(x in 0..3) {}\n}\n\
                        fn helper() {}\n#[tokio::test]\n#[cfg(unix)]\nasync fn doors_close() {}\n";

    /// A full page in two tables in which `change` may replace a row.
    fn page(change: impl Fn(&str) -> String) -> String {
        let head = "\n| id | requirement | shown by |\n|---|---|---|\n";
        let rows: Vec<String> = expected_ids().iter().map(|id| change(id)).collect();
        let (first, second) = rows.split_at(100);
        format!("# Title\n{head}{}\n## Next\n{head}{}", first.concat(), second.concat())
    }

    fn plain(id: &str) -> String {
        format!("| {id} | a thing \\| another | not yet |\n")
    }

    fn found(page: &str) -> Vec<String> {
        let files = [
            (PAGE, page),
            (SCRIPT, "# A.\n"),
            ("crates/core/tests/t.rs", CODE),
            ("xtask/src/x.rs", CODE),
        ];
        let tree = Tree::of(&files);
        let (rows, mut findings) = rows(page);
        findings.extend(check_rows(&tree, &Tests::of(&tree), &rows));
        shown(&findings)
    }

    /// The findings if the row of S0-002 is `row`.
    fn found_with(row: &str) -> Vec<String> {
        found(&page(|id| if id == "S0-002" { row.to_owned() } else { plain(id) }))
    }

    #[test]
    fn all_ids_are_expected() {
        let ids = expected_ids();
        assert_eq!(ids.len(), 350);
        assert_eq!((ids[0].as_str(), ids[349].as_str()), ("S0-001", "S4-040"));
    }

    #[test]
    fn a_full_page_passes() {
        assert_eq!(found(&page(plain)), [""; 0]);
    }

    #[test]
    fn real_references_pass() {
        let row =
            format!("| S0-002 | x | `{SCRIPT}`, `core::tokens_grow`, `xtask::doors_close` |\n");
        assert_eq!(found_with(&row), [""; 0]);
    }

    #[test]
    fn remarks_pass_if_they_link_to_what_says_more() {
        for good in [
            "differs: we have one, see [why](adr/001.md)",
            "page: [comparison.md](comparison.md)",
            "`core::tokens_grow`; differs: not for shared ones, [here](a.md)",
        ] {
            assert_eq!(found_with(&format!("| S0-002 | x | {good} |\n")), [""; 0], "{good}");
        }
        for bad in [
            "differs: because",
            "page: comparison.md",
            "`core::tokens_shrink`; differs: [so](a.md)",
            "`core::tokens_grow`; [so](a.md)",
        ] {
            assert_eq!(found_with(&format!("| S0-002 | x | {bad} |\n")).len(), 1, "{bad}");
        }
    }

    #[test]
    fn references_to_nothing_are_reported() {
        for bad in [
            "",
            "yes",
            "core::tokens_grow",
            "`core::helper`",
            "`core::tokens_shrink`",
            "`node::tokens_grow`",
            "`crates/core/tests/scripts/b.txt`",
            "`crates/core/tests/t.rs`",
            "`core::tokens_grow`, not yet",
        ] {
            let all = found_with(&format!("| S0-002 | x | {bad} |\n"));
            assert_eq!(all.len(), 1, "{bad}: {all:?}");
            assert!(all[0].starts_with("docs/requirements.md:6: "), "{all:?}");
        }
    }

    #[test]
    fn missing_doubled_unknown_and_misplaced_ids_are_reported() {
        let cases = [
            (String::new(), "S0-002 is missing"),
            (plain("S0-002").repeat(2), "S0-002 stands twice"),
            (plain("S0-002") + &plain("S9-001"), "unknown id `S9-001`"),
            (plain("S0-002").replace("a thing \\| another", ""), "S0-002 says nothing"),
            ("| S0-002 | x |\n".to_owned() + &plain("S0-002"), "not a row of three cells"),
        ];
        for (rows, expected) in cases {
            let all = found_with(&rows);
            assert_eq!(all.len(), 1, "{expected}: {all:?}");
            assert!(all[0].contains(expected), "{all:?}");
        }
        let swapped = page(|id| match id {
            "S0-002" => plain("S0-003"),
            "S0-003" => plain("S0-002"),
            other => plain(other),
        });
        let all = found(&swapped);
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains("S0-002 is out of order"), "{all:?}");
    }

    #[test]
    fn a_missing_page_is_reported() {
        assert_eq!(
            shown(&check(&Tree::of(&[]))),
            ["docs/requirements.md:1: the page is missing: restore it"]
        );
    }
}
