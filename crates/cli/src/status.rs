//! `fencepost status`: how the cluster is.

use std::process::ExitCode;

use fencepost_client::{Client, proto};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::ids::MemberId;
use crate::limits;
use crate::member_view::{self, ASK_MAX, ASK_PAUSE, HEADINGS, MemberView, check_health};
use crate::output;
use crate::words::{length, plain};

/// Show how the cluster is: its revision, its leader, its members
#[derive(clap::Args)]
#[command(after_help = "The exit code is 1 without a leader or a majority of reachable voters.")]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Document {
    cluster_id: MemberId,
    revision: i64,
    term: u64,
    /// Null if there is none.
    leader: Option<String>,
    members: Vec<MemberView>,
    disk: DiskView,
}

/// The disk of the member that answers.
#[derive(Serialize)]
struct DiskView {
    free_bytes: u64,
    reserve_bytes: u64,
    low: bool,
}

pub(crate) fn run(_args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let status = block_on(async {
        let client = common.connect("status").await?;
        settled(&client).await
    })?;
    let header = status.header.clone().unwrap_or_default();
    let members = member_view::sorted(status.members.clone());
    let leader = members.iter().find(|member| member.role == "leader");
    let document = Document {
        cluster_id: MemberId(header.cluster_id),
        revision: header.revision,
        term: header.raft_term,
        leader: leader.map(|member| member.name.clone()),
        members,
        disk: DiskView {
            free_bytes: status.disk_free_bytes,
            reserve_bytes: status.disk_reserve_bytes,
            low: status.disk_low,
        },
    };
    if common.output().is_json() {
        output::json(&document)?;
    } else {
        tell(&document, &status, &header)?;
    }
    check_health(&document.members)?;
    Ok(ExitCode::SUCCESS)
}

/// How the cluster is, once it has a leader. One is elected within a second or so, and whoever asks
/// in that moment, as scripts do after a start, wants its name; after a while there is none to name.
async fn settled(client: &Client) -> anyhow::Result<proto::StatusResponse> {
    let mut asked = 0;
    loop {
        let status = client.status().await.told("look at the cluster")?;
        asked += 1;
        let is_healthy = check_health(&member_view::sorted(status.members.clone())).is_ok();
        if is_healthy || asked == ASK_MAX {
            return Ok(status);
        }
        tokio::time::sleep(ASK_PAUSE).await;
    }
}

/// How full the disk of the member is that answers.
fn disk(status: &proto::StatusResponse) -> String {
    let size = limits::size;
    let reserve = size(status.disk_reserve_bytes);
    match status.disk_low {
        true => format!(
            "{} free, below the reserve of {reserve}: a leader refuses what grows (disk_full)",
            size(status.disk_free_bytes)
        ),
        false => format!("{} free, {reserve} of it in reserve", size(status.disk_free_bytes)),
    }
}

fn tell(
    document: &Document,
    status: &proto::StatusResponse,
    header: &proto::Header,
) -> anyhow::Result<()> {
    let line = |label: &str, value: &str| output::line(&format!("{label:<12}{}", plain(value)));
    let answered = document.members.iter().find(|member| member.id.0 == header.member_id);
    line("cluster", &document.cluster_id.to_string())?;
    line("leader", document.leader.as_deref().unwrap_or("there is none"))?;
    line("term", &document.term.to_string())?;
    line("revision", &document.revision.to_string())?;
    let (locks, holders, waiters) = (status.locks, status.holders, status.waiters);
    line("locks", &format!("{locks}, with {holders} holders and {waiters} waiters"))?;
    line("leases", &status.leases.to_string())?;
    line("log time", &length(status.log_time_ms))?;
    line("state", &limits::usage(status.used_bytes, status.quota_bytes))?;
    if status.no_space {
        line("alarm", "NOSPACE: a key was refused, see `fencepost limits show`")?;
    }
    if status.disk_reserve_bytes > 0 {
        line("disk", &disk(status))?;
    }
    if header.incarnation > 0 {
        line("incarnation", &format!("{}, restored from a backup", header.incarnation))?;
    }
    if status.grants_in_ms > 0 {
        line("grants", &format!("none before {} have passed", length(status.grants_in_ms)))?;
    }
    line("level", &status.feature_level.to_string())?;
    let told_by = answered.map_or("a member that was removed", |member| &member.name);
    let (applied, snapshot) = (status.applied_index, status.snapshot_index);
    let version = &status.version;
    line(
        "told by",
        &format!("{told_by}, version {version}, entry {applied}, snapshot {snapshot}"),
    )?;
    if status.clock_cuts > 0 {
        line("clock", &format!("its clock has jumped ahead {} times", status.clock_cuts))?;
    }
    output::table(&HEADINGS, document.members.iter().map(MemberView::row).collect())
}
