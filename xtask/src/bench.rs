//! `cargo xtask bench`: Fencepost beside the systems people use today, in one run.
//!
//! Builds the program that is measured and the load generator, both for release, and hands on all
//! other options; `--help` after the verb shows them.
//! Guarantees: nothing is measured that was not built from this tree, or from the named revision.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::command::cargo;
use crate::stores;

/// What builds the program that is measured.
const FENCEPOST: [&str; 4] = ["build", "--release", "--package", "fencepost-cli"];
/// What builds the load generator, with its clients of all systems.
const GENERATOR: [&str; 6] =
    ["build", "--release", "--package", "fencepost-bench", "--features", "peers"];

/// Everything after the verb.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Options of the benchmark: --peers etcd,zookeeper,redis,redis-aof,fencepost, --nodes 1,3,
    /// --quick, --only w1,w2, --clients 1,64, --rounds N, --window MS, --profile, --write, -o json; and
    /// --baseline REV, which also builds that revision and compares with it, and --realtime, for busy
    /// machines
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<String>,
}

pub(crate) fn run(root: &Path, args: &Args) -> anyhow::Result<()> {
    let mut options = args.options.clone();
    let baseline = take_value(&mut options, "--baseline")?;
    if !options.iter().any(|option| option == "--help" || option == "-h") {
        stores::install_peers();
    }
    cargo(root, &FENCEPOST)?;
    cargo(root, &GENERATOR)?;
    let target = target(root);
    let generator = target.join("release/fencepost-bench");
    let mut command = if take_flag(&mut options, "--realtime") {
        // Whoever sleeps until its disk has synced is otherwise woken a tick late while somebody
        // compiles, and whoever is busy all the time is not: ratios would be those of the machine.
        let mut first = Command::new("chrt");
        first.args(["--rr", "1"]).arg(generator);
        first
    } else {
        Command::new(generator)
    };
    command.current_dir(root).arg("--fencepost").arg(target.join("release/fencepost"));
    command.arg("--data").arg(target.join("bench-data"));
    if let Some(revision) = baseline {
        command.arg("--baseline").arg(build_baseline(root, &target, &revision)?);
    }
    let status = command.args(&options).status().context("cannot start the benchmark")?;
    ensure!(status.success(), "a bar was missed, or something could not be measured");
    Ok(())
}

/// Builds an earlier revision in a work tree of its own, and says where its program is.
fn build_baseline(root: &Path, target: &Path, revision: &str) -> anyhow::Result<PathBuf> {
    let tree = target.join("bench-baseline/tree");
    let git = |args: &[&str]| -> anyhow::Result<()> {
        let status = Command::new("git").current_dir(root).args(args).status()?;
        ensure!(status.success(), "`git {}` failed", args.join(" "));
        Ok(())
    };
    let place = tree.to_str().context("the target directory has a name that is no text")?;
    if tree.exists() {
        git(&["worktree", "remove", "--force", place])?;
    }
    git(&["worktree", "add", "--detach", place, revision])?;
    let built = target.join("bench-baseline/target");
    let place = built.to_str().context("the target directory has a name that is no text")?;
    cargo(&tree, &[&FENCEPOST[..], &["--target-dir", place]].concat())?;
    Ok(built.join("release/fencepost"))
}

/// Takes a flag out of the options, and says whether it was there.
fn take_flag(options: &mut Vec<String>, name: &str) -> bool {
    let before = options.len();
    options.retain(|option| option != name);
    options.len() < before
}

/// Takes `--name value` or `--name=value` out of the options.
fn take_value(options: &mut Vec<String>, name: &str) -> anyhow::Result<Option<String>> {
    let spelled = format!("{name}=");
    let Some(at) = options.iter().position(|one| one == name || one.starts_with(&spelled)) else {
        return Ok(None);
    };
    let option = options.remove(at);
    if let Some(value) = option.strip_prefix(&spelled) {
        return Ok(Some(value.to_owned()));
    }
    ensure!(at < options.len(), "{name} needs a value");
    Ok(Some(options.remove(at)))
}

/// Where cargo builds.
fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |place| root.join(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_value_is_taken_out_in_both_spellings() {
        for text in ["--quick --baseline main -o json", "--quick --baseline=main -o json"] {
            let mut options = words(text);
            let value = take_value(&mut options, "--baseline").expect("it has a value");
            assert_eq!(value.as_deref(), Some("main"));
            assert_eq!(options, words("--quick -o json"));
        }
    }

    #[test]
    fn what_is_not_there_is_not_taken() {
        let mut options = words("--quick");
        assert_eq!(take_value(&mut options, "--baseline").expect("nothing is wrong"), None);
        assert_eq!(options, words("--quick"));
    }

    #[test]
    fn an_option_without_its_value_is_refused() {
        take_value(&mut words("--baseline"), "--baseline").expect_err("there is no value");
    }
}
