//! The files of the repository, read once and shared by all checks.
//!
//! Guarantees: paths are relative to the root, use `/`, and come in one order on every machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

/// Every file that is in the repository or would be added to it.
#[derive(Default)]
pub(crate) struct Tree {
    /// Path to text. `None` for a file that is not UTF-8, which no check reads.
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    pub(crate) fn load(root: &Path) -> anyhow::Result<Self> {
        let paths = match git_paths(root) {
            Some(paths) => paths,
            None => {
                eprintln!("tidy: git does not list this folder, so every file in it is read");
                walk(root)?
            }
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let full = root.join(&path);
            // Git lists a deleted file until the deletion is staged, and a link to a folder.
            if full.is_file() {
                let bytes = fs::read(&full).with_context(|| format!("cannot read {path}"))?;
                files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        Ok(Self { files })
    }

    /// All text files with their contents.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text files below `folder`, which ends in a slash, whose names end in `ending`.
    pub(crate) fn below(&self, folder: &str, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.starts_with(folder) && path.ends_with(ending))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Whether `path` is a file, or a folder with a file in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }

    /// A tree that exists only in a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), Some((*text).to_owned()));
        Self { files: files.iter().map(own).collect() }
    }
}

/// Tracked files and those a commit would add. `None` without git, outside a repository, or where
/// an outer repository ignores this folder.
fn git_paths(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let list = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> =
        list.split('\0').filter(|path| !path.is_empty()).map(ToOwned::to_owned).collect();
    paths.iter().any(|path| path == "Cargo.toml").then_some(paths)
}

/// All files below `root` except build output and git's own.
fn walk(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder))
            .with_context(|| format!("cannot list folder `{folder}`"))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let kind = entry.file_type()?;
            let path = format!("{folder}{name}");
            if kind.is_file() {
                paths.push(path);
            } else if kind.is_dir() && name != ".git" && name != "target" {
                folders.push(format!("{path}/"));
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process;

    use super::*;

    #[test]
    fn a_folder_exists_if_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/adr/001.md", ""), ("docs-old.md", "")]);
        assert!(tree.has("docs"));
        assert!(tree.has("docs/adr"));
        assert!(tree.has("docs/adr/001.md"));
        assert!(!tree.has("docs/adr/001"));
        assert!(!tree.has("doc"));
    }

    #[test]
    fn a_folder_unknown_to_git_is_walked_without_its_build_output() {
        let root = env::temp_dir().join(format!("fencepost-xtask-walk-{}", process::id()));
        for folder in ["src", "target", ".git"] {
            fs::create_dir_all(root.join(folder)).expect("the temporary folder is ours");
            fs::write(root.join(folder).join("a.rs"), "x").expect("the temporary folder is ours");
        }
        fs::write(root.join("image"), [0xff, 0xfe]).expect("the temporary folder is ours");
        let tree = Tree::load(&root).expect("the temporary folder is readable");
        fs::remove_dir_all(&root).expect("the temporary folder is ours");

        assert_eq!(tree.texts().collect::<Vec<_>>(), [("src/a.rs", "x")]);
        assert!(tree.has("image"));
    }
}
