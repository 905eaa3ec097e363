//! Rule: a relative link in a Markdown file leads somewhere.
//!
//! Refuses: looking at the network, and at anchors. A link counts as good if its file is in the
//! repository, because a file that git ignores is not there for anyone else.

use super::finding::Finding;
use super::source::numbered;
use super::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.below("", ".md") {
        let mut fenced = false;
        for (line, content) in numbered(text) {
            let start = content.trim_start();
            if start.starts_with("```") || start.starts_with("~~~") {
                fenced = !fenced;
            } else if !fenced {
                let broken = targets(content).filter(|target| is_broken(tree, path, target));
                findings.extend(broken.map(|target| {
                    let what = format!("`{target}` does not exist: mend the link or add the file");
                    Finding::new(path, line, what)
                }));
            }
        }
    }
    findings
}

/// What the links of one line point to, written `[text](target)` or `[label]: target`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    // Every other part between backticks is code, where brackets mean something else.
    let prose = line.split('`').step_by(2);
    let inline = prose.flat_map(|part| {
        part.split("](").skip(1).filter_map(|rest| rest.split(')').next()).map(target)
    });
    let labelled = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline.chain(labelled.map(|(_, rest)| target(rest)))
}

/// A target without its title, angle brackets and anchor.
fn target(text: &str) -> &str {
    let first = text.split_whitespace().next().unwrap_or_default();
    let plain = first.trim_start_matches('<').trim_end_matches('>');
    plain.split('#').next().unwrap_or_default()
}

fn is_broken(tree: &Tree, page: &str, target: &str) -> bool {
    let elsewhere = ["http://", "https://", "mailto:"].iter().any(|way| target.starts_with(way));
    if target.is_empty() || elsewhere {
        return false;
    }
    resolve(page, target).is_none_or(|path| !tree.has(&path))
}

/// The path of `target` as seen from `page`. `None` if it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = match target.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => page.split('/').collect(),
    };
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::shown;
    use super::*;

    fn found(page: &str, text: &str) -> Vec<String> {
        shown(&check(&Tree::of(&[(page, text), ("docs/a.md", ""), ("src/lib.rs", "")])))
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let good = "[a](a.md) [b](../src/lib.rs#L1 \"title\") [c](../src) [d](/docs/a.md) [e](<a.md>)\n\
                    [f](https://example.org/x) [g](mailto:a@example.org) [h](#part) [i](..)\n\
                    code `x[0](y)` is no link\n```\n[j](nowhere.md)\n```\n[k]: a.md\n";
        assert_eq!(found("docs/page.md", good), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_reported() {
        for bad in ["[a](b.md)", "[a](../../a.md)", "[a](a)", "[a]: b.md", "`x` ![a](img/b.png#x)"]
        {
            let all = found("docs/page.md", &format!("\n{bad}\n"));
            assert_eq!(all.len(), 1, "{bad}: {all:?}");
            assert!(all[0].starts_with("docs/page.md:2: "), "{all:?}");
        }
    }

    #[test]
    fn only_markdown_is_read() {
        assert_eq!(found("docs/page.txt", "[a](b.md)\n"), [""; 0]);
    }
}
