//! How answers, events and views are written: one line for each thing.

use fencepost_core::command::Mode;
use fencepost_core::event::{Cause, EventKind, Holding, KeyValue};
use fencepost_core::outcome::{OpAnswer, RenewResult, TxnAnswer};
use fencepost_core::query::{ClientInfo, Holder, LeaseInfo, LockView, Waiter, Waiting};
use fencepost_core::range::RangeAnswer;
use fencepost_core::signing::{KeyStage, SigningKey};
use fencepost_core::{
    Event, Key, LeaseId, LogTime, Outcome, PublicKey, Reply, State, Token, Value,
};

/// Runs of one letter at least this long are written as `{x*9}`.
const RUN_MIN: usize = 24;

/// The lines that a block has to say.
#[derive(Default)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn line(&mut self, line: &str) {
        self.0.push_str(shorten_runs(line).trim_end());
        self.0.push('\n');
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

fn shorten_runs(line: &str) -> String {
    let mut short = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let end = rest.find(|other| other != letter).unwrap_or(rest.len());
        let count = rest[..end].chars().count();
        if count < RUN_MIN {
            short.push_str(&rest[..end]);
        } else {
            short.push_str(&format!("{{{letter}*{count}}}"));
        }
        rest = &rest[end..];
    }
    short
}

/// ` name=value`, or nothing for nothing.
fn part(name: &str, value: impl std::fmt::Display) -> String {
    match value.to_string() {
        value if value.is_empty() => value,
        value => format!(" {name}={value}"),
    }
}

fn quoted(name: &str, value: &Value) -> String {
    if value.is_empty() { String::new() } else { format!(" {name}=\"{value:?}\"") }
}

fn lease_part(lease: LeaseId) -> String {
    if lease.is_none() { String::new() } else { part("lease", lease.0) }
}

pub(crate) fn moment(at: Option<LogTime>) -> String {
    match at {
        None => "none".into(),
        Some(LogTime::NEVER) => "never".into(),
        Some(at) => at.0.to_string(),
    }
}

/// ` name=moment`, or nothing.
fn moment_part(name: &str, at: Option<LogTime>) -> String {
    at.map(|_| part(name, moment(at))).unwrap_or_default()
}

fn joined<T: std::fmt::Display>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(",")
}

fn flag(name: &str, set: bool) -> String {
    if set { format!(" {name}") } else { String::new() }
}

pub(crate) fn standing(state: &State) -> String {
    format!(
        "now={} rev={} compact={} incarnation={} feature={} leases={}",
        state.now().0,
        state.revision().0,
        state.compact_revision().0,
        state.incarnation(),
        state.feature_level(),
        if state.has_leases() { "yes" } else { "no" },
    )
}

pub(crate) fn signing_key(bytes: PublicKey, key: SigningKey) -> String {
    let stage = match key.stage {
        KeyStage::Next(due) => format!("next due={}", due.0),
        KeyStage::Active => "active".into(),
        KeyStage::Retired => "retired".into(),
        KeyStage::Revoked => "revoked".into(),
    };
    format!("key {} member={} since={} {stage}", bytes.0[0], key.node.0, key.since.0)
}

pub(crate) fn reply(reply: &Reply) -> String {
    format!("rev={} {}", reply.revision.0, outcome(&reply.outcome))
}

pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".into(),
        Outcome::LeaseGranted(granted) => {
            format!("lease {} ttl={} epoch={}", granted.id.0, granted.ttl.0, granted.epoch.0)
        }
        Outcome::LeasesRenewed(all) => {
            let all: Vec<String> = all.iter().map(renewed).collect();
            format!("renewed {}", all.join("; "))
        }
        Outcome::LeaseRevoked(keys) => format!("revoked keys={keys}"),
        Outcome::Put(prev) => format!("put{}", prev_part(prev.as_deref())),
        Outcome::Deleted(count, prev) => format!("deleted {count}{}", removed(prev)),
        Outcome::DeletedPart(part) => {
            format!("deleted {} next={}{}", part.count, part.next, removed(&part.removed))
        }
        Outcome::Txn(answer) => txn(answer),
        Outcome::Acquired(one) => {
            format!("acquired {}", grant(&one.key, one.token, one.lease, one.remaining.0))
        }
        Outcome::Renewed(one) => {
            format!("renewed {}", grant(&one.key, one.token, one.lease, one.remaining.0))
        }
        Outcome::Queued(place) => format!("queued {}", place_of(place)),
        Outcome::AcquiredMany(many) => {
            let keys = joined(&many.keys);
            format!(
                "acquired-many {keys} token={} lease={} remaining={}",
                many.token.0, many.lease.0, many.remaining.0
            )
        }
        Outcome::Reserved(place) => format!("reserved {}", place_of(place)),
        Outcome::Released => "released".into(),
        Outcome::ReleasePending(until) => format!("release-pending until={}", until.0),
        Outcome::Ended(why) => format!("ended {}", cause(*why)),
        Outcome::NotFound => "not-found".into(),
        Outcome::Denied(denial) => format!("denied: {denial}"),
        Outcome::Rejected(reason) => format!("rejected {}: {reason}", reason.code()),
    }
}

