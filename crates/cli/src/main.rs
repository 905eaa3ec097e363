//! The `fencepost` command: argv, environment, signals and exit codes, and nothing else.

use clap::Parser;

/// A distributed lock service: first come, first served, and every grant carries a fencing token.
#[derive(Parser)]
#[command(name = "fencepost", version, arg_required_else_help = true)]
struct Args {}

fn main() {
    Args::parse();
}
