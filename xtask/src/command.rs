//! Calls to cargo.
//!
//! Guarantees: a child's output reaches the terminal unchanged, because people and machines read
//! the test runners' own closing lines.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

/// Runs `cargo` with `args` in `root`, and fails if it fails.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> anyhow::Result<()> {
    cargo_with(root, args, &[])
}

/// The same, with variables in its environment.
pub(crate) fn cargo_with(root: &Path, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
    let shown = format!("cargo {}", args.join(" "));
    eprintln!("    $ {shown}");
    let status = base(root)
        .args(args)
        .envs(env.iter().copied())
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` failed with {status}");
    Ok(())
}

/// The same, and hands back what it says on standard output.
pub(crate) fn cargo_output(root: &Path, args: &[&str]) -> anyhow::Result<String> {
    let shown = format!("cargo {}", args.join(" "));
    eprintln!("    $ {shown}");
    let mut command = base(root);
    command.args(args).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` failed with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` says what is no text"))
}

/// Whether `cargo <subcommand>` is installed. The answer only ever chooses between two ways of
/// working, so any trouble counts as a no.
pub(crate) fn has_cargo(root: &Path, subcommand: &str) -> bool {
    base(root)
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo that started us, so that every step uses the same toolchain.
fn base(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_subcommand_is_a_no() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!has_cargo(here, "no-such-subcommand-anywhere"));
    }
}
