//! From outcomes, events and views to the wire.

use std::time::{SystemTime, UNIX_EPOCH};

use fencepost_core::command::Mode;
use fencepost_core::event::{Cause, Event, EventKind, Holding, KeyValue};
use fencepost_core::outcome::{Granted, Place, RenewResult, Renewed};
use fencepost_core::query::{ClientInfo, Explanation, Holder, LeaseInfo, LockView, Waiter};
use fencepost_core::{Key, LogTime, Millis};
use fencepost_proto::v1;

/// As the wire has whole numbers. Nothing here comes near the bound.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn millis(length: Millis) -> i64 {
    signed(length.0)
}

/// When something ends that has so long left, in milliseconds of Unix time by this machine's clock.
/// For people: no clock decides anything.
#[expect(clippy::disallowed_methods, reason = "shown to people, and decides nothing")]
pub(crate) fn expires_unix_ms(remaining: Millis) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    i64::try_from(now).unwrap_or(i64::MAX).saturating_add(millis(remaining))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    // Nearly all of it is text, which is seen faster than it is repaired.
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// A stable word for each cause.
pub(crate) fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Released => "released",
        Cause::Expired => "expired",
        Cause::Revoked => "revoked",
        Cause::Forced => "forced",
        Cause::Cancelled => "cancelled",
        Cause::TimedOut => "timed_out",
        Cause::Orphaned => "orphaned",
        Cause::Incomplete => "incomplete",
        Cause::Deleted => "deleted",
    }
}

fn mode(mode: Mode) -> (v1::LockMode, u32) {
    match mode {
        Mode::Exclusive => (v1::LockMode::Exclusive, 0),
        Mode::Shared => (v1::LockMode::Shared, 0),
        Mode::Permit(permits) => (v1::LockMode::Permit, permits),
    }
}

pub(crate) fn key_val(kv: &KeyValue) -> v1::KeyVal {
    let (key, raw_key) = match std::str::from_utf8(&kv.key) {
        Ok(key) => (key.to_owned(), bytes::Bytes::new()),
        Err(_) => (String::new(), bytes::Bytes::copy_from_slice(&kv.key)),
    };
    v1::KeyVal {
        key,
        value: bytes::Bytes::copy_from_slice(&kv.value),
        create_revision: signed(kv.create_revision.0),
        mod_revision: signed(kv.mod_revision.0),
        version: signed(kv.version),
        lease_id: kv.lease.0,
        raw_key,
    }
}

fn bare_key(key: &Key) -> v1::KeyVal {
    key_val(&KeyValue { key: key.clone(), ..KeyValue::default() })
}

pub(crate) fn lease_granted(header: v1::Header, granted: &Granted) -> v1::LeaseGrantResponse {
    v1::LeaseGrantResponse {
        header: Some(header),
        id: granted.id.0,
        ttl: millis(granted.ttl) / 1_000,
        ttl_ms: millis(granted.ttl),
        epoch: granted.epoch.0,
    }
}

pub(crate) fn renewed(header: Option<v1::Header>, renewed: &Renewed) -> v1::LeaseKeepAliveResponse {
    let mut shown = v1::LeaseKeepAliveResponse {
        header,
        id: renewed.id.0,
        number: renewed.number,
        ..v1::LeaseKeepAliveResponse::default()
    };
    match renewed.result {
        RenewResult::Alive { ttl, changes } => {
            shown.ttl = millis(ttl) / 1_000;
            shown.ttl_ms = millis(ttl);
            shown.changes = changes;
        }
        RenewResult::Gone => {}
        RenewResult::HeldTooLong => shown.held_too_long = true,
    }
    shown
}

pub(crate) fn queued(place: &Place) -> v1::SessionAcquired {
    v1::SessionAcquired {
        holder: place.holder.as_str().to_owned(),
        state: v1::session_acquired::State::Queued.into(),
        keys: vec![text(&place.key)],
        position: place.position,
        ..v1::SessionAcquired::default()
    }
}

