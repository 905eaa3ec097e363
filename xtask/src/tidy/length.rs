//! Rule: no source file grows past what a person reads in one sitting.
//!
//! State machines rot at the big `match`. The bound is lower where a mistake costs safety. Long
//! functions are left to review.

use super::finding::Finding;
use super::tree::Tree;

/// Where a mistake can give one lock to two holders.
const STRICT: [&str; 2] = ["crates/core/src/", "crates/node/src/"];
const LINES_MAX_STRICT: usize = 600;
const LINES_MAX: usize = 800;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.below("crates/", ".rs") {
        // The part after `crates/<room>/` says whether it is shipped source.
        if path.split('/').nth(2) != Some("src") {
            continue;
        }
        let strict = STRICT.iter().any(|folder| path.starts_with(folder));
        let bound = if strict { LINES_MAX_STRICT } else { LINES_MAX };
        let lines = text.lines().count();
        if lines > bound {
            let what = format!("{lines} lines, {bound} are allowed: split it by verb or by type");
            findings.push(Finding::new(path, bound + 1, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    #[test]
    fn files_at_the_bound_pass() {
        let (strict, other) = ("x\n".repeat(LINES_MAX_STRICT), "x\n".repeat(LINES_MAX));
        let tests = "x\n".repeat(LINES_MAX * 2);
        let tree = Tree::of(&[
            ("crates/core/src/a.rs", &strict),
            ("crates/node/src/a/b.rs", &strict),
            ("crates/server/src/a.rs", &other),
            ("crates/core/tests/a.rs", &tests),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn files_past_the_bound_are_reported() {
        let (strict, other) = ("x\n".repeat(LINES_MAX_STRICT + 1), "x\n".repeat(LINES_MAX + 1));
        let tree = Tree::of(&[
            ("crates/core/src/a.rs", &strict),
            ("crates/node/src/a.rs", &strict),
            ("crates/server/src/a.rs", &other),
        ]);
        let found = shown(&check(&tree));
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("crates/core/src/a.rs:601: 601 lines, 600"), "{found:?}");
        assert!(found[2].starts_with("crates/server/src/a.rs:801: 801 lines, 800"), "{found:?}");
    }
}
