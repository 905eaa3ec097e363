//! `fencepost kv`: plain keys.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use clap::Subcommand;
use fencepost_client::{Client, proto};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::ids::LeaseId;
use crate::key_view::KeyView;
use crate::output;
use crate::words::{cell, plain};

/// Read and write plain keys
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a key
    Put {
        /// The key
        key: String,
        /// The value [default: read from standard input]
        value: Option<String>,
        /// Let the key go away with this lease
        #[arg(long)]
        lease: Option<LeaseId>,
    },
    /// Read a key: its value alone, unless asked otherwise
    Get {
        /// The key
        key: String,
        /// All keys that begin with KEY
        #[arg(long)]
        prefix: bool,
        /// At most so many keys
        #[arg(long, requires = "prefix", default_value_t = 0, hide_default_value = true)]
        limit: u32,
    },
    /// Remove a key
    Del {
        /// The key
        key: String,
        /// All keys that begin with KEY
        #[arg(long)]
        prefix: bool,
    },
}

#[derive(Serialize)]
struct Written<'a> {
    key: &'a str,
    revision: i64,
}

#[derive(Serialize)]
struct Found {
    revision: i64,
    /// Of all that match, also those that are not listed.
    count: u64,
    /// Whether there are more than are listed.
    more: bool,
    kvs: Vec<KeyView>,
}

#[derive(Serialize)]
struct Deleted {
    deleted: u64,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect("kv").await?;
        match args.action {
            Action::Put { key, value, lease } => put(&client, common, key, value, lease).await?,
            Action::Get { key, prefix: true, limit } => list(&client, common, key, limit).await?,
            Action::Get { key, .. } => get(&client, common, key).await?,
            Action::Del { key, prefix } => delete(&client, common, key, prefix).await?,
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn put(
    client: &Client,
    common: &Common,
    key: String,
    value: Option<String>,
    lease: Option<LeaseId>,
) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    match value {
        Some(value) => bytes.extend_from_slice(value.as_bytes()),
        None => drop(io::stdin().lock().read_to_end(&mut bytes)?),
    }
    let lease_id = lease.map_or(0, |lease| lease.0);
    let request =
        proto::PutRequest { key: key.clone(), value: bytes.into(), lease_id, ..Default::default() };
    let doing = format!("write the key {}", plain(&key));
    let revision = client.kv().put_as(request).await.told(doing)?;
    let text = format!("written at revision {revision}");
    common.output().either(&Written { key: &key, revision }, &text)
}

async fn ask(
    client: &Client,
    request: proto::RangeRequest,
) -> anyhow::Result<proto::RangeResponse> {
    let doing = format!("read the key {}", plain(&request.key));
    Ok(client.kv().range_as(request).await.told(doing)?)
}

fn found(answer: proto::RangeResponse) -> Found {
    Found {
        revision: answer.header.map_or(0, |header| header.revision),
        count: answer.count,
        more: answer.more,
        kvs: answer.kvs.into_iter().map(KeyView::from).collect(),
    }
}

async fn get(client: &Client, common: &Common, key: String) -> anyhow::Result<()> {
    let asked = plain(&key);
    let answer = ask(client, proto::RangeRequest { key, ..Default::default() }).await?;
    let value = answer.kvs.first().map(|kv| kv.value.clone());
    if common.output().is_json() {
        output::json(&found(answer))?;
    } else if let Some(value) = &value {
        // As it is, whatever it is: what reads this may be another program.
        let mut out = io::stdout().lock();
        out.write_all(value)?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    if value.is_none() {
        return Err(Failure::new(
            format!("cannot read the key {asked}"),
            "there is no such key",
            "look at what there is with `fencepost kv get --prefix`",
        )
        .into());
    }
    Ok(())
}

async fn list(client: &Client, common: &Common, key: String, limit: u32) -> anyhow::Result<()> {
    let found = pages(client, &key, limit).await?;
    if common.output().is_json() {
        return output::json(&found);
    }
    let row = |kv: &KeyView| {
        let lease = kv.lease.map_or("-".to_owned(), |lease| lease.to_string());
        vec![cell(&kv.key.shown()), cell(&kv.value.shown()), kv.mod_revision.to_string(), lease]
    };
    output::table(&["KEY", "VALUE", "REVISION", "LEASE"], found.kvs.iter().map(row).collect())?;
    if found.more {
        // Whoever has closed standard error does not want to hear it.
        let _ = writeln!(io::stderr(), "{} of {} keys are listed", found.kvs.len(), found.count);
    }
    Ok(())
}

/// All keys, or the first so many. They come in pages, each as the state is at that moment.
async fn pages(client: &Client, prefix: &str, limit: u32) -> anyhow::Result<Found> {
    let mut all = proto::RangeResponse::default();
    loop {
        let request = proto::RangeRequest {
            key: prefix.to_owned(),
            prefix: true,
            after: all.kvs.last().map(raw_key).unwrap_or_default().into(),
            limit,
            // Those that are not listed are counted once.
            count: limit > 0,
            ..Default::default()
        };
        let page = ask(client, request).await?;
        let is_over = limit > 0 || !page.more || page.kvs.is_empty();
        all.header = all.header.or(page.header);
        all.more = page.more;
        all.count = page.count;
        all.kvs.extend(page.kvs);
        if is_over {
            all.count = all.count.max(all.kvs.len() as u64);
            return Ok(found(all));
        }
    }
}

/// A key as bytes, whichever field it stands in.
fn raw_key(kv: &proto::KeyVal) -> Vec<u8> {
    if kv.key.is_empty() { kv.raw_key.to_vec() } else { kv.key.clone().into_bytes() }
}

async fn delete(client: &Client, common: &Common, key: String, prefix: bool) -> anyhow::Result<()> {
    let doing = format!("remove the key {}", plain(&key));
    let kv = client.kv();
    let deleted = match prefix {
        true => kv.delete_prefix(key).await.told(doing)?,
        false => u64::from(kv.delete(key).await.told(doing)?),
    };
    let text = match deleted {
        1 => "removed 1 key".to_owned(),
        count => format!("removed {count} keys"),
    };
    common.output().either(&Deleted { deleted }, &text)
}
