//! Python tools from PyPI, each set in an environment of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// An environment with these packages in `home`. One that was made before is used again.
pub(crate) fn environment(home: &Path, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let (python, list) = (home.join("venv/bin/python"), home.join("packages"));
    let wanted = packages.join("\n");
    if fs::read_to_string(&list).is_ok_and(|there| there == wanted) && python.exists() {
        return Ok(python);
    }
    fs::create_dir_all(home)?;
    quiet(Command::new("python3").args(["-m", "venv"]).arg(home.join("venv")))?;
    pip(home, &python, &[&["install"], packages].concat())?;
    // Written last, so that what was broken off is begun again.
    fs::write(list, wanted)?;
    Ok(python)
}

pub(crate) fn pip(home: &Path, python: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    quiet(Command::new(python).current_dir(home).args(["-m", "pip", "-q"]).args(arguments))
}

/// Runs something that has nothing to say unless it fails.
pub(crate) fn quiet(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{}", told.lines().last().unwrap_or("it failed without a word"));
    }
    Ok(())
}
