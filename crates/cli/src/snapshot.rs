//! `fencepost snapshot`: backups, and a new cluster from one.
//!
//! Guarantees: a backup in a file is whole, durable and readable by its owner only, or it is not
//! there. A backup on standard output is whole if the exit code is 0.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use fencepost_client::Client;
use fencepost_node::shell::backup::{self, BackupInfo};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::ids::MemberId;
use crate::output;
use crate::words::{length, parse_length, parse_time};

/// Make a backup, check one, or begin a cluster from one
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a backup of the state as it is now
    Save {
        /// New file, or `-` for standard output
        file: PathBuf,
        /// As the member that answers knows it, without asking the others: works without a leader,
        /// and may lack what was confirmed last
        #[arg(long)]
        stale: bool,
    },
    /// Read a backup as a restore does, and show what it holds
    ///
    /// Needs no server, and changes nothing.
    Verify {
        /// The backup
        file: PathBuf,
    },
    /// Make the data directory of a cluster with one member from a backup
    ///
    /// Needs no server. Tokens are greater than any of before, also if the same backup is restored
    /// twice: they start at the wall clock. Plain keys are kept; leases and locks have ended. No lock
    /// is granted until every lease of the lost cluster has expired. Members of the old cluster are
    /// refused.
    Restore(RestoreArgs),
}

#[derive(clap::Args)]
struct RestoreArgs {
    /// The backup
    file: PathBuf,
    /// Data directory, which must be empty or not exist
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Name of the member
    #[arg(long, default_value = "n1")]
    name: String,
    /// Where other members will reach it [default: what `serve` says when it starts]
    #[arg(long, value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
    peer: String,
    /// When the last member of the lost cluster stopped, as 2026-11-18T09:30:00Z: the time since then
    /// shortens the wait before locks are granted
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "grant_after")]
    lost_at: Option<u64>,
    /// Grant no lock for so long [default: the largest TTL that the backup allows]
    #[arg(long, value_name = "DURATION", value_parser = parse_length)]
    grant_after: Option<Duration>,
    /// Start tokens above this one as well
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    min_revision: u64,
    /// Accept a clock more than 30 days after the backup
    #[arg(long)]
    accept_clock: bool,
}

#[derive(Serialize)]
struct Saved<'a> {
    file: &'a Path,
    bytes: u64,
}

#[derive(Serialize)]
struct Verified<'a> {
    file: &'a Path,
    bytes: u64,
    created: Option<String>,
    cluster_id: MemberId,
    incarnation: u64,
    revision: u64,
    keys: usize,
    locks: usize,
    leases: usize,
    ttl_max_ms: u64,
    grant_after_ms: u64,
}

#[derive(Serialize)]
struct Restored<'a> {
    data_dir: &'a Path,
    cluster_id: MemberId,
    incarnation: u64,
    id: MemberId,
    name: &'a str,
    revision: u64,
    grant_after_ms: u64,
    grants_at: String,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Save { file, stale } if file.as_os_str() == "-" => save_to_stdout(stale, common)?,
        Action::Save { file, stale } => save(&file, stale, common)?,
        Action::Verify { file } => verify(&file, common)?,
        Action::Restore(args) => restore(args, common)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(file: &Path, common: &Common) -> anyhow::Result<()> {
    let info = backup::verify(file)?;
    let created = info.created_unix_ms.map(backup::utc);
    let BackupInfo { incarnation, revision, keys, locks, leases, bytes, .. } = info;
    if common.output().is_json() {
        return output::json(&Verified {
            file,
            bytes,
            created,
            cluster_id: MemberId(info.cluster_id),
            incarnation,
            revision,
            keys,
            locks,
            leases,
            ttl_max_ms: info.ttl_max_ms,
            grant_after_ms: info.grant_after_ms,
        });
    }
    let line = |label: &str, value: &str| output::line(&format!("{label:<14}{value}"));
    line("cluster", &MemberId(info.cluster_id).to_string())?;
    line("incarnation", &incarnation.to_string())?;
    line("revision", &revision.to_string())?;
    line("created", created.as_deref().unwrap_or("unknown: an older build made it"))?;
    line("keys", &keys.to_string())?;
    line("locks", &locks.to_string())?;
    line("leases", &leases.to_string())?;
    line("largest TTL", &duration(info.ttl_max_ms))?;
    line("bytes", &bytes.to_string())?;
    let wait = duration(info.grant_after_ms);
    line("restore", &format!("grants no lock for {wait} after its start, unless a flag changes it"))
}

