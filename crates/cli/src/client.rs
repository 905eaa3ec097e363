//! `fencepost client`: who was heard from, and when.

use std::process::ExitCode;

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use fencepost_client::{Client, proto};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::ids::LeaseId;
use crate::output;
use crate::words::{cell, length, plain};

/// Clients that are asked for at once.
const PAGE: u32 = 1_000;

/// List and show the clients that the service remembers
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List all clients
    Ls,
    /// Show one client, with its leases
    Show {
        /// The client
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        client: String,
    },
}

#[derive(Serialize)]
struct Listed {
    clients: Vec<View>,
}

/// One client.
#[derive(Serialize)]
struct View {
    client: String,
    address: Option<String>,
    seen_ms: i64,
    last_seen_unix_ms: i64,
    leases_total: u64,
    /// Not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    leases: Option<Vec<LeaseId>>,
}

impl View {
    fn listed(client: proto::ClientRecord) -> View {
        View {
            client: client.client_id,
            address: Some(client.address).filter(|address| !address.is_empty()),
            seen_ms: client.seen_ms,
            last_seen_unix_ms: client.last_seen_unix_ms,
            leases_total: client.leases_total,
            leases: None,
        }
    }

    fn shown(client: proto::ClientRecord) -> View {
        let leases = client.leases.iter().copied().map(LeaseId).collect();
        View { leases: Some(leases), ..View::listed(client) }
    }
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect("client").await?;
        match &args.action {
            Action::Ls => list(&client, common).await,
            Action::Show { client: id } => show(&client, common, id).await,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &Client, common: &Common) -> anyhow::Result<()> {
    let mut clients: Vec<View> = Vec::new();
    loop {
        let after = clients.last().map(|one| one.client.clone()).unwrap_or_default();
        let (page, more) = client.list_clients(after, PAGE).await.told("list the clients")?;
        let is_over = !more || page.is_empty();
        clients.extend(page.into_iter().map(View::listed));
        if is_over {
            break;
        }
    }
    if common.output().is_json() {
        return output::json(&Listed { clients });
    }
    let row = |one: &View| {
        let address = cell(one.address.as_deref().unwrap_or_default());
        let seen = format!("{} ago", length(one.seen_ms));
        vec![cell(&one.client), address, seen, one.leases_total.to_string()]
    };
    output::table(&["CLIENT", "ADDRESS", "SEEN", "LEASES"], clients.iter().map(row).collect())
}

async fn show(client: &Client, common: &Common, id: &str) -> anyhow::Result<()> {
    let found = client.get_client(id).await.told(format!("look at the client {}", plain(id)))?;
    let view = View::shown(found);
    if common.output().is_json() {
        return output::json(&view);
    }
    let address = view.address.as_deref().unwrap_or("an unknown address");
    output::line(&format!("client {} at {}", plain(id), plain(address)))?;
    let (seen, total) = (length(view.seen_ms), view.leases_total);
    output::line(&format!("last seen {seen} ago, {total} leases"))?;
    for lease in view.leases.unwrap_or_default() {
        output::line(&format!("lease {lease}"))?;
    }
    Ok(())
}
