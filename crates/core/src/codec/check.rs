//! Whether a state that was read makes sense.
//!
//! A checksum tells damage on the disk. This tells a file that was never right, before the state
//! machine trips over it: each check guards something that its code takes for granted. What
//! would merely be strange is let through, because a node that cannot read its own snapshot
//! cannot serve at all.

use crate::ids::{ClientId, Epoch, Key, LeaseId, Revision};
use crate::lease::Lease;
use crate::record::{Record, Role, queue_form};
use crate::state::State;

type Check = Result<(), &'static str>;

/// What can be said without the indexes. `rebuild.rs` says the rest.
pub(super) fn check(state: &State) -> Check {
    let numbered = Revision::FIRST <= state.revision && state.revision < Revision::LIMIT;
    ensure(numbered, "an impossible revision")?;
    ensure(state.feature_level > 0, "an impossible feature level")?;
    ensure(
        state.limits.are_sound(),
        "limits that contradict each other",
    )?;
    ensure(!state.clients.contains_key(&ClientId::default()), "a client without a name")?;
    for (&id, lease) in &state.leases {
        check_lease(state, id, lease)?;
    }
    for (key, record) in &state.keys {
        check_record(state, key, record)?;
    }
    check_history(state)
}

fn check_lease(state: &State, id: LeaseId, lease: &Lease) -> Check {
    ensure(id > LeaseId::NONE, "a lease id that is not positive")?;
    let epoch = Epoch::ANY < lease.epoch && lease.epoch <= Epoch(state.last_epoch);
    ensure(epoch, "a lease epoch that was not given out")
}

fn check_record(state: &State, key: &Key, record: &Record) -> Check {
    ensure(!key.is_empty(), "an empty key")?;
    let revisions = Revision::NONE < record.created
        && record.created <= record.modified
        && record.modified <= state.revision;
    ensure(revisions, "impossible revisions of a key")?;
    ensure(record.version > 0, "an impossible version of a key")?;
    ensure(
        record.lease >= LeaseId::NONE,
        "a key of an impossible lease",
    )?;
    // A later event at the same revision must not get a number that was used.
    let numbered = record.created < state.revision || record.sub < state.next_sub;
    ensure(numbered, "a key with a number that was not given out")?;
    let own = queue_form(key).map(|(_, own)| own);
    match &record.role {
        Role::Plain => ensure(own.is_none(), "a key outside the queue that it belongs to"),
        Role::Foreign => ensure(own.is_some(), "a key in a queue that it does not belong to"),
        Role::Contender(contender) => {
            ensure(own == Some(record.lease), "a contender of another lease")?;
            ensure(
                contender.granted <= state.revision,
                "a grant at a revision to come",
            )
        }
    }
}

fn check_history(state: &State) -> Check {
    let compacted = state.history.compacted() <= state.revision.next();
    ensure(compacted, "history compacted beyond the revision")?;
    let Some(last) = state.history.events.back() else {
        return Ok(());
    };
    let place = (last.revision, last.sub);
    ensure(
        place < (state.revision, state.next_sub),
        "an event beyond the revision",
    )
}

fn ensure(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(what) }
}
