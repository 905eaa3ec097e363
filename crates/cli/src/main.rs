//! The `fencepost` command: argv, environment, signals and exit codes, and nothing else.
//!
//! One file per verb. A new verb is a module with `Args` and `run`, a variant of [`Verb`] and one
//! arm of [`dispatch`]. A verb that talks to the service is also given [`common::Common`].

mod allocator;
mod banner;
mod bench;
mod blocked;
mod client;
mod common;
mod completions;
mod config;
mod config_file;
mod connect;
mod delete;
mod demo;
mod dev;
mod elect;
mod exec;
mod failure;
mod http;
mod ids;
mod key;
mod key_view;
mod kv;
mod lease;
mod limits;
mod lock;
mod lock_view;
mod logs;
mod ls;
mod man;
mod member;
mod member_view;
mod move_leader;
mod origin;
mod output;
mod release;
mod repl;
mod rpc;
mod serve;
mod settings;
mod show;
mod signals;
mod snapshot;
mod status;
mod store;
mod unlock;
mod watch;
mod watchdog;
mod words;

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::common::Common;
use crate::origin::Sources;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A distributed lock service: first come, first served, and every grant carries a fencing token.
#[derive(Parser)]
#[command(name = "fencepost", bin_name = "fencepost", version, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    common: Common,

    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Serve(Box<serve::Args>),
    Dev(dev::Args),
    Demo(demo::Args),
    Store(store::Args),
    Lock(lock::Args),
    Elect(elect::Args),
    Ls(ls::Args),
    Show(show::Args),
    Watch(watch::Args),
    Unlock(unlock::Args),
    Release(release::Args),
    Delete(delete::Args),
    Repl(repl::Args),
    Rpc(rpc::Args),
    Lease(lease::Args),
    Client(client::Args),
    Kv(kv::Args),
    Status(status::Args),
    Member(member::Args),
    Key(key::Args),
    Limits(limits::Args),
    MoveLeader(move_leader::Args),
    Snapshot(snapshot::Args),
    Bench(bench::Args),
    Config(config::Args),
    Completions(completions::Args),
    Man(man::Args),
    #[command(name = "__exec", hide = true)]
    Exec(exec::Args),
    #[command(name = "__watchdog", hide = true)]
    Watchdog(watchdog::Args),
    #[command(name = "__kid", hide = true)]
    Kid(demo::kid::Args),
    #[command(name = "__worker", hide = true)]
    Worker(demo::worker::Args),
}

fn main() -> ExitCode {
    signals::outlive_file_size_limit();
    let matches = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let code = match dispatch(cli.verb, &cli.common, &Sources::of(&matches)) {
        Ok(code) => code,
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error);
            failure::exit_code(&error)
        }
    };
    logs::flush();
    code
}

fn dispatch(verb: Verb, common: &Common, sources: &Sources) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Serve(args) => serve::run(*args, sources, common),
        Verb::Dev(args) => dev::run(&args),
        Verb::Demo(args) => demo::run(&args, common),
        Verb::Store(args) => store::run(args, sources, common),
        Verb::Lock(args) => lock::run(args, common),
        Verb::Elect(args) => elect::run(args, common),
        Verb::Ls(args) => ls::run(&args, common),
        Verb::Show(args) => show::run(&args, common),
        Verb::Watch(args) => watch::run(&args, common),
        Verb::Unlock(args) => unlock::run(&args, common),
        Verb::Release(args) => release::run(&args, common),
        Verb::Delete(args) => delete::run(&args, common),
        Verb::Repl(args) => repl::run(&args, common),
        Verb::Rpc(args) => rpc::run(&args, common),
        Verb::Lease(args) => lease::run(&args, common),
        Verb::Client(args) => client::run(&args, common),
        Verb::Kv(args) => kv::run(args, common),
        Verb::Status(args) => status::run(&args, common),
        Verb::Member(args) => member::run(args, common),
        Verb::Key(args) => key::run(args, common),
        Verb::Limits(args) => limits::run(args, common),
        Verb::MoveLeader(args) => move_leader::run(&args, common),
        Verb::Snapshot(args) => snapshot::run(args, common),
        Verb::Bench(args) => bench::run(&args, common),
        Verb::Config(args) => config::run(args, sources, common),
        Verb::Completions(args) => completions::run(&args, &Cli::command()),
        Verb::Man(args) => man::run(&args, Cli::command()),
        Verb::Exec(args) => exec::run(args),
        Verb::Watchdog(args) => watchdog::run(&args),
        Verb::Kid(args) => demo::kid::run(args),
        Verb::Worker(args) => demo::worker::run(args, common),
    }
}

/// What, why and what to do stand in the message, on a line each.
fn tell(error: &anyhow::Error) {
    let whole = error.to_string();
    // A message of one line is no such message: then its causes say the rest.
    let text = if whole.contains('\n') { whole } else { format!("{error:#}") };
    logs::report_fatal(&text);
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
