//! `fencepost move-leader`: leadership handed to another member.

use std::process::ExitCode;

use fencepost_client::{Client, Error};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::member_view::{self, CHANGE_PATIENCE, MemberView};
use crate::words::plain;

/// How often a leader is looked for that keeps its place long enough to give it away.
const TRIES_MAX: u32 = 5;

/// Hand leadership to another member
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its name or number [default: one that the leader chooses]
    member: Option<String>,
}

#[derive(Serialize)]
struct Document {
    leader: String,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect_patiently("move-leader", CHANGE_PATIENCE).await?;
        let leader = match &args.member {
            Some(member) => {
                let to = member_view::named(&client, member).await?;
                hand_over(common, &client, Some(to.id.0)).await?;
                to.name
            }
            None => {
                let before = leader(&client).await?;
                hand_over(common, &client, None).await?;
                successor(&client, before).await?
            }
        };
        let text = format!("{} leads", plain(&leader));
        common.output().either(&Document { leader }, &text)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Only the leader can give leadership away, and a client may be connected to another member.
async fn hand_over(common: &Common, client: &Client, to: Option<u64>) -> anyhow::Result<()> {
    let mut client = client.clone();
    for _ in 0..TRIES_MAX {
        match client.move_leader(to).await {
            Err(Error::Rejected { code, .. }) if code == "not_leader" => {
                client = to_leader(common, &client).await?;
            }
            answer => return Ok(answer.told("hand leadership over")?),
        }
    }
    Err(Failure::new(
        "cannot hand leadership over",
        "the leader changes faster than it can be asked",
        "look at the members' logs: elections should be rare",
    )
    .into())
}

/// A connection to the member that leads.
async fn to_leader(common: &Common, client: &Client) -> anyhow::Result<Client> {
    let leader = leader(client).await?;
    let Some(address) = leader.map(|member| member.client).filter(|one| !one.is_empty()) else {
        return Err(Failure::new(
            "cannot hand leadership over",
            "there is no leader, or nobody knows where clients reach it",
            "wait for an election, or look at the members' health",
        )
        .into());
    };
    let endpoints = common.endpoints.only(&address);
    endpoints.connect("fencepost-move-leader", CHANGE_PATIENCE).await
}

async fn leader(client: &Client) -> Result<Option<MemberView>, Failure> {
    let members = member_view::all(client).await?;
    Ok(members.into_iter().find(|member| member.role == "leader"))
}

/// Who leads after `before`. The member that is asked may hear of it a moment later than others.
async fn successor(client: &Client, before: Option<MemberView>) -> anyhow::Result<String> {
    let before = before.map(|member| member.id);
    let found = async {
        loop {
            match leader(client).await? {
                Some(leader) if Some(leader.id) != before => return anyhow::Ok(leader.name),
                _ => tokio::task::yield_now().await,
            }
        }
    };
    let found = tokio::time::timeout(CHANGE_PATIENCE, found).await;
    found.unwrap_or_else(|_| {
        Err(Failure::new(
            "it is not known who leads now",
            "leadership was handed over, and nobody was heard of since",
            "look again with `fencepost status`",
        )
        .into())
    })
}
