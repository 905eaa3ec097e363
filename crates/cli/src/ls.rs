//! `fencepost ls`: the locks that are held or waited for.

use std::process::ExitCode;

use fencepost_client::Client;
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::lock_view::{HolderView, LockView};
use crate::output;
use crate::words::{cell, length};

/// Locks that are asked for at once.
const PAGE: u32 = 1_000;

/// List the locks that are held or waited for
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only locks whose names begin with this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

#[derive(Serialize)]
struct Document {
    locks: Vec<Listed>,
}

/// A lock, with the number of waiters in the place of the waiters.
#[derive(Serialize)]
struct Listed {
    name: String,
    mode: &'static str,
    holders: Vec<HolderView>,
    waiting: u64,
    foreign: Vec<String>,
    fence_floor: i64,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let locks = block_on(async { all(&common.connect("ls").await?, &args.prefix).await })?;
    if common.output().is_json() {
        output::json(&Document { locks })?;
    } else {
        let headings = ["NAME", "MODE", "HOLDER", "TOKEN", "SINCE", "LEFT", "WAITING", "METADATA"];
        output::table(&headings, locks.iter().map(row).collect())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn all(client: &Client, prefix: &str) -> anyhow::Result<Vec<Listed>> {
    let mut found: Vec<Listed> = Vec::new();
    loop {
        let after = found.last().map(|lock| lock.name.clone()).unwrap_or_default();
        let page = client.list_locks(prefix, after, PAGE).await.told("list the locks")?;
        let (locks, more) = page;
        let is_over = !more || locks.is_empty();
        found.extend(locks.into_iter().map(|lock| {
            let waiting = lock.waiters_total;
            let view = LockView::from(lock);
            let LockView { name, mode, holders, foreign, fence_floor, .. } = view;
            Listed { name, mode, holders, waiting, foreign, fence_floor }
        }));
        if is_over {
            return Ok(found);
        }
    }
}

fn row(lock: &Listed) -> Vec<String> {
    let nobody = if lock.foreign.is_empty() { "-" } else { "(a foreign key)" };
    let first = lock.holders.first();
    let told = |tell: &dyn Fn(&HolderView) -> String| first.map_or("-".to_owned(), tell);
    let others = match lock.holders.len() {
        0 | 1 => String::new(),
        len => format!(" and {} more", len - 1),
    };
    vec![
        cell(&lock.name),
        lock.mode.to_owned(),
        first.map_or(nobody.to_owned(), |holder| format!("{}{others}", cell(&holder.client))),
        told(&|holder| holder.token.to_string()),
        told(&|holder| length(holder.since_ms)),
        told(&|holder| length(holder.remaining_ms)),
        lock.waiting.to_string(),
        first.map_or_else(String::new, |holder| cell(&holder.metadata)),
    ]
}
