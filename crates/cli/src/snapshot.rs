//! `fencepost snapshot`: backups, and a new cluster from one.
//!
//! Guarantees: a backup is whole, durable and readable by its owner only, or it is not there.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use fencepost_client::Client;
use fencepost_node::shell::backup;
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::ids::MemberId;
use crate::words::parse_length;

/// Make a backup, or begin a cluster from one
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a backup of the state as it is now to a new file
    Save {
        /// The file
        file: PathBuf,
    },
    /// Make the data directory of a cluster with one member from a backup
    ///
    /// Needs no server. The cluster goes on in its next incarnation: tokens go on growing, leases
    /// and locks of before have ended, plain keys are there, and nothing is granted until the
    /// longest lease of before has run out. Members of the old cluster are refused.
    Restore {
        /// The backup
        file: PathBuf,
        /// The directory, which must be empty or not there
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// What people call the member
        #[arg(long, default_value = "n1")]
        name: String,
        /// Where other members will reach it [default: what `serve` says when it starts]
        #[arg(long, value_name = "HOST:PORT", default_value = "", hide_default_value = true)]
        peer: String,
        /// Grant nothing for so long [default: the longest lease in the backup, at least 60s]
        #[arg(long, value_name = "TIME", value_parser = parse_length)]
        grant_after: Option<Duration>,
    },
}

#[derive(Serialize)]
struct Saved<'a> {
    file: &'a Path,
    bytes: u64,
}

#[derive(Serialize)]
struct Restored<'a> {
    data_dir: &'a Path,
    cluster_id: MemberId,
    incarnation: u64,
    id: MemberId,
    name: &'a str,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Save { file } => save(&file, common)?,
        Action::Restore { file, data_dir, name, peer, grant_after } => {
            let grant_after =
                grant_after.map(|length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
            let restored = backup::restore(backup::Restore {
                from: file,
                data_dir: data_dir.clone(),
                name,
                peer,
                grant_after,
            })?;
            let document = Restored {
                data_dir: &data_dir,
                cluster_id: MemberId(restored.cluster_id),
                incarnation: restored.incarnation,
                id: MemberId(restored.node_id),
                name: &restored.name,
            };
            let text = format!(
                "cluster {} is in incarnation {} now\nbegin it with: fencepost serve --data-dir {}",
                document.cluster_id,
                document.incarnation,
                data_dir.display()
            );
            common.output().either(&document, &text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn save(path: &Path, common: &Common) -> anyhow::Result<()> {
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
        receive(&client, unfinished.as_file_mut(), &io).await
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
    file: &mut File,
    io: &impl Fn(io::Error) -> Failure,
) -> anyhow::Result<u64> {
    let mut pieces = client.snapshot().await.told("make a backup")?;
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.told("make a backup")?;
        file.write_all(&piece).map_err(io)?;
        bytes += piece.len() as u64;
    }
    Ok(bytes)
}
