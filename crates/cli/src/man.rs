//! `fencepost man`: the manual, from the same definitions as the command line.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use crate::failure::Failure;

/// Print the manual page, or write the pages of all verbs
///
/// Read it at once with: fencepost man | man -l -
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write a page for every verb into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, mut command: Command) -> anyhow::Result<ExitCode> {
    command.build();
    match &args.dir {
        None => io::stdout().lock().write_all(&page(&command)?)?,
        Some(folder) => {
            let written = fs::create_dir_all(folder)
                .and_then(|()| write(folder, &command, command.get_name()));
            written.map_err(|why| {
                Failure::new(
                    format!("cannot write the manual into {}", folder.display()),
                    format!("the system says: {why}"),
                    "choose another directory, or make room there",
                )
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

/// A page for the command and for everything below it, as `man fencepost-lease-grant` finds them.
fn write(folder: &Path, command: &Command, name: &str) -> io::Result<()> {
    fs::write(folder.join(format!("{name}.1")), page(command)?)?;
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    for verb in verbs.filter(|verb| verb.get_name() != "help") {
        write(folder, verb, &format!("{name}-{}", verb.get_name()))?;
    }
    Ok(())
}
