//! The `fencepost` command: argv, environment, signals and exit codes, and nothing else.
//!
//! One file per verb. A new verb is a module with `Args` and `run`, a variant of [`Verb`] and one
//! arm of [`dispatch`].

mod banner;
mod logs;
mod serve;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A distributed lock service: first come, first served, and every grant carries a fencing token.
#[derive(Parser)]
#[command(name = "fencepost", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run one node
    Serve(serve::Args),
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().verb) {
        Ok(code) => code,
        Err(error) => {
            // What, why and what to do stand in the message, on a line each.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Serve(args) => serve::run(args),
    }
}
