//! Rule: a test that a row names also names the row, and the other way round.
//!
//! A name on the page alone would keep its place when the test becomes another one. Who changes a test
//! reads above it what it must go on to show.

use std::collections::{BTreeMap, BTreeSet};

use super::super::finding::Finding;
use super::super::source::numbered;
use super::super::tree::Tree;
use super::functions::{COMMENT, Tests, ids};
use super::rows::Row;
use super::{PAGE, SCRIPTS};

/// How a script says which requirements it shows, among the first lines of the file.
const SCRIPT_COMMENT: &str = "# Requirements: ";

/// A test or a script, as the page names it, with the place of its comment.
struct Claim<'a> {
    path: &'a str,
    line: usize,
    id: &'a str,
    reference: String,
}

pub(super) fn check(tree: &Tree, tests: &Tests<'_>, rows: &[Row<'_>]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tests
        .strays
        .iter()
        .map(|(path, line)| {
            Finding::new(path, *line, "the comment belongs to no test: put it above `#[test]`")
        })
        .collect();
    let claims = claims(tree, tests, &mut findings);
    let named: BTreeMap<&str, BTreeSet<&str>> =
        rows.iter().map(|row| (row.id, row.references().collect())).collect();
    for claim in &claims {
        let Claim { path, line, id, reference } = claim;
        if named.get(id).is_none_or(|references| !references.contains(reference.as_str())) {
            let what =
                format!("{id} does not name `{reference}`: add it to its row, or remove it here");
            findings.push(Finding::new(path, *line, what));
        }
    }
    let claimed: BTreeSet<(&str, &str)> =
        claims.iter().map(|claim| (claim.id, claim.reference.as_str())).collect();
    for row in rows {
        let silent = row.references().filter(|reference| !claimed.contains(&(row.id, reference)));
        for reference in silent.filter(|reference| exists(tree, tests, reference)) {
            let what = missing(tests, reference, row.id);
            findings.push(Finding::new(PAGE, row.line, what));
        }
    }
    findings
}

/// What does not exist is the business of another rule.
fn exists(tree: &Tree, tests: &Tests<'_>, reference: &str) -> bool {
    let test = reference.split_once("::");
    tree.text(reference).is_some() || test.is_some_and(|(room, name)| tests.has(room, name))
}

fn missing(tests: &Tests<'_>, reference: &str, id: &str) -> String {
    let Some((room, name)) = reference.split_once("::") else {
        return format!(
            "`{reference}` does not name {id}: put `{SCRIPT_COMMENT}{id}.` at the end of its header"
        );
    };
    let place = tests.place(room, name).unwrap_or_default();
    format!("`{reference}` does not name {id}: put `{COMMENT}{id}.` above it, at {place}")
}

/// Everything that tests and scripts say they show, and a finding for each list that cannot be read.
fn claims<'a>(tree: &'a Tree, tests: &Tests<'a>, findings: &mut Vec<Finding>) -> Vec<Claim<'a>> {
    let mut lists: Vec<(&str, usize, &str, String)> = Vec::new();
    for (room, path, test) in tests.all() {
        let reference = format!("{room}::{}", test.name);
        let of_test = test.claims.iter();
        lists.extend(of_test.map(|(line, list)| (path, *line, *list, reference.clone())));
    }
    for (path, text) in tree.below(SCRIPTS, ".txt") {
        let head = numbered(text).take_while(|(_, line)| line.starts_with('#'));
        let of_script =
            head.filter_map(|(line, text)| Some((line, text.strip_prefix(SCRIPT_COMMENT)?)));
        lists.extend(of_script.map(|(line, list)| (path, line, list, path.to_owned())));
    }
    let mut claims = Vec::new();
    for (path, line, list, reference) in lists {
        match ids(list) {
            Some(ids) => claims.extend(ids.into_iter().map(|id| {
                let reference = reference.clone();
                Claim { path, line, id, reference }
            })),
            None => {
                let what = "not a list of ids: write `S0-001, S1-002.`, with a full stop";
                findings.push(Finding::new(path, line, what));
            }
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::super::super::finding::shown;
    use super::super::rows::rows;
    use super::*;

    const FILE: &str = "crates/core/tests/t.rs";
    const SCRIPT: &str = "crates/core/tests/scripts/a.txt";

    /// The findings for a page with two rows, a file with a test `grows`, and a script.
    fn found(row: &str, comment: &str, head: &str) -> Vec<String> {
        let page = format!("| S0-001 | x | {row} |\n| S0-002 | y | not yet |\n");
        let code = format!("{comment}\n#[test]\nfn grows() {{}}\n");
        let script = format!("# Tokens grow.\n{head}\nacquire a\n");
        let tree = Tree::of(&[(PAGE, &page), (FILE, &code), (SCRIPT, &script)]);
        let (rows, _) = rows(&page);
        shown(&check(&tree, &Tests::of(&tree), &rows))
    }

    #[test]
    fn a_page_and_tests_that_agree_pass() {
        let row = format!("`core::grows`, `{SCRIPT}`; differs: [so](a.md)");
        assert_eq!(found(&row, "// Requirements: S0-001.", "# Requirements: S0-001."), [""; 0]);
        assert_eq!(found("not yet", "// Why.", "# Why."), [""; 0]);
    }

    #[test]
    fn a_test_that_does_not_name_its_row_is_reported() {
        for comment in ["// Why.", "// Requirements: S0-001.\n"] {
            let all = found("`core::grows`", comment, "# Why.");
            assert!(all.iter().any(|one| one.starts_with("docs/requirements.md:1: ")), "{all:?}");
        }
        let all = found("`core::grows`", "// Why.", "# Why.");
        assert_eq!(
            all,
            ["docs/requirements.md:1: `core::grows` does not name S0-001: put \
              `// Requirements: S0-001.` above it, at crates/core/tests/t.rs:3"]
        );
    }

    #[test]
    fn a_script_that_does_not_name_its_row_is_reported() {
        for head in ["# Why.", "acquire b\n# Requirements: S0-001."] {
            let all = found(&format!("`{SCRIPT}`"), "// Why.", head);
            assert_eq!(
                all,
                [
                    "docs/requirements.md:1: `crates/core/tests/scripts/a.txt` does not name S0-001: \
                  put `# Requirements: S0-001.` at the end of its header"
                ]
            );
        }
    }

    #[test]
    fn a_row_that_does_not_name_its_test_is_reported() {
        for id in ["S0-002", "S9-001"] {
            let all = found("not yet", &format!("// Requirements: {id}."), "# Why.");
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].starts_with(&format!("{FILE}:1: {id} does not name `core::grows`")));
            let all = found("not yet", "// Why.", &format!("# Requirements: {id}."));
            assert_eq!(all.len(), 1, "{all:?}");
            assert!(all[0].starts_with(&format!("{SCRIPT}:2: {id} does not name `{SCRIPT}`")));
        }
    }

    #[test]
    fn a_list_that_cannot_be_read_is_reported() {
        let all = found("not yet", "// Requirements: S0-001", "# Requirements: tokens grow.");
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all.iter().all(|one| one.contains("not a list of ids")), "{all:?}");
    }

    #[test]
    fn a_comment_without_a_test_is_reported() {
        let all = found("not yet", "// Requirements: S0-001.\n", "# Why.");
        assert_eq!(
            all,
            [format!("{FILE}:1: the comment belongs to no test: put it above `#[test]`")]
        );
    }
}
