//! A member as JSON, with the fields of `docs/cli.md`, and how members are named on the command line.

use std::time::Duration;

use fencepost_client::{Client, proto};
use serde::Serialize;

use crate::failure::{Failure, Told as _};
use crate::ids::MemberId;
use crate::words::{cell, length, plain};

/// Changes of members wait for each other, and for a leader: the service takes up to ten seconds
/// before it says no.
pub(crate) const CHANGE_PATIENCE: Duration = Duration::from_secs(15);

/// How often a cluster without a leader is asked again, and after how long: two elections.
pub(crate) const ASK_MAX: u32 = 20;
pub(crate) const ASK_PAUSE: Duration = Duration::from_millis(100);

/// One member.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MemberView {
    pub(crate) id: MemberId,
    pub(crate) name: String,
    pub(crate) peer: String,
    pub(crate) client: String,
    pub(crate) role: String,
    /// Whether the member that answered reaches it.
    pub(crate) reachable: bool,
    /// For how long the member that answered has heard nothing of it.
    pub(crate) silent_ms: i64,
}

impl From<proto::Member> for MemberView {
    fn from(member: proto::Member) -> MemberView {
        MemberView {
            id: MemberId(member.id),
            name: member.name,
            peer: member.peer_address,
            client: member.client_address,
            role: member.role,
            reachable: !member.unreachable,
            silent_ms: member.silent_ms,
        }
    }
}

/// The headings of [`MemberView::row`].
pub(crate) const HEADINGS: [&str; 6] = ["ID", "NAME", "ROLE", "REACHABLE", "PEERS", "CLIENTS"];

impl MemberView {
    pub(crate) fn row(&self) -> Vec<String> {
        let addresses = [&self.peer, &self.client].map(|address| cell(address));
        let [peer, client] = addresses;
        let (id, name, role) = (self.id.to_string(), cell(&self.name), self.role.clone());
        vec![id, name, role, self.reachability(), peer, client]
    }

    fn reachability(&self) -> String {
        match self.reachable {
            true => "yes".to_owned(),
            false => format!("no, for {}", length(self.silent_ms / 1_000 * 1_000)),
        }
    }

    fn votes(&self) -> bool {
        self.role != "learner"
    }
}

/// Refuses to call a cluster well that has no leader, or no majority of voters that reach each other.
pub(crate) fn check_health(members: &[MemberView]) -> Result<(), Failure> {
    let voters = members.iter().filter(|member| member.votes());
    let (reachable, missing): (Vec<_>, Vec<_>) = voters.partition(|member| member.reachable);
    let (reachable, all) = (reachable.len(), reachable.len() + missing.len());
    let missing: Vec<&str> = missing.iter().map(|member| member.name.as_str()).collect();
    let missing = match missing.is_empty() {
        true => "all voters are reachable".to_owned(),
        false => format!("these voters are not reachable: {}", plain(&missing.join(", "))),
    };
    let remedy = "start the members that are missing, or look at the network between them";
    if !members.iter().any(|member| member.role == "leader") {
        return Err(Failure::new("the cluster has no leader", missing, remedy));
    }
    if reachable <= all / 2 {
        let what = format!("the cluster has no quorum: {reachable} of {all} voters are reachable");
        return Err(Failure::new(what, missing, remedy));
    }
    Ok(())
}

/// All members, by name.
pub(crate) async fn all(client: &Client) -> Result<Vec<MemberView>, Failure> {
    let members = client.members().await.told("list the members")?;
    Ok(sorted(members))
}

/// All members, by name, once the cluster is healthy. After a while it is listed as it is.
pub(crate) async fn settled(client: &Client) -> Result<Vec<MemberView>, Failure> {
    let mut asked = 0;
    loop {
        let members = all(client).await?;
        asked += 1;
        if check_health(&members).is_ok() || asked == ASK_MAX {
            return Ok(members);
        }
        tokio::time::sleep(ASK_PAUSE).await;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, role: &str, reachable: bool) -> MemberView {
        MemberView::from(proto::Member {
            name: name.to_owned(),
            role: role.to_owned(),
            unreachable: !reachable,
            silent_ms: 12_345,
            ..proto::Member::default()
        })
    }

    #[test]
    fn cluster_without_leader_or_quorum_is_not_healthy() {
        let cluster = |leader: &str, two: bool, three: bool| {
            let others = [member("n2", "voter", two), member("n3", "voter", three)];
            let learner = member("n4", "learner", false);
            [vec![member("n1", leader, true), learner], others.to_vec()].concat()
        };
        assert_eq!(check_health(&cluster("leader", true, false)), Ok(()));
        let text = |members: &[MemberView]| {
            check_health(members).expect_err("it is not healthy").to_string()
        };
        let lost = text(&cluster("leader", false, false));
        assert!(lost.contains("no quorum: 1 of 3 voters are reachable"), "{lost}");
        assert!(lost.contains("not reachable: n2, n3"), "{lost}");
        let headless = text(&cluster("voter", true, true));
        assert!(headless.contains("the cluster has no leader"), "{headless}");
    }

    #[test]
    fn row_says_since_when_a_member_is_unreachable() {
        assert_eq!(member("n2", "voter", false).row()[3], "no, for 12s");
        assert_eq!(member("n2", "voter", true).row()[3], "yes");
    }
}
