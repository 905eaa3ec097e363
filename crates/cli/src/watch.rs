//! `fencepost watch`: what happens to keys and locks, a line for each event.

use std::io::{self, Write as _};
use std::process::ExitCode;

use fencepost_client::{Client, Error, Watch, proto};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::ids::LeaseId;
use crate::key_view::{self, Text};
use crate::words::{length, plain};
use crate::{output, signals};

/// Tell what happens to keys and locks, a line for each event, until interrupted
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The key, or the lock; everything without it
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
        if let Some(revision) = args.from {
            refuse_future(&client, revision).await?;
        }
        let begin = |watch: Watch| match args.from {
            Some(revision) => watch.lock_events().from(revision),
            None => watch.lock_events(),
        };
        let mut watches = match args.key.is_some() && !args.prefix {
            // The queue of the lock of that name has keys of its own.
            true => {
                let queue = client.watch_prefix(format!("{key}/"));
                vec![begin(client.watch(key.clone())), begin(queue)]
            }
            false => vec![begin(client.watch_prefix(key.clone()))],
        };
        let lock = (watches.len() > 1).then_some(&*key);
        let shown = Shown { what: &what, lock, is_json: common.output().is_json() };
        tokio::select! {
            ended = shown.follow(&mut watches, args.from) => ended?,
            _ = signals.heard() => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A watch from a revision that is not there yet would wait without a word, most likely for ever.
async fn refuse_future(client: &Client, revision: i64) -> anyhow::Result<()> {
    let doing = format!("watch from revision {revision}");
    let page = proto::RangeRequest { key: "/".to_owned(), ..Default::default() };
    let answer = client.kv().range_as(page).await.told(&doing)?;
    let present = answer.header.map_or(i64::MAX, |header| header.revision);
    if revision <= present.saturating_add(1) {
        return Ok(());
    }
    Err(Failure::new(
        format!("cannot {doing}"),
        format!("the present revision is {present} (revision_future)"),
        format!("begin at revision {} or earlier, or without --from", present + 1),
    )
    .into())
}

/// How events are shown.
struct Shown<'a> {
    what: &'a str,
    /// The lock whose queue is watched beside its key.
    lock: Option<&'a str>,
    is_json: bool,
}

impl Shown<'_> {
    async fn follow(&self, watches: &mut [Watch], from: Option<i64>) -> anyhow::Result<()> {
        let mut present = i64::MAX;
        for watch in watches.iter_mut() {
            present = present.min(watch.started().await.told(self.what)?);
        }
        let revision = from.unwrap_or(present.saturating_add(1));
        // On standard error, because it is no event. Scripts that start a watch can wait for it.
        let _ = writeln!(io::stderr(), "watching from revision {revision}");
        match watches {
            [one] => {
                while let Some(event) = one.next().await {
                    self.tell(event)?;
                }
            }
            [key, queue] => {
                let next = async |one: &mut Watch| one.next().await;
                loop {
                    let event = tokio::select! {
                        event = next(key) => event,
                        event = next(queue) => event,
                    };
                    let Some(event) = event else { break };
                    self.tell(event)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn tell(&self, event: Result<proto::Event, Error>) -> anyhow::Result<()> {
        let event = event.told(self.what)?;
        if self.lock.is_some_and(|lock| !is_about(lock, &event)) {
            return Ok(());
        }
        let document = Document::from(event);
        match self.is_json {
            true => output::json(&document),
            false => output::line(&document.line()),
        }
    }
}

/// Whether an event is about the key of that name, or about a place in the queue of the lock.
fn is_about(lock: &str, event: &proto::Event) -> bool {
    let key = event.kv.as_ref().map_or("", |kv| &*kv.key);
    let Some(rest) = key.strip_prefix(lock) else { return false };
    let place = rest.strip_prefix('/').unwrap_or_default();
    let is_place = !place.is_empty() && place.bytes().all(|one| one.is_ascii_hexdigit());
    rest.is_empty() || is_place
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
