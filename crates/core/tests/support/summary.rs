//! What the model predicts, read off the real state: answers, locks, keys and leases as text.

use fencepost_core::outcome::RenewResult;
use fencepost_core::query::Sight;
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::{Key, LeaseId, Outcome, State};

/// An answer, without what the model does not predict.
pub(crate) fn answer(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => "done".into(),
        Outcome::LeaseGranted(one) => {
            format!("lease {} ttl {} epoch {}", one.id.0, one.ttl.0, one.epoch.0)
        }
        Outcome::LeasesRenewed(all) => {
            let each = all.iter().map(|one| match one.result {
                RenewResult::Alive { ttl, .. } => format!("alive for {}", ttl.0),
                RenewResult::Gone => "gone".into(),
                RenewResult::HeldTooLong => "held too long".into(),
            });
            each.collect::<Vec<_>>().join(", ")
        }
        Outcome::LeaseRevoked(keys) => format!("revoked with {keys} keys"),
        Outcome::Put(_) => "put".into(),
        Outcome::Deleted(count, _) => format!("deleted {count}"),
        Outcome::DeletedPart(part) => format!("deleted {} up to {}", part.count, part.next),
        Outcome::Txn(answer) => format!("txn {}", answer.succeeded),
        Outcome::Acquired(grant) => format!("held {}", grant.token.0),
        Outcome::AcquiredMany(grant) => format!("held {}", grant.token.0),
        Outcome::Renewed(grant) => format!("held again {}", grant.token.0),
        Outcome::Queued(place) | Outcome::Reserved(place) => {
            format!("waits as {} behind {} at {}", place.key, place.predecessor, place.position)
        }
        Outcome::Released => "released".into(),
        Outcome::ReleasePending(until) => format!("pending until {}", until.0),
        Outcome::Ended(cause) => format!("ended {cause:?}"),
        Outcome::NotFound => "not found".into(),
        Outcome::Denied(_) => "denied".into(),
        Outcome::Rejected(reason) => reason.code().into(),
    }
}

/// The whole key space, in order of keys.
pub(crate) fn all_keys() -> RangeQuery {
    KeyRange::prefix(b"").into()
}

/// One line for each key, with its place in a queue, and for each lease.
pub(crate) fn view(state: &State) -> Vec<String> {
    let locks = state.locks(b"", None, usize::MAX, &Sight::waiters(16));
    let role = |key: &Key| {
        for lock in &locks {
            if let Some(one) = lock.holders.iter().find(|one| one.key == *key) {
                return format!("holds {:?}", one.mode);
            }
            if let Some(one) = lock.waiters.iter().find(|one| one.key == *key) {
                return format!("waits {:?} at {}", one.mode, one.position);
            }
            if lock.foreign.contains(key) {
                return "foreign".into();
            }
        }
        "plain".into()
    };
    let mut lines = Vec::new();
    for kv in state.range(&all_keys()).kvs {
        let created = kv.create_revision.0;
        lines.push(format!("{} {created} {} {}", kv.key, kv.lease.0, role(&kv.key)));
    }
    for lease in state.leases(LeaseId(0), usize::MAX) {
        lines.push(format!("lease {} {} {}", lease.id.0, lease.epoch.0, lease.expiry.0));
    }
    lines
}
