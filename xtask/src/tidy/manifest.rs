//! Reading a `Cargo.toml` far enough for the checks: which section sets which key.
//!
//! Refuses: being a TOML parser. It knows section headings, `key = value` on one line, and values
//! that go on over several lines.

use super::source::numbered;

/// One `key = value` of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) section: &'a str,
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
    pub(crate) line: usize,
}

/// The entries in order. A section that stands for one dependency (`[dependencies.x]`) is an entry
/// `x` of `dependencies` too, so that both spellings count alike.
pub(crate) fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    let mut section = "";
    let mut open = 0_usize;
    for (line, raw) in numbered(text) {
        let content = raw.split('#').next().unwrap_or_default().trim();
        if open > 0 {
            open = depth_after(open, content);
            continue;
        }
        if let Some(heading) = content.strip_prefix('[') {
            section = heading.trim_end_matches(']').trim();
            if let Some((parent, key)) = section.rsplit_once('.')
                && is_dependencies(parent)
            {
                found.push(Entry { section: parent, key, value: "", line });
            }
        } else if let Some((key, value)) = content.split_once('=') {
            let value = value.trim();
            open = depth_after(0, value);
            found.push(Entry { section, key: key.trim(), value, line });
        }
    }
    found
}

/// Whether `section` lists what the crate itself is built from, for any target.
pub(crate) fn is_dependencies(section: &str) -> bool {
    section == "dependencies"
        || (section.starts_with("target.") && section.ends_with(".dependencies"))
}

fn depth_after(before: usize, content: &str) -> usize {
    content.chars().fold(before, |depth, letter| match letter {
        '[' | '{' => depth + 1,
        ']' | '}' => depth.saturating_sub(1),
        _ => depth,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_keys_and_long_values() {
        let text = "[package]\nname = \"a\" # why\n\n[dependencies]\nb = { features = [\n  \"x = 1\",\n] }\nc.workspace = true\n\n[dependencies.d]\nversion = \"1\"\n";
        let found = entries(text);
        let shown: Vec<_> = found.iter().map(|e| (e.section, e.key, e.line)).collect();
        assert_eq!(
            shown,
            [
                ("package", "name", 2),
                ("dependencies", "b", 5),
                ("dependencies", "c.workspace", 8),
                ("dependencies", "d", 10),
                ("dependencies.d", "version", 11),
            ]
        );
        assert_eq!(found[0].value, "\"a\"");
    }

    #[test]
    fn dependencies_for_one_target_count_too() {
        assert!(is_dependencies("dependencies"));
        assert!(is_dependencies("target.'cfg(unix)'.dependencies"));
        assert!(!is_dependencies("dev-dependencies"));
        assert!(!is_dependencies("workspace.dependencies"));
    }
}
