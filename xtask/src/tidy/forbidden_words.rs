//! Rule: words that have no place in a finished file.
//!
//! Paths of one machine, notes to oneself, and tests that are switched off. The needles are put
//! together at compile time, because this file is searched like any other.

use super::finding::Finding;
use super::source::{has_word, numbered};
use super::tree::Tree;

/// Folders that exist on one machine only.
const PATHS: [&str; 3] = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

/// The word, and what to do about it.
const WORDS: [(&str, &str); 7] = [
    (concat!("FIX", "ME"), "mend it, or write down why it stays"),
    (concat!("XX", "X"), "mend it, or write down why it stays"),
    (concat!("#[ig", "nore"), "make the test pass, or delete it"),
    (concat!("db", "g!("), "remove it"),
    (concat!("to", "do!("), "write it, or return an error that says it is missing"),
    (concat!("arti", "factory"), "name the public registry"),
    (concat!("Arti", "factory"), "name the public registry"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        for (line, content) in numbered(text) {
            for folder in PATHS.iter().filter(|folder| has_absolute(content, folder)) {
                let what = format!("`{folder}` is a path of one machine: use a relative one");
                findings.push(Finding::new(path, line, what));
            }
            for (word, remedy) in WORDS.iter().filter(|(word, _)| has_word(content, word)) {
                findings.push(Finding::new(path, line, format!("`{word}`: {remedy}")));
            }
        }
    }
    findings
}

/// Whether `folder` begins a path here. After a name, a dot or a closing brace it goes on with
/// one, as in an address or in `${dir}/...`.
fn has_absolute(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || "_-.})".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    #[test]
    fn harmless_relatives_pass() {
        let text = "mktemp -d x.XXXXXX\nsee https://example.org/home/a and ./work/b\nfixme_count\n";
        assert_eq!(check(&Tree::of(&[("docs/a.md", text)])), []);
    }

    #[test]
    fn every_word_is_reported_in_any_text_file() {
        for (word, _) in WORDS {
            let found = shown(&check(&Tree::of(&[("a", &format!("\n({word} x\n"))])));
            assert_eq!(found.len(), 1, "{word}: {found:?}");
            assert!(found[0].starts_with("a:2: "), "{found:?}");
        }
    }

    #[test]
    fn every_machine_path_is_reported() {
        for folder in PATHS {
            for text in [format!("cd {folder}x"), format!("`file://{folder}x`"), folder.to_owned()]
            {
                let found = check(&Tree::of(&[("a.sh", &text)]));
                assert_eq!(found.len(), 1, "{text}: {found:?}");
            }
        }
    }
}
