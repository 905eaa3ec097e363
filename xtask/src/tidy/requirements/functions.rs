//! The test functions of the workspace, and the requirements that each says it shows.
//!
//! Refuses: parsing Rust. It reads line by line, as the code is formatted.

use std::collections::{BTreeMap, BTreeSet};

use super::super::source::numbered;
use super::super::tree::Tree;

/// Where a test says which requirements it shows.
pub(super) const COMMENT: &str = "// Requirements: ";

/// A test function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Test<'a> {
    pub(super) name: &'a str,
    pub(super) line: usize,
    /// The lists of its comments, each with its line.
    pub(super) claims: Vec<(usize, &'a str)>,
}

/// What one file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Functions<'a> {
    pub(super) tests: Vec<Test<'a>>,
    /// The lines of comments that belong to no test.
    pub(super) strays: Vec<usize>,
}

/// Every test function by its room and its name, with its file. Two modules may have tests of one name.
#[derive(Default)]
pub(super) struct Tests<'a> {
    by_name: BTreeMap<(&'a str, &'a str), Vec<(&'a str, Test<'a>)>>,
    /// Comments that belong to no test: file and line.
    pub(super) strays: Vec<(&'a str, usize)>,
}

impl<'a> Tests<'a> {
    pub(super) fn of(tree: &'a Tree) -> Self {
        let mut all = Tests::default();
        for (path, text) in tree.below("", ".rs") {
            let room = match path.split('/').collect::<Vec<_>>()[..] {
                ["crates", room, _, ..] => room,
                ["xtask", _, ..] => "xtask",
                _ => continue,
            };
            let found = functions(text);
            all.strays.extend(found.strays.into_iter().map(|line| (path, line)));
            for test in found.tests {
                all.by_name.entry((room, test.name)).or_default().push((path, test));
            }
        }
        all
    }

    pub(super) fn has(&self, room: &str, name: &str) -> bool {
        self.by_name.contains_key(&(room, name))
    }

    /// Where the first test of this name is.
    pub(super) fn place(&self, room: &str, name: &str) -> Option<String> {
        let (path, test) = self.by_name.get(&(room, name))?.first()?;
        Some(format!("{path}:{}", test.line))
    }

    /// All tests, each with its room and its file.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'a str, &'a str, &Test<'a>)> {
        self.by_name.iter().flat_map(|((room, _), tests)| {
            tests.iter().map(move |(path, test)| (*room, *path, test))
        })
    }
}

/// The ids in the list of a comment, which ends in a full stop. None if it is no such list.
pub(super) fn ids(list: &str) -> Option<BTreeSet<&str>> {
    let ids: Vec<&str> = list.strip_suffix('.')?.split(", ").collect();
    let is_id = |id: &&str| matches!(id.split_once('-'), Some((a, b)) if is_word(a) && is_word(b));
    ids.iter().all(is_id).then(|| ids.into_iter().collect())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_alphanumeric())
}

/// The functions that carry a test attribute. A helper with a telling name shows nothing.
pub(super) fn functions(text: &str) -> Functions<'_> {
    let mut found = Functions::default();
    let mut is_test = false;
    let mut claims: Vec<(usize, &str)> = Vec::new();
    for (number, raw) in numbered(text) {
        let line = raw.trim();
        let (attributes, item) = line.rfind("] ").map_or(("", line), |at| line.split_at(at + 1));
        if line.starts_with("#[") {
            is_test |= line.contains("test]") || line.contains("test(");
        }
        if let Some(list) = line.strip_prefix(COMMENT) {
            claims.push((number, list));
        }
        let item = if attributes.starts_with("#[") { item.trim() } else { line };
        let name = function_name(item).filter(|_| is_test);
        if let Some(name) = name {
            let claims = std::mem::take(&mut claims);
            found.tests.push(Test { name, line: number, claims });
            is_test = false;
        }
        // Comments and further attributes may stand between these and the function.
        if !line.starts_with('#') && !line.starts_with("//") {
            is_test = false;
            found.strays.extend(claims.drain(..).map(|(line, _)| line));
        }
    }
    found.strays.extend(claims.into_iter().map(|(line, _)| line));
    found
}

fn function_name(item: &str) -> Option<&str> {
    let plain = item.trim_start_matches("pub ").trim_start_matches("async ");
    plain.strip_prefix("fn ")?.split_once('(').map(|(name, _)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(text: &str) -> Vec<(&str, Vec<&str>)> {
        let tests = functions(text).tests.into_iter();
        tests
            .map(|test| (test.name, test.claims.into_iter().map(|(_, list)| list).collect()))
            .collect()
    }

    // A line of this file must not begin like a comment that it is about.
    #[test]
    fn a_comment_belongs_to_the_test_below_it() {
        let text = [
            "/// Why.",
            "// Requirements: S0-001.",
            "#[test]",
            "fn a() {}",
            "",
            "// Requirements: S0-002, S0-003.",
            "// Requirements: S1-001.",
            "/// Why.",
            "#[cfg(unix)]",
            "#[tokio::test]",
            "async fn b() {}",
            "#[test]",
            "fn c() {}",
            "#[test]",
            "// Requirements: S0-004.",
            "fn d() {}",
            "#[test] fn e() {}",
        ];
        let text = text.join("\n");
        assert_eq!(
            claims(&text),
            [
                ("a", vec!["S0-001."]),
                ("b", vec!["S0-002, S0-003.", "S1-001."]),
                ("c", vec![]),
                ("d", vec!["S0-004."]),
                ("e", vec![]),
            ]
        );
        assert_eq!(functions(&text).strays, [0; 0]);
    }

    #[test]
    fn a_comment_without_a_test_is_a_stray() {
        let text = [
            "// Requirements: S0-001.",
            "",
            "#[test]",
            "fn a() {}",
            "// Requirements: S0-002.",
            "fn helper() {}",
            "// Requirements: S0-003.",
        ];
        let text = text.join("\n");
        assert_eq!(claims(&text), [("a", vec![])]);
        assert_eq!(functions(&text).strays, [1, 5, 7]);
    }

    #[test]
    fn a_list_has_ids_and_ends_in_a_full_stop() {
        assert_eq!(ids("S0-001."), Some(BTreeSet::from(["S0-001"])));
        assert_eq!(ids("S0-001, S1-002."), Some(BTreeSet::from(["S0-001", "S1-002"])));
        for bad in ["", ".", "S0-001", "S0-001 S1-002.", "S0-001,S1-002.", "all of it.", "S0-."] {
            assert_eq!(ids(bad), None, "{bad}");
        }
    }
}
