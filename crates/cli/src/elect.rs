//! `fencepost elect`: leads under a name, or tells who does.

use std::ffi::OsString;
use std::process::ExitCode;

use fencepost_client::Leader;
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::ids::LeaseId;
use crate::lock::HoldArgs;

/// Stand for election and lead, or tell who leads.
///
/// Whoever holds the lock of that name leads; the value is what it proclaims. With a command, the
/// command runs for as long as this process leads, as under `fencepost lock`, with the same exit
/// codes. Without one, it leads until Ctrl-C.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The election
    #[arg(required_unless_present = "dashed")]
    name: Option<String>,

    /// What the leader proclaims: its address, for one
    #[arg(required_unless_present_any = ["observe", "dashed"], conflicts_with = "observe")]
    value: Option<String>,

    /// Do not stand: write a line for each leader
    #[arg(long, conflicts_with_all = ["ttl", "wait", "try_once", "meta", "no_meta", "grace", "command"])]
    observe: bool,

    #[command(flatten)]
    hold: HoldArgs,

    /// The command
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// A leader, for programs.
#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    client: &'a str,
    token: i64,
    key: &'a str,
    lease: LeaseId,
    value: &'a str,
    revision: i64,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    // With --name, what stands first is the value.
    let (name, value) = match args.hold.dashed() {
        Some(_) if args.value.is_some() => return Err(named_twice().into()),
        Some(name) => (name, args.name),
        None => (args.name.unwrap_or_default(), args.value),
    };
    match value {
        Some(value) => args.hold.run(common, "elect", name, args.command, |lock| lock.value(value)),
        None if args.observe => block_on(observe(&name, common)),
        None => Err(nothing_proclaimed().into()),
    }
}

fn named_twice() -> Failure {
    let why = "it stands before the value, and after --name";
    Failure::usage("the election is named twice", why, "name it once")
}

fn nothing_proclaimed() -> Failure {
    let why = "a leader proclaims a value, and none was given";
    Failure::usage("cannot stand for election", why, "give the value, or --observe")
}

/// Writes a line for each leader, and for each thing that it says.
async fn observe(name: &str, common: &Common) -> anyhow::Result<ExitCode> {
    let client = common.connect("elect").await?;
    let mut leaders = client.election(name).observe();
    let mut end = std::pin::pin!(crate::signals::end());
    loop {
        tokio::select! {
            signal = &mut end => {
                signal?;
                return Ok(ExitCode::SUCCESS);
            }
            leader = leaders.next() => {
                let Some(leader) = leader else { return Ok(ExitCode::SUCCESS) };
                write(name, &leader.told(format!("observe the election {name}"))?, common)?;
            }
        }
    }
}

fn write(name: &str, leader: &Leader, common: &Common) -> anyhow::Result<()> {
    let value = String::from_utf8_lossy(&leader.value);
    let document = Document {
        name,
        client: &leader.client,
        token: leader.token.get(),
        key: &leader.key,
        lease: LeaseId(leader.lease_id),
        value: &value,
        revision: leader.revision,
    };
    common.output().either(&document, &format!("{} {} {value}", leader.key, leader.token))
}
