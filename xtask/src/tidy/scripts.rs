//! Rule: every transcript of the state machine says what it shows.
//!
//! A transcript is rewritten by a machine when behaviour changes. Its first line is the only part
//! that tells a reader whether the new outcome is still the intended one.

use super::finding::Finding;
use super::tree::Tree;

const FOLDER: &str = "crates/core/tests/scripts/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.below(FOLDER, ".txt")
        .filter(|(_, text)| !is_titled(text))
        .map(|(path, _)| {
            Finding::new(
                path,
                1,
                "no title: begin with `# ` and a sentence that says what it shows",
            )
        })
        .collect()
}

fn is_titled(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("# ").is_some_and(|title| !title.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    #[test]
    fn a_titled_script_passes() {
        let tree = Tree::of(&[("crates/core/tests/scripts/a.txt", "# Tokens grow.\nacquire a\n")]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn scripts_without_a_title_are_reported() {
        for text in ["acquire a\n", "#\nacquire a\n", "#  \n", "", "\n# Late.\n"] {
            let found = shown(&check(&Tree::of(&[("crates/core/tests/scripts/a.txt", text)])));
            assert_eq!(found.len(), 1, "{text:?}");
            assert!(
                found[0].starts_with("crates/core/tests/scripts/a.txt:1: no title"),
                "{found:?}"
            );
        }
    }
}
