//! Rule: every requirement of the founding documents is listed, and every claim to meet one names
//! a test that exists.
//!
//! The page may be split into several tables. What counts is the sequence of all their rows.
//!
//! What stands in the last cell of a row: `not yet`; or tests; or a remark that says where we differ
//! on purpose, or which page it is about; or tests, a semicolon and a remark.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::numbered;
use super::tree::Tree;

const PAGE: &str = "docs/requirements.md";
const SCRIPTS: &str = "crates/core/tests/scripts/";
const OPEN: &str = "not yet";
/// Remarks begin so, and link to the page that says more.
const REMARKS: [&str; 2] = ["differs: ", "page: "];
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
    let ids = expected_ids();
    let (rows, mut findings) = rows(text);
    findings.extend(check_sequence(&rows, &ids));
    let tests = Tests::of(tree);
    for row in &rows {
        findings.extend(check_row(tree, &tests, row));
    }
    findings
}

struct Row<'a> {
    line: usize,
    id: &'a str,
    requirement: &'a str,
    shown_by: &'a str,
}

fn expected_ids() -> Vec<String> {
    DOCUMENTS
        .iter()
        .flat_map(|(prefix, count)| (1..=*count).map(move |number| format!("{prefix}-{number:03}")))
        .collect()
}

/// All table rows but headings and rulers, and a finding for each row of another shape.
fn rows(text: &str) -> (Vec<Row<'_>>, Vec<Finding>) {
    let mut rows = Vec::new();
    let mut findings = Vec::new();
    for (line, content) in numbered(text).filter(|(_, content)| content.starts_with('|')) {
        match cells(content)[..] {
            ["id", "requirement", "shown by"] => {}
            [a, b, c] if [a, b, c].iter().all(|cell| is_ruler(cell)) => {}
            [id, requirement, shown_by] => rows.push(Row { line, id, requirement, shown_by }),
            _ => {
                let what = "not a row of three cells: write `| id | requirement | shown by |`, and `\\|` for a bar inside a cell";
                findings.push(Finding::new(PAGE, line, what));
            }
        }
    }
    (rows, findings)
}

fn cells(row: &str) -> Vec<&str> {
    let inner = row.trim().trim_start_matches('|');
    let mut cells = Vec::new();
    let mut from = 0;
    for (at, _) in inner.match_indices('|') {
        if !inner[..at].ends_with('\\') {
            cells.push(inner[from..at].trim());
            from = at + 1;
        }
    }
    // A row that does not end in a bar has one cell more.
    if !inner[from..].is_empty() {
        cells.push(inner[from..].trim());
    }
    cells
}

fn is_ruler(cell: &str) -> bool {
    !cell.is_empty() && cell.chars().all(|letter| letter == '-' || letter == ':')
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

/// The tests that are named, and what is remarked behind them. Whether the linked page exists is
/// the business of another rule.
fn split_remark(cell: &str) -> (&str, Option<&str>) {
    let begins = |text: &str| REMARKS.iter().any(|word| text.starts_with(word));
    match cell.split_once("; ") {
        _ if begins(cell) => ("", Some(cell)),
        Some((references, remark)) if begins(remark) => (references, Some(remark)),
        _ => (cell, None),
    }
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

/// Every test function, as its room and its name.
struct Tests<'a>(BTreeSet<(&'a str, &'a str)>);

impl<'a> Tests<'a> {
    fn of(tree: &'a Tree) -> Self {
        let mut all = BTreeSet::new();
        for (path, text) in tree.below("", ".rs") {
            let room = match path.split('/').collect::<Vec<_>>()[..] {
                ["crates", room, _, ..] => room,
                ["xtask", _, ..] => "xtask",
                _ => continue,
            };
            all.extend(test_names(text).map(|name| (room, name)));
        }
        Self(all)
    }

    fn has(&self, room: &str, name: &str) -> bool {
        self.0.contains(&(room, name))
    }
}

/// The functions of `text` that carry a test attribute. A helper with a telling name shows nothing.
fn test_names(text: &str) -> impl Iterator<Item = &str> {
    let mut marked = false;
    text.lines().filter_map(move |raw| {
        let line = raw.trim();
        let (attributes, item) = line.rfind("] ").map_or(("", line), |at| line.split_at(at + 1));
        if line.starts_with("#[") {
            marked |= line.contains("test]") || line.contains("test(");
        }
        let item = if attributes.starts_with("#[") { item.trim() } else { line };
        if let Some(name) = function_name(item) {
            return std::mem::take(&mut marked).then_some(name);
        }
        // Comments and further attributes may stand between the attribute and its function.
        marked &= line.starts_with('#') || line.starts_with("//");
        None
    })
}

fn function_name(item: &str) -> Option<&str> {
    let plain = item.trim_start_matches("pub ").trim_start_matches("async ");
    plain.strip_prefix("fn ")?.split_once('(').map(|(name, _)| name.trim())
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
        shown(&check(&Tree::of(&files)))
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