fn renewed(renewed: &fencepost_core::outcome::Renewed) -> String {
    let number = if renewed.number == 0 { String::new() } else { format!("#{}", renewed.number) };
    let result = match renewed.result {
        RenewResult::Alive { ttl, changes } => format!("ttl={} changes={changes}", ttl.0),
        RenewResult::Gone => "gone".into(),
        RenewResult::HeldTooLong => "held-too-long".into(),
    };
    format!("{}{number} {result}", renewed.id.0)
}

fn grant(key: &Key, token: Token, lease: LeaseId, remaining: u64) -> String {
    format!("{key} token={} lease={} remaining={remaining}", token.0, lease.0)
}

fn place_of(place: &fencepost_core::outcome::Place) -> String {
    format!("{} position={}{}", place.key, place.position, part("after", &place.predecessor))
}

/// A place that was asked for tells more than the answer to an acquire.
pub(crate) fn place(place: &fencepost_core::outcome::Place) -> String {
    format!("waits {} holder={}", place_of(place), place.holder)
}

fn txn(answer: &TxnAnswer) -> String {
    let branch = if answer.succeeded { "then" } else { "else" };
    let ops: Vec<String> = answer.answers.iter().map(op).collect();
    format!("txn {branch} [{}]", ops.join("; "))
}

fn op(answer: &OpAnswer) -> String {
    match answer {
        OpAnswer::Put(prev) => format!("put{}", prev_part(prev.as_deref())),
        OpAnswer::Deleted(count, prev) => format!("deleted {count}{}", removed(prev)),
        OpAnswer::Range(answer) => {
            let kvs: Vec<String> = answer.kvs.iter().map(key_value).collect();
            format!(
                "{}{}",
                range(answer),
                if kvs.is_empty() { String::new() } else { format!(" ({})", kvs.join(", ")) }
            )
        }
        OpAnswer::Txn(inner) => txn(inner),
    }
}

pub(crate) fn range(answer: &RangeAnswer) -> String {
    format!("count={}{}", answer.count, flag("more", answer.more))
}

pub(crate) fn kvs(kvs: &[KeyValue], indent: &str, page: &mut Page) {
    for kv in kvs {
        page.line(&format!("{indent}{}", key_value(kv)));
    }
}

fn key_value(kv: &KeyValue) -> String {
    format!(
        "{}{} create={} mod={} version={}{}",
        kv.key,
        quoted("value", &kv.value),
        kv.create_revision.0,
        kv.mod_revision.0,
        kv.version,
        lease_part(kv.lease),
    )
}

fn prev_part(prev: Option<&KeyValue>) -> String {
    prev.map(|prev| format!(" prev({})", key_value(prev))).unwrap_or_default()
}

fn removed(prev: &[KeyValue]) -> String {
    prev.iter().map(|prev| prev_part(Some(prev))).collect()
}

fn holding(holding: &Holding) -> String {
    format!(
        "{} token={} lease={}{}",
        holding.key,
        holding.token.0,
        holding.lease.0,
        part("client", &holding.client)
    )
}

fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Released => "released",
        Cause::Expired => "expired",
        Cause::Revoked => "revoked",
        Cause::Forced => "forced",
        Cause::Cancelled => "cancelled",
        Cause::TimedOut => "timed-out",
        Cause::Orphaned => "orphaned",
        Cause::Incomplete => "incomplete",
        Cause::Deleted => "deleted",
    }
}

