//! `fencepost member`: who belongs to the cluster.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use fencepost_client::NewMember;
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::ids::MemberId;
use crate::member_view::{self, CHANGE_PATIENCE, HEADINGS, MemberView};
use crate::output;
use crate::words::plain;

/// List, add, promote and remove members
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the members, and which of them are reachable
    Ls,
    /// Add a member that only follows until it is promoted, or change a member's addresses
    ///
    /// A node that is started with `serve --join` adds and promotes itself: this is for nodes that
    /// cannot, and for members that were moved while they did not run.
    Add {
        /// What people call it
        name: String,
        /// The number that its disk has drawn
        #[arg(long)]
        id: MemberId,
        /// Where other members reach it
        #[arg(long, value_name = "HOST:PORT")]
        peer: String,
        /// Where clients reach it
        #[arg(long, value_name = "HOST:PORT")]
        client: String,
    },
    /// Let a member vote that has caught up
    Promote {
        /// Its name or number
        member: String,
    },
    /// Take a member out, for good: its number is never used again
    Rm {
        /// Its name or number
        member: String,
    },
}

#[derive(Serialize)]
struct Document {
    members: Vec<MemberView>,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let patience = match args.action {
            Action::Ls => Duration::ZERO,
            _ => CHANGE_PATIENCE,
        };
        let client = common.connect_patiently("member", patience).await?;
        let text = match args.action {
            Action::Ls => {
                let members = member_view::settled(&client).await?;
                list(common, &Document { members: members.clone() })?;
                member_view::check_health(&members)?;
                return Ok(ExitCode::SUCCESS);
            }
            Action::Add { name, id, peer, client: door } => {
                let text = format!("{} ({id}) follows, and does not vote yet", plain(&name));
                let doing = format!("add the member {}", plain(&name));
                let new = NewMember { id: id.0, name, peer_address: peer, client_address: door };
                client.add_member(new).await.told(doing)?;
                text
            }
            Action::Promote { member } => {
                let MemberView { id, name, .. } = member_view::named(&client, &member).await?;
                let doing = format!("let the member {} vote", plain(&name));
                client.promote_member(id.0).await.told(doing)?;
                format!("{} ({id}) votes", plain(&name))
            }
            Action::Rm { member } => {
                let MemberView { id, name, .. } = member_view::named(&client, &member).await?;
                let doing = format!("take the member {} out", plain(&name));
                client.remove_member(id.0).await.told(doing)?;
                format!("{} ({id}) is no member any more", plain(&name))
            }
        };
        if common.output().is_json() {
            list(common, &Document { members: member_view::all(&client).await? })?;
        } else {
            output::line(&text)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn list(common: &Common, document: &Document) -> anyhow::Result<()> {
    if common.output().is_json() {
        return output::json(document);
    }
    output::table(&HEADINGS, document.members.iter().map(MemberView::row).collect())
}
