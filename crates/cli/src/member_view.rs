//! A member as JSON, with the fields of `docs/cli.md`, and how members are named on the command line.

use std::time::Duration;

use fencepost_client::{Client, proto};
use serde::Serialize;

use crate::failure::{Failure, Told as _};
use crate::ids::MemberId;
use crate::words::{cell, plain};

/// Changes of members wait for each other, and for a leader: the service takes up to ten seconds
/// before it says no.
pub(crate) const CHANGE_PATIENCE: Duration = Duration::from_secs(15);

/// One member.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemberView {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) peer: String,
    pub(crate) client: String,
    pub(crate) role: String,
}

impl From<proto::Member> for MemberView {
    fn from(member: proto::Member) -> MemberView {
        MemberView {
            id: MemberId(member.id),
            name: member.name,
            peer: member.peer_address,
            client: member.client_address,
            role: member.role,
        }
    }
}

/// The headings of [`MemberView::row`].
pub(crate) const HEADINGS: [&str; 5] = ["ID", "NAME", "ROLE", "PEERS", "CLIENTS"];

impl MemberView {
    pub(crate) fn row(&self) -> Vec<String> {
        let addresses = [&self.peer, &self.client].map(|address| cell(address));
        let [peer, client] = addresses;
        vec![self.id.to_string(), cell(&self.name), self.role.clone(), peer, client]
    }
}

/// All members, by name.
pub(crate) async fn all(client: &Client) -> Result<Vec<MemberView>, Failure> {
    let members = client.members().await.told("list the members")?;
    Ok(sorted(members))
}

pub(crate) fn sorted(members: Vec<proto::Member>) -> Vec<MemberView> {
    let mut members: Vec<MemberView> = members.into_iter().map(MemberView::from).collect();
    members.sort_by(|one, other| (&one.name, one.id.0).cmp(&(&other.name, other.id.0)));
    members
}

/// The member of this name or number.
pub(crate) async fn named(client: &Client, who: &str) -> Result<MemberView, Failure> {
    let members = all(client).await?;
    let number = who.parse::<MemberId>().ok();
    let found = members.iter().find(|member| member.name == who);
    let found = found.or_else(|| members.iter().find(|member| Some(member.id) == number));
    found.cloned().ok_or_else(|| {
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        Failure::new(
            format!("there is no member {}", plain(who)),
            format!("the members are {}", plain(&names.join(", "))),
            "name one of them, or its number as `fencepost member ls` shows it",
        )
    })
}
