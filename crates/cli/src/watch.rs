//! `fencepost watch`: what happens to keys and locks, a line for each event.

use std::io::{self, Write as _};
use std::process::ExitCode;

use fencepost_client::{Watch, proto};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::ids::LeaseId;
use crate::key_view::{self, Text};
use crate::words::{length, plain};
use crate::{output, signals};

/// Tell what happens to keys and locks, a line for each event, until interrupted
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The key; all keys without it. The keys of a lock begin with its name and a slash
    key: Option<String>,

    /// All keys that begin with KEY
    #[arg(long, requires = "key")]
    prefix: bool,

    /// From this revision on, also if it is past
    #[arg(long, value_name = "REVISION", value_parser = clap::value_parser!(i64).range(1..))]
    from: Option<i64>,
}

/// One event.
#[derive(Serialize)]
struct Document {
    revision: i64,
    sub: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    key: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Text>,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_revision: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseId>,
    /// Of a key that went: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    /// Of a lock: the holder's token and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    /// Of a demand: how long the holder still has the lock, and why it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect("watch").await?;
        let mut signals = signals::End::listen()?;
        let (key, what) = match &args.key {
            Some(key) => (key.clone(), format!("watch {}", plain(key))),
            None => (String::new(), "watch all keys".to_owned()),
        };
        let is_one = args.key.is_some() && !args.prefix;
        let watch = if is_one { client.watch(key) } else { client.watch_prefix(key) };
        let mut watch = watch.lock_events();
        if let Some(revision) = args.from {
            watch = watch.from(revision);
        }
        tokio::select! {
            ended = follow(&mut watch, &what, args.from, common.output().is_json()) => ended?,
            _ = signals.heard() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

async fn follow(
    watch: &mut Watch,
    what: &str,
    from: Option<i64>,
    is_json: bool,
) -> anyhow::Result<()> {
    let present = watch.started().await.told(what)?;
    let revision = from.unwrap_or(present + 1);
    // On standard error, because it is no event. Whoever starts a watch can wait for it.
    let _ = writeln!(io::stderr(), "watching from revision {revision}");
    while let Some(event) = watch.next().await {
        let document = Document::from(event.told(what)?);
        if is_json {
            output::json(&document)?;
        } else {
            output::line(&document.line())?;
        }
    }
    Ok(())
}

impl From<proto::Event> for Document {
    fn from(event: proto::Event) -> Document {
        use proto::event::Type;
        let kv = event.kv.unwrap_or_default();
        let kind = Type::try_from(event.r#type).ok();
        let is_put = kind == Some(Type::Put);
        let is_lock = !matches!(kind, Some(Type::Put | Type::Delete));
        let is_asked = kind == Some(Type::ForceAsked);
        Document {
            revision: event.revision,
            sub: event.sub,
            kind: word(kind),
            key: key_view::key(&kv),
            value: is_put.then(|| Text::from(&*kv.value)),
            create_revision: is_put.then_some(kv.create_revision),
            version: is_put.then_some(kv.version),
            lease: key_view::lease(kv.lease_id),
            cause: Some(event.cause).filter(|cause| !cause.is_empty()),
            token: is_lock.then_some(event.fencing_token),
            client: is_lock.then_some(event.client_id),
            until_ms: is_asked.then_some(event.until_ms),
            reason: Some(event.reason).filter(|_| is_asked),
        }
    }
}

fn word(kind: Option<proto::event::Type>) -> &'static str {
    use proto::event::Type;
    match kind {
        Some(Type::Put) => "put",
        Some(Type::Delete) => "delete",
        Some(Type::Granted) => "granted",
        Some(Type::Lost) => "lost",
        Some(Type::ForceAsked) => "force_asked",
        Some(Type::OverBudget) => "over_budget",
        // Of a server that is newer than this.
        None => "unknown",
    }
}

impl Document {
    fn line(&self) -> String {
        let mut line = format!("{:>8}  {:<11} {}", self.revision, self.kind, self.key.shown());
        let mut add = |label: &str, text: Option<String>| {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                line.push_str(&format!("  {label}{text}"));
            }
        };
        add("", self.value.as_ref().map(|value| format!("{:?}", value.shown())));
        add("", self.cause.clone());
        add("token ", self.token.map(|token| token.to_string()));
        add("client ", self.client.clone());
        add("lease ", self.lease.map(|lease| lease.to_string()));
        add("until ", self.until_ms.map(length));
        add("because ", self.reason.clone());
        plain(&line)
    }
}