fn restore(args: RestoreArgs, common: &Common) -> anyhow::Result<()> {
    let RestoreArgs { file, data_dir, name, peer, lost_at, grant_after, .. } = args;
    let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    let restored = backup::restore(backup::Restore {
        from: file,
        data_dir: data_dir.clone(),
        name,
        peer,
        grant_after: grant_after.map(millis),
        lost_at,
        min_revision: args.min_revision,
        accept_clock: args.accept_clock,
        now_unix_ms: None,
    })?;
    let document = Restored {
        data_dir: &data_dir,
        cluster_id: MemberId(restored.identity.cluster_id),
        incarnation: restored.identity.incarnation,
        id: MemberId(restored.identity.node_id),
        name: &restored.identity.name,
        revision: restored.revision,
        grant_after_ms: restored.grant_after,
        grants_at: backup::utc(restored.unix_ms.saturating_add(restored.grant_after)),
    };
    let Restored { cluster_id, incarnation, revision, grants_at, .. } = &document;
    let grants = match restored.grant_after {
        0 => "locks are granted as soon as it runs".to_owned(),
        wait => format!(
            "locks are granted {} after it starts: at {grants_at} if it starts now",
            duration(wait)
        ),
    };
    let text = format!(
        "cluster {cluster_id} continues as incarnation {incarnation} at revision {revision}\n\
         {grants}\n\
         start it with: fencepost serve --data-dir {}",
        data_dir.display()
    );
    common.output().either(&document, &text)
}

fn duration(millis: u64) -> String {
    length(i64::try_from(millis).unwrap_or(i64::MAX))
}

fn save_to_stdout(stale: bool, common: &Common) -> anyhow::Result<()> {
    let mut out = io::stdout();
    if out.is_terminal() {
        return Err(Failure::usage(
            "cannot write the backup to a terminal",
            "a backup is binary",
            "redirect it, as in `fencepost snapshot save - > FILE`, or name a file",
        )
        .into());
    }
    // A reader that is gone has half a backup, so a broken pipe is a failure here.
    let io = |why: io::Error| {
        Failure::new(
            "cannot write the backup to standard output",
            format!("the system says: {why}"),
            "discard what was written, and run `fencepost snapshot save -` again",
        )
    };
    let bytes = block_on(async {
        let client = common.connect("snapshot").await?;
        receive(&client, stale, &mut out, &io).await
    })?;
    out.flush().map_err(io)?;
    // Standard output carries the backup, so the report goes elsewhere.
    let _ = writeln!(io::stderr(), "wrote {bytes} bytes");
    Ok(())
}

fn save(path: &Path, stale: bool, common: &Common) -> anyhow::Result<()> {
    let io = |why: io::Error| {
        Failure::new(
            format!("cannot write the backup {}", path.display()),
            format!("the system says: {why}"),
            "choose another path, or make room there",
        )
    };
    // Looked at before anything is asked of the service; the last step looks again.
    if path.exists() {
        return Err(exists(path).into());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut unfinished = NamedTempFile::new_in(folder).map_err(io)?;
    let bytes = block_on(async {
        let client = common.connect("snapshot").await?;
        receive(&client, stale, unfinished.as_file_mut(), &io).await
    })?;
    unfinished.as_file().sync_all().map_err(io)?;
    unfinished.persist_noclobber(path).map_err(|why| match why.error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => io(why.error),
    })?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;
    let text = format!("wrote {bytes} bytes to {}", path.display());
    common.output().either(&Saved { file: path, bytes }, &text)
}

fn exists(path: &Path) -> Failure {
    Failure::new(
        format!("cannot write the backup {}", path.display()),
        "there is a file of that name, and it may be the only good backup",
        "choose another name, or move the file away",
    )
}

async fn receive(
    client: &Client,
    stale: bool,
    to: &mut impl Write,
    io: &impl Fn(io::Error) -> Failure,
) -> anyhow::Result<u64> {
    let pieces = match stale {
        true => client.snapshot_stale().await,
        false => client.snapshot().await,
    };
    let mut pieces = pieces.told("make a backup")?;
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.told("make a backup")?;
        to.write_all(&piece).map_err(io)?;
        bytes += piece.len() as u64;
    }
    Ok(bytes)
}
