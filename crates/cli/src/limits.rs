//! `fencepost limits`: what the cluster allows, and what it uses of it.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Subcommand;
use fencepost_client::{LimitsChange, QuotaSetting, proto};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::output;
use crate::words::{length, parse_length};

/// Show and change what the cluster allows: bytes, lease times, leases and clients
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show the limits and what is used of them
    Show,
    /// Change some limits and keep the others
    ///
    /// The quota bounds what the state takes by its own account. Plain keys stop at 90 % of it, locks
    /// and leases at 100 %; releases, deletes and renewals always work.
    Set(Set),
}

#[derive(clap::Args)]
struct Set {
    /// Bytes that the state may take, such as 512MiB, or `auto`: a quarter of the memory of the
    /// smallest voter, at most 2 GiB
    #[arg(long, value_name = "BYTES|auto", value_parser = parse_quota)]
    quota: Option<QuotaSetting>,
    /// The longest lease, such as 1h
    ///
    /// After a restore no lease is granted for this long. A backup that was made before the limit was
    /// raised covers only the old one.
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    ttl_max: Option<Duration>,
    /// Leases that one client may have
    #[arg(long, value_name = "NUMBER")]
    leases_per_client: Option<u32>,
    /// Clients that may come from one address
    #[arg(long, value_name = "NUMBER")]
    clients_per_address: Option<u32>,
    /// Clear the alarm that a key was refused for want of space
    #[arg(long)]
    clear_alarm: bool,
}

#[derive(Serialize)]
struct Document {
    feature_level: u32,
    used_bytes: u64,
    /// Null as long as no leader has proposed any.
    quota_bytes: Option<u64>,
    quota_auto: bool,
    no_space: bool,
    ttl_min_ms: i64,
    ttl_max_ms: i64,
    keys: u64,
    leases: u64,
    leases_max: u32,
    clients: u64,
    clients_max: u32,
    leases_per_client_max: u32,
    clients_per_address_max: u32,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect("limits").await?;
        let before = client.limits().await.told("read the limits")?;
        let limits = match args.action {
            Action::Show => before,
            Action::Set(set) => {
                let change = set.change();
                if change == LimitsChange::default() {
                    bail!(
                        "nothing to change was named\n\
                         `limits set` changes only what its flags name\n\
                         see `fencepost limits set --help`"
                    );
                }
                let after = client.change_limits(change).await.told("change the limits")?;
                if after.ttl_max_ms > before.ttl_max_ms {
                    warn_of_older_backups(before.ttl_max_ms);
                }
                after
            }
        };
        let document = Document::of(&limits);
        match common.output().is_json() {
            true => output::json(&document)?,
            false => document.tell()?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A restore waits for the longest lease that the backup knows to be allowed.
#[expect(clippy::print_stderr, reason = "a warning beside the answer")]
fn warn_of_older_backups(before_ms: i64) {
    eprintln!(
        "warning: a restore from a backup that was made before now waits only {}, and leases may be \
         longer from now on; make a new backup with `fencepost snapshot save`",
        length(before_ms)
    );
}

impl Set {
    fn change(&self) -> LimitsChange {
        let mut change = LimitsChange::default();
        change.quota = self.quota;
        change.ttl_max = self.ttl_max;
        change.leases_per_client_max = self.leases_per_client;
        change.clients_per_address_max = self.clients_per_address;
        change.clear_no_space = self.clear_alarm;
        change
    }
}

impl Document {
    fn of(limits: &proto::LimitsResponse) -> Document {
        Document {
            feature_level: limits.feature_level,
            used_bytes: limits.used_bytes,
            quota_bytes: Some(limits.quota_bytes).filter(|&bytes| bytes > 0),
            quota_auto: limits.quota_auto,
            no_space: limits.no_space,
            ttl_min_ms: limits.ttl_min_ms,
            ttl_max_ms: limits.ttl_max_ms,
            keys: limits.keys,
            leases: limits.leases,
            leases_max: limits.leases_max,
            clients: limits.clients,
            clients_max: limits.clients_max,
            leases_per_client_max: limits.leases_per_client_max,
            clients_per_address_max: limits.clients_per_address_max,
        }
    }

    fn tell(&self) -> anyhow::Result<()> {
        let line = |label: &str, value: &str| output::line(&format!("{label:<22}{value}"));
        line("feature level", &self.feature_level.to_string())?;
        line("state", &usage(self.used_bytes, self.quota_bytes.unwrap_or(0)))?;
        line("quota", if self.quota_auto { "auto" } else { "set by an operator" })?;
        if self.no_space {
            line("alarm", "NOSPACE: a key was refused; clear it with `limits set --clear-alarm`")?;
        }
        line("lease time", &format!("{} to {}", length(self.ttl_min_ms), length(self.ttl_max_ms)))?;
        line("keys", &self.keys.to_string())?;
        line("leases", &format!("{} of {}", self.leases, self.leases_max))?;
        line("leases per client", &format!("at most {}", self.leases_per_client_max))?;
        line("clients", &format!("{} of {}", self.clients, self.clients_max))?;
        line("clients per address", &format!("at most {}", self.clients_per_address_max))
    }
}

/// What the state takes of its quota.
pub(crate) fn usage(used: u64, quota: u64) -> String {
    match used.saturating_mul(100).checked_div(quota) {
        None => format!("{}, without a quota", size(used)),
        Some(percent) => format!("{}, {percent} % of {}", size(used), size(quota)),
    }
}

const UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

fn parse_quota(text: &str) -> Result<QuotaSetting, String> {
    if text == "auto" {
        return Ok(QuotaSetting::Auto);
    }
    let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.map(QuotaSetting::Bytes).ok_or_else(|| {
        "a number of bytes is wanted, such as 536870912, 512MiB or 2GiB, or `auto`".to_owned()
    })
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    let binary = UNITS.iter().take(3).find(|(_, unit)| bytes >= *unit);
    match binary {
        None => format!("{bytes} B"),
        Some((name, unit)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        assert_eq!(parse_quota("auto"), Ok(QuotaSetting::Auto));
        assert_eq!(parse_quota("512MiB"), Ok(QuotaSetting::Bytes(512 << 20)));
        assert_eq!(parse_quota("2 GB"), Ok(QuotaSetting::Bytes(2_000_000_000)));
        assert_eq!(parse_quota("17"), Ok(QuotaSetting::Bytes(17)));
        for wrong in ["", "MiB", "-1", "1.5GiB", "99999999999GiB", "Auto"] {
            assert!(parse_quota(wrong).is_err(), "{wrong}");
        }
        assert_eq!([size(7), size(1_536), size(5 << 29)], ["7 B", "1.5 KiB", "2.5 GiB"]);
    }
}
