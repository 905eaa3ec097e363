//! `fencepost elect`: leads under a name, or tells who does.

use std::ffi::OsString;
use std::process::ExitCode;

use fencepost_client::Leader;
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
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
    name: String,

    /// What the leader proclaims: its address, for one
    #[arg(required_unless_present = "observe", conflicts_with = "observe")]
    value: Option<String>,

    /// Do not stand: write a line for each leader
    #[arg(long, conflicts_with_all = ["ttl", "wait", "try_once", "meta", "grace", "command"])]
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
    match args.value {
        Some(value) => {
            args.hold.run(common, "elect", args.name, args.command, |lock| lock.value(value))
        }
        None => block_on(observe(&args.name, common)),
    }
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
