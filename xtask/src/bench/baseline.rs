//! The earlier build that a run is compared with.
//!
//! Guarantees: it is built as the present one is, from a clean work tree of the revision, into a target
//! directory of its own. Both are kept, so that a second run against the same revision builds nothing,
//! and one against a neighbour little.
//! Refuses: touching the work tree that it is called in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

use super::build::{Build, FENCEPOST};

/// Tags of releases look like this.
const RELEASES: &str = "v[0-9]*";

/// What to compare with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing, whatever there is.
    Nothing,
    /// The last release, if there is one.
    Release,
    Revision(String),
}

impl Wanted {
    /// What the options ask for. A quick run is the guard before a change lands, so it has a baseline
    /// unless somebody wants none.
    pub(crate) fn of(baseline: Option<String>, is_quick: bool) -> Wanted {
        match baseline {
            Some(none) if none == "none" => Wanted::Nothing,
            Some(revision) => Wanted::Revision(revision),
            None if is_quick => Wanted::Release,
            None => Wanted::Nothing,
        }
    }
}

/// An earlier build.
pub(crate) struct Baseline {
    pub(crate) program: PathBuf,
    /// For people: what was asked for, and which commit that is.
    pub(crate) revision: String,
}

/// Builds what is wanted. Nothing, if there is nothing to build.
pub(crate) fn build(
    root: &Path,
    build: &Build,
    wanted: Wanted,
) -> anyhow::Result<Option<Baseline>> {
    let revision = match wanted {
        Wanted::Nothing => return Ok(None),
        Wanted::Revision(revision) => revision,
        Wanted::Release => match last_release(root) {
            Some(tag) => tag,
            None => {
                eprintln!(
                    "==> baseline: NONE, because no release has a tag ({RELEASES}) here: nothing is \
                     compared with an earlier build; `--baseline REV` names one"
                );
                return Ok(None);
            }
        },
    };
    let commit = commit(root, &revision)?;
    eprintln!("==> baseline: {revision} ({commit})");
    let home = build.baseline_home();
    let tree = home.join("tree");
    check_out(root, &tree, &commit)?;
    let program = build.target_in(&home.join("target")).program_in(&tree, &FENCEPOST)?;
    let short = commit.get(..12).unwrap_or(&commit);
    let revision = if commit.starts_with(&revision) {
        short.to_owned()
    } else {
        format!("{revision}@{short}")
    };
    Ok(Some(Baseline { program, revision }))
}

/// The tag of the last release before the present commit.
fn last_release(root: &Path) -> Option<String> {
    git(root, &["describe", "--tags", "--abbrev=0", "--match", RELEASES]).ok()
}

fn commit(root: &Path, revision: &str) -> anyhow::Result<String> {
    let wanted = format!("{revision}^{{commit}}");
    git(root, &["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted])
        .with_context(|| format!("--baseline: git knows no revision `{revision}` here"))
}

/// Makes a work tree of the commit, or moves the one that is there: whatever does not change between
/// two revisions keeps its time, and is not built again.
fn check_out(root: &Path, tree: &Path, commit: &str) -> anyhow::Result<()> {
    if tree.exists() {
        if git(tree, &["checkout", "--quiet", "--force", "--detach", commit]).is_ok() {
            return Ok(());
        }
        // Whatever it is, it is below the target directory, where nothing is kept.
        fs::remove_dir_all(tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    }
    let place = tree.to_str().context("the target directory has a name that is no text")?;
    // It may be known from before somebody removed the target directory.
    git(root, &["worktree", "add", "--quiet", "--force", "--detach", place, commit])?;
    Ok(())
}

/// What git says. None of it goes to standard output, which belongs to the figures.
fn git(folder: &Path, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("git");
    command.current_dir(folder).args(args).stdin(Stdio::null());
    let output = command.output().context("cannot start git")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("`git {}` failed: {}", args.join(" "), error.trim());
    }
    let text = String::from_utf8(output.stdout).context("git says what is no text")?;
    ensure!(!text.contains('\0'), "git says what is no text");
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn a_quick_run_is_compared_with_the_last_release() {
        assert_eq!(Wanted::of(None, true), Wanted::Release);
        assert_eq!(Wanted::of(None, false), Wanted::Nothing);
        assert_eq!(Wanted::of(Some("none".into()), true), Wanted::Nothing);
        assert_eq!(Wanted::of(Some("main".into()), true), Wanted::Revision("main".into()));
    }

    #[test]
    fn a_revision_that_git_does_not_know_is_named() {
        for revision in ["no-such-revision-anywhere", "--help"] {
            let error = commit(root(), revision).expect_err("there is no such revision");
            assert!(error.to_string().contains(revision), "{error:#}");
        }
    }
}