pub(crate) fn event(event: &Event) -> String {
    let what = match &event.kind {
        EventKind::Put { kv, prev } => {
            format!("put {}{}", key_value(kv), prev_part(prev.as_deref()))
        }
        EventKind::Deleted { prev, ended } => {
            // Everything but the key is left out of what a watch without `prev` is shown.
            let was = if prev.version == 0 {
                String::new()
            } else {
                format!(" version={}{}", prev.version, lease_part(prev.lease))
            };
            let ended = ended.as_ref().map(|ended| {
                let now = ended.holder.as_deref().map_or("nobody".to_owned(), holding);
                let held = if ended.held { "yes" } else { "no" };
                format!(" cause={} held={held} now={now}", cause(ended.cause))
            });
            format!("deleted {}{was}{}", prev.key, ended.unwrap_or_default())
        }
        EventKind::Granted(one) => format!("granted {}", holding(one)),
        EventKind::Lost(one) => format!("lost {}", holding(one)),
        EventKind::ForceAsked { holding: one, until, reason } => {
            format!("force-asked {} until={} reason=\"{reason}\"", holding(one), until.0)
        }
        EventKind::OverBudget(one) => format!("over-budget {}", holding(one)),
    };
    format!("  event {}.{} {what}", event.revision.0, event.sub)
}

fn mode(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "exclusive".into(),
        Mode::Shared => "shared".into(),
        Mode::Permit(permits) => format!("permit({permits})"),
    }
}

pub(crate) fn lock(view: &LockView, page: &mut Page) {
    let free = view.holders.is_empty() && view.waiting == 0 && view.foreign.is_empty();
    let floor = if view.fence_floor == Token(0) {
        String::new()
    } else {
        part("floor", view.fence_floor.0)
    };
    page.line(&format!(
        "lock {}{}{floor}{}{}{}",
        view.name,
        flag("free", free),
        part("fenced", joined(view.fenced.iter().map(|token| token.0))),
        moment_part("delayed-until", view.delayed_until),
        if view.waiting == 0 { String::new() } else { part("waiting", view.waiting) },
    ));
    for one in &view.holders {
        holder(one, page);
    }
    for one in &view.waiters {
        waiter(one, page);
    }
    for key in &view.foreign {
        page.line(&format!("  foreign {key}"));
    }
}

fn holder(one: &Holder, page: &mut Page) {
    page.line(&format!(
        "  holder {}{} lease={} token={} create={} mod={} version={} {} held={} remaining={} \
         expires={}{}{}",
        one.key,
        part("client", &one.client),
        one.lease.0,
        one.token.0,
        one.create_revision.0,
        one.mod_revision.0,
        one.version,
        mode(one.mode),
        one.held_for.0,
        one.remaining.0,
        moment(Some(one.expires_at)),
        quoted("meta", &one.metadata),
        moment_part("forced-at", one.forced_at),
    ));
}

fn waiter(one: &Waiter, page: &mut Page) {
    page.line(&format!(
        "  waiter {} {}{} lease={} create={}{} {} waited={}{}{}",
        one.position,
        one.key,
        part("client", &one.client),
        one.lease.0,
        one.create_revision.0,
        part("after", &one.predecessor),
        mode(one.mode),
        one.waited_for.0,
        moment_part("wait-until", one.wait_until),
        flag("reserved", one.reserved),
    ));
}

pub(crate) fn lease(info: &LeaseInfo, page: &mut Page) {
    let sole = info.sole_lock.as_ref().map(|name| part("sole-lock", name)).unwrap_or_default();
    page.line(&format!(
        "lease {} epoch={} ttl={} granted-ttl={} remaining={} expiry={}{} renewed={} \
         changes={}{}{sole}{}",
        info.id.0,
        info.epoch.0,
        info.ttl.0,
        info.granted_ttl.0,
        info.remaining.0,
        moment(Some(info.expiry)),
        part("client", &info.client),
        info.renewed_at.0,
        info.changes,
        flag("spent", info.spent),
        part("keys", joined(&info.keys)),
    ));
}

pub(crate) fn client(info: &ClientInfo, page: &mut Page) {
    page.line(&format!(
        "client {}{} last-seen={}{}",
        info.id,
        part("address", &info.address),
        info.last_seen.0,
        part("leases", joined(info.leases.iter().map(|lease| lease.0))),
    ));
}

pub(crate) fn waiting(wait: &Waiting, page: &mut Page) {
    page.line(&format!(
        "wait {} for {}{}{}",
        wait.waiter.key,
        wait.name,
        moment_part("delayed-until", wait.delayed_until),
        flag("deadlock", wait.deadlock),
    ));
    for link in &wait.chain {
        page.line(&format!(
            "  behind {}{}{} {} remaining={}",
            link.key,
            lease_part(link.lease),
            part("client", &link.client),
            if link.holds { "holds" } else { "blocks" },
            link.remaining.0,
        ));
    }
}