pub(crate) fn ended(cause: &str) -> v1::SessionAcquired {
    v1::SessionAcquired {
        state: v1::session_acquired::State::Ended.into(),
        cause: cause.to_owned(),
        ..v1::SessionAcquired::default()
    }
}

pub(crate) fn lock(view: &LockView, now: LogTime) -> v1::Lock {
    let shared = view.holders.first().map(|holder| holder.mode);
    let shared = shared.or_else(|| view.waiters.first().map(|waiter| waiter.mode));
    let (mode, permits) = mode(shared.unwrap_or_default());
    v1::Lock {
        name: text(&view.name),
        mode: mode.into(),
        permits,
        holders: view.holders.iter().map(|one| holder(one, now)).collect(),
        waiters: view.waiters.iter().map(waiter).collect(),
        waiters_total: view.waiting,
        foreign: view.foreign.iter().map(|key| text(key)).collect(),
        fence_floor: signed(view.fence_floor.0),
        holders_total: view.holding,
    }
}

fn holder(holder: &Holder, now: LogTime) -> v1::Holder {
    v1::Holder {
        client_id: holder.client.as_str().to_owned(),
        lease_id: holder.lease.0,
        fencing_token: signed(holder.token.0),
        since_ms: millis(holder.held_for),
        remaining_ms: millis(holder.remaining),
        metadata: bytes::Bytes::copy_from_slice(&holder.metadata),
        key: text(&holder.key),
        until_ms: holder.forced_at.map(|until| millis(until.since(now))).unwrap_or_default(),
        metadata_cut: holder.is_metadata_cut,
        expires_unix_ms: expires_unix_ms(holder.remaining),
        create_revision: signed(holder.create_revision.0),
        mod_revision: signed(holder.mod_revision.0),
        version: signed(holder.version),
    }
}

fn waiter(waiter: &Waiter) -> v1::Waiter {
    let (mode, permits) = mode(waiter.mode);
    v1::Waiter {
        position: waiter.position,
        client_id: waiter.client.as_str().to_owned(),
        lease_id: waiter.lease.0,
        mode: mode.into(),
        permits,
        waiting_ms: millis(waiter.waited_for),
        key: text(&waiter.key),
        predecessor_key: text(&waiter.predecessor),
        create_revision: signed(waiter.create_revision.0),
    }
}

pub(crate) fn lease(info: &LeaseInfo) -> v1::Lease {
    v1::Lease {
        id: info.id.0,
        ttl_ms: millis(info.ttl),
        granted_ttl_ms: millis(info.granted_ttl),
        remaining_ms: millis(info.remaining),
        client_id: info.client.as_str().to_owned(),
        keys: info.keys.iter().map(|key| text(key)).collect(),
        epoch: info.epoch.0,
        // That of an owner who waits does not run.
        expires_unix_ms: match info.expiry {
            LogTime::NEVER => 0,
            _ => expires_unix_ms(info.remaining),
        },
    }
}

/// A client, with at most so many of its leases.
pub(crate) fn client(info: &ClientInfo, now: LogTime, leases_max: usize) -> v1::ClientRecord {
    let seen = now.since(info.last_seen);
    v1::ClientRecord {
        client_id: info.id.as_str().to_owned(),
        address: info.address.as_str().to_owned(),
        seen_ms: millis(seen),
        last_seen_unix_ms: expires_unix_ms(Millis::ZERO).saturating_sub(millis(seen)),
        leases_total: info.leases_total,
        leases: info.leases.iter().take(leases_max).map(|lease| lease.0).collect(),
    }
}

