//! `fencepost show`: who holds a lock, who waits for it, since when, and why.

use std::process::ExitCode;

use crate::blocked;
use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::lock_view::{HolderView, LockView, WaiterView};
use crate::output;
use crate::words::{cell, length, plain};
use clap::builder::NonEmptyStringValueParser;

/// Show who holds a lock, who waits for it, since when, and why
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let output = common.output();
    let (lock, reasons) = block_on(async {
        let client = common.connect("show").await?;
        let doing = format!("look at the lock {}", plain(&args.name));
        let lock = LockView::from(client.get_lock(&args.name).await.told(&doing)?);
        // Only people are told why: programs see who is ahead.
        let reasons = match output.is_json() {
            true => Vec::new(),
            false => client.explain(&args.name, None).await.told(&doing)?,
        };
        anyhow::Ok((lock, reasons))
    })?;
    if output.is_json() {
        output::json(&lock)?;
    } else {
        tell(&lock, &reasons)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(lock: &LockView, reasons: &[String]) -> anyhow::Result<()> {
    let state = match (lock.holders.is_empty(), lock.foreign.is_empty()) {
        (false, _) => format!("held, {}", lock.mode),
        (true, false) => "blocked".to_owned(),
        (true, true) if lock.waiters.is_empty() => "free".to_owned(),
        (true, true) => "not granted".to_owned(),
    };
    output::line(&format!("{}: {state}", plain(&lock.name)))?;
    if lock.permits > 0 {
        output::line(&format!("permits: {} of {}", lock.holders.len(), lock.permits))?;
    }
    if lock.fence_floor > 0 {
        output::line(&format!("fence floor: tokens below {} are refused", lock.fence_floor))?;
    }
    if !lock.holders.is_empty() {
        let headings = ["HOLDER", "LEASE", "TOKEN", "SINCE", "LEFT", "METADATA"];
        output::table(&headings, lock.holders.iter().map(holder).collect())?;
    }
    if !lock.waiters.is_empty() {
        let headings = ["POSITION", "WAITER", "LEASE", "MODE", "WAITING"];
        output::table(&headings, lock.waiters.iter().map(waiter).collect())?;
    }
    if let Some(total) = lock.waiters_total {
        output::line(&format!("{total} wait in all"))?;
    }
    for key in &lock.foreign {
        output::line(&format!("foreign key: {}", plain(key)))?;
    }
    for reason in reasons {
        output::line(&plain(reason))?;
    }
    if let Some(key) = blocked::by(!lock.holders.is_empty(), &lock.foreign) {
        output::line(&blocked::remedy(key))?;
    }
    Ok(())
}

fn holder(holder: &HolderView) -> Vec<String> {
    let left = match holder.until_ms {
        0 => length(holder.remaining_ms),
        until => format!("{} (taken away in {})", length(holder.remaining_ms), length(until)),
    };
    vec![
        cell(&holder.client),
        holder.lease.to_string(),
        holder.token.to_string(),
        length(holder.since_ms),
        left,
        cell(&holder.metadata),
    ]
}

fn waiter(waiter: &WaiterView) -> Vec<String> {
    vec![
        waiter.position.to_string(),
        cell(&waiter.client),
        waiter.lease.to_string(),
        waiter.mode.to_owned(),
        length(waiter.waiting_ms),
    ]
}
