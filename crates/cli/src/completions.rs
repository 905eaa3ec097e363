//! `fencepost completions`: what a shell needs to complete the command line.

use std::io;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

/// Print the completions for a shell
///
/// bash: fencepost completions bash > ~/.local/share/bash-completion/completions/fencepost
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args, command: &Command) -> anyhow::Result<ExitCode> {
    // The generators would also offer what is hidden from the help.
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let mut shown = Command::new("fencepost").args(command.get_arguments()).subcommands(verbs);
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown, "fencepost", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(ExitCode::SUCCESS)
}