/// An event as a watch sees it.
pub(crate) fn event(event: &Event, now: LogTime) -> v1::Event {
    let mut shown =
        v1::Event { revision: signed(event.revision.0), sub: event.sub, ..v1::Event::default() };
    match &event.kind {
        EventKind::Put { kv, prev } => {
            shown.r#type = v1::event::Type::Put.into();
            shown.kv = Some(key_val(kv));
            shown.prev_kv = prev.as_deref().map(key_val);
        }
        EventKind::Deleted { prev, ended } => {
            shown.r#type = v1::event::Type::Delete.into();
            let gone = KeyValue {
                key: prev.key.clone(),
                mod_revision: event.revision,
                ..KeyValue::default()
            };
            shown.kv = Some(key_val(&gone));
            // What a watch did not ask for was taken out of the event before.
            shown.prev_kv = (prev.version > 0).then(|| key_val(prev));
            shown.cause = ended.as_ref().map(|ended| cause(ended.cause)).unwrap_or_default().into();
        }
        EventKind::Granted(holding) => lock_event(&mut shown, v1::event::Type::Granted, holding),
        EventKind::Lost(holding) => lock_event(&mut shown, v1::event::Type::Lost, holding),
        EventKind::OverBudget(holding) => {
            lock_event(&mut shown, v1::event::Type::OverBudget, holding);
        }
        EventKind::ForceAsked { holding, until, reason } => {
            lock_event(&mut shown, v1::event::Type::ForceAsked, holding);
            shown.until_ms = millis(until.since(now));
            shown.reason = reason.as_str().to_owned();
        }
    }
    shown
}

fn lock_event(shown: &mut v1::Event, kind: v1::event::Type, holding: &Holding) {
    shown.r#type = kind.into();
    shown.kv = Some(v1::KeyVal { lease_id: holding.lease.0, ..bare_key(&holding.key) });
    shown.fencing_token = signed(holding.token.0);
    shown.client_id = holding.client.as_str().to_owned();
}

/// Sentences, the most important one first.
pub(crate) fn explanation(explanation: &Explanation, now: LogTime) -> Vec<String> {
    let mut reasons = Vec::new();
    for waiting in &explanation.waits {
        let who = named(waiting.waiter.client.as_str(), waiting.waiter.lease.0);
        let lock = text(&waiting.name);
        if waiting.deadlock {
            reasons.insert(
                0,
                format!(
                    "{who} waits for itself through other locks: only the end of a lease helps"
                ),
            );
        }
        if let Some(until) = waiting.delayed_until {
            let left = until.since(now);
            reasons.push(format!(
                "{who} waits because lock {lock} stands free for {left} more after its holder was lost"
            ));
        }
        for link in &waiting.chain {
            let other = named(link.client.as_str(), link.lease.0);
            let (at, left) = (text(&link.name), link.remaining);
            reasons.push(if link.holds {
                format!("{who} waits for {other}, which holds lock {at}; its lease has {left} left")
            } else if link.lease.is_none() {
                format!("{who} waits for the key {}, which is no contender", text(&link.key))
            } else {
                format!("{who} waits for {other}, which is ahead at lock {at}")
            });
        }
    }
    if reasons.is_empty() {
        for lock in &explanation.locks {
            reasons.push(state_of(lock, now));
        }
    }
    reasons
}

fn state_of(lock: &LockView, now: LogTime) -> String {
    let name = text(&lock.name);
    match (lock.holders.first(), lock.foreign.first(), lock.delayed_until) {
        (Some(holder), ..) => {
            let who = named(holder.client.as_str(), holder.lease.0);
            format!("lock {name} is held by {who}; nobody waits")
        }
        (None, Some(key), _) => {
            format!("lock {name} is blocked by the key {}, which is no contender", text(key))
        }
        (None, None, Some(until)) => {
            let left = until.since(now);
            format!("lock {name} stands free for {left} more after its holder was lost")
        }
        (None, None, None) => format!("lock {name} is free"),
    }
}

fn named(client: &str, lease: i64) -> String {
    match client {
        "" => format!("lease {lease:x}"),
        client => format!("{client} (lease {lease:x})"),
    }
}
