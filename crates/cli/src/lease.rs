//! `fencepost lease`: leases by hand.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use fencepost_client::{Client, Lease, proto};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::ids::LeaseId;
use crate::words::{cell, length, parse_length, plain};
use crate::{output, signals};

/// Leases that are asked for at once.
const PAGE: u32 = 1_000;

/// Make, renew, end and list leases
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a lease, and leave it to run out unless somebody renews it
    Grant {
        /// How long it lives without a renewal: 500ms to the longest that `limits show` names
        #[arg(value_parser = parse_length)]
        ttl: Duration,
        /// The number that it should have [default: the service chooses]
        #[arg(long)]
        id: Option<LeaseId>,
    },
    /// End a lease, and every key and lock with it
    Revoke {
        /// The lease
        lease: LeaseId,
    },
    /// Renew a lease until interrupted
    KeepAlive {
        /// The lease
        lease: LeaseId,
        /// Renew it once, and leave it
        #[arg(long)]
        once: bool,
    },
    /// List all leases
    Ls,
    /// Show one lease, with its keys
    Show {
        /// The lease
        lease: LeaseId,
    },
}

#[derive(Serialize)]
struct Granted {
    lease: LeaseId,
    ttl_ms: u64,
    epoch: u64,
}

#[derive(Serialize)]
struct Revoked {
    lease: LeaseId,
    keys: u64,
}

#[derive(Serialize)]
struct Renewed {
    lease: LeaseId,
    ttl_ms: u64,
}

#[derive(Serialize)]
struct Listed {
    leases: Vec<View>,
}

/// One lease.
#[derive(Serialize)]
struct View {
    lease: LeaseId,
    client: String,
    ttl_ms: i64,
    remaining_ms: i64,
    /// 0 if it does not run yet.
    expires_unix_ms: i64,
    epoch: u64,
    keys: Vec<String>,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect("lease").await?;
        match &args.action {
            Action::Grant { ttl, id } => grant(&client, common, *ttl, *id).await,
            Action::Revoke { lease } => revoke(&client, common, *lease).await,
            Action::KeepAlive { lease, once } => keep_alive(&client, common, *lease, *once).await,
            Action::Ls => list(&client, common).await,
            Action::Show { lease } => show(&client, common, *lease).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

async fn grant(
    client: &Client,
    common: &Common,
    ttl: Duration,
    id: Option<LeaseId>,
) -> anyhow::Result<()> {
    let mut builder = client.lease(ttl).without_keep_alive();
    if let Some(id) = id {
        builder = builder.id(id.0);
    }
    let made = builder.grant().await.told("make a lease")?;
    let (lease, ttl) = (LeaseId(made.id()), made.ttl());
    let granted = Granted { lease, ttl_ms: millis(ttl), epoch: made.epoch() };
    let text =
        format!("lease {lease} lives for {} unless renewed", humantime::format_duration(ttl));
    common.output().either(&granted, &text)
}

async fn revoke(client: &Client, common: &Common, lease: LeaseId) -> anyhow::Result<()> {
    let keys = client.revoke_lease(lease.0).await.told(format!("end the lease {lease}"))?;
    let text = format!("ended lease {lease}, and {keys} keys with it");
    common.output().either(&Revoked { lease, keys }, &text)
}

async fn keep_alive(
    client: &Client,
    common: &Common,
    lease: LeaseId,
    once: bool,
) -> anyhow::Result<()> {
    let mut signals = signals::End::listen()?;
    let doing = format!("renew the lease {lease}");
    let adopted = client.adopt_lease(lease.0).await.told(&doing)?;
    adopted.renew().await.told(&doing)?;
    let ttl_ms = millis(adopted.ttl());
    let ttl = humantime::format_duration(adopted.ttl());
    let text = match once {
        true => format!("renewed lease {lease} for {ttl}"),
        false => format!("renewing lease {lease}, which lives for {ttl}, until interrupted"),
    };
    common.output().either(&Renewed { lease, ttl_ms }, &text)?;
    if once {
        return Ok(());
    }
    let lost = |why: &str| {
        let remedy = "make a new lease; what this one held has ended, or will";
        Err(Failure::new(format!("the lease {lease} is lost"), why, remedy).into())
    };
    tokio::select! {
        () = adopted.lost() => lost("the service says that it has ended"),
        () = expired(&adopted) => lost("no renewal was confirmed in time"),
        _ = signals.heard() => Ok(()),
    }
}

/// Waits until the lease may not be believed in any more. Each renewal puts that off.
async fn expired(lease: &Lease) {
    loop {
        let left = lease.deadline().remaining();
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

async fn list(client: &Client, common: &Common) -> anyhow::Result<()> {
    let mut leases: Vec<View> = Vec::new();
    loop {
        let after = leases.last().map_or(0, |lease| lease.lease.0);
        let (page, more) = client.list_leases(after, PAGE).await.told("list the leases")?;
        let is_over = !more || page.is_empty();
        leases.extend(page.into_iter().map(View::from));
        if is_over {
            break;
        }
    }
    if common.output().is_json() {
        return output::json(&Listed { leases });
    }
    let headings = ["LEASE", "CLIENT", "TTL", "LEFT", "KEYS"];
    let row = |one: &View| {
        let (ttl, left) = (length(one.ttl_ms), length(one.remaining_ms));
        let (lease, keys) = (one.lease.to_string(), one.keys.len().to_string());
        vec![lease, cell(&one.client), ttl, left, keys]
    };
    output::table(&headings, leases.iter().map(row).collect())
}

async fn show(client: &Client, common: &Common, lease: LeaseId) -> anyhow::Result<()> {
    let found = client.get_lease(lease.0).await.told(format!("look at the lease {lease}"))?;
    let view = View::from(found);
    if common.output().is_json() {
        return output::json(&view);
    }
    let owner = if view.client.is_empty() { "nobody by name" } else { &view.client };
    output::line(&format!("lease {lease} of {}", plain(owner)))?;
    let (ttl, left) = (length(view.ttl_ms), length(view.remaining_ms));
    output::line(&format!("lives for {ttl} without a renewal, now {left} left"))?;
    for key in &view.keys {
        output::line(&format!("key {}", plain(key)))?;
    }
    Ok(())
}

impl From<proto::Lease> for View {
    fn from(lease: proto::Lease) -> View {
        View {
            lease: LeaseId(lease.id),
            client: lease.client_id,
            ttl_ms: lease.ttl_ms,
            remaining_ms: lease.remaining_ms,
            expires_unix_ms: lease.expires_unix_ms,
            epoch: lease.epoch,
            keys: lease.keys,
        }
    }
}
