//! Whether a state that was read makes sense.
//!
//! A checksum tells damage on the disk. This tells a file that was never right, before the state
//! machine trips over it: each check guards something that its code takes for granted. What
//! would merely be strange is let through, because a node that cannot read its own snapshot
//! cannot serve at all.

use crate::ids::{ClientId, Epoch, Key, LeaseId, LogTime, Revision};
use crate::lease::Lease;
use crate::record::{Record, Role, queue_form};
use crate::signing::KeyStage;
use crate::state::State;

type Check = Result<(), &'static str>;

/// What can be said without the indexes. `rebuild.rs` says the rest.
pub(super) fn check(state: &State) -> Check {
    let numbered = Revision::FIRST <= state.revision && state.revision < Revision::LIMIT;
    ensure(numbered, "an impossible revision")?;
    ensure(state.now < LogTime::LIMIT, "a log time beyond all time")?;
    ensure(state.last_lease >= 0, "a lease id that cannot have been chosen")?;
    ensure(state.feature_level > 0, "an impossible feature level")?;
    ensure(state.limits.are_sound(), "limits that contradict each other")?;
    ensure(!state.clients.contains_key(&ClientId::default()), "a client without a name")?;
    for (&id, lease) in &state.leases {
        check_lease(state, id, lease)?;
    }
    for (key, signing) in &state.signing_keys {
        // Each is the one that its member is found to have.
        let found = match signing.stage {
            KeyStage::Active => state.active_key_of(signing.node),
            KeyStage::Next(_) => state.next_key_of(signing.node),
            KeyStage::Retired | KeyStage::Revoked => Some(*key),
        };
        ensure(found == Some(*key), "two signing keys of one member in one stage")?;
    }
    for (key, record) in &state.keys {
        check_record(state, key, record)?;
    }
    check_history(state)
}

fn check_lease(state: &State, id: LeaseId, lease: &Lease) -> Check {
    ensure(id > LeaseId::NONE, "a lease id that is not positive")?;
    let epoch = Epoch::ANY < lease.epoch && lease.epoch <= Epoch(state.last_epoch);
    ensure(epoch, "a lease epoch that was not given out")?;
    // It ends with its lock, so while it lives its lock has its contender.
    let stands = lease.sole_lock.as_ref().is_none_or(|name| {
        state.key_in_queue(name, id).is_some_and(|(_, record)| record.contender().is_some())
    });
    ensure(stands, "a lease made for a lock that it does not stand for")
}

fn check_record(state: &State, key: &Key, record: &Record) -> Check {
    ensure(!key.is_empty(), "an empty key")?;
    let revisions = Revision::NONE < record.created
        && record.created <= record.modified
        && record.modified <= state.revision;
    ensure(revisions, "impossible revisions of a key")?;
    ensure(record.version > 0, "an impossible version of a key")?;
    ensure(record.lease >= LeaseId::NONE, "a key of an impossible lease")?;
    // A later event at the same revision must not get a number that was used.
    let numbered = record.created < state.revision || record.sub < state.next_sub;
    ensure(numbered, "a key with a number that was not given out")?;
    let own = queue_form(key).map(|(_, own)| own);
    match &record.role {
        Role::Plain => ensure(own.is_none(), "a key outside the queue that it belongs to"),
        Role::Foreign => ensure(own.is_some(), "a key in a queue that it does not belong to"),
        Role::Contender(contender) => {
            ensure(own == Some(record.lease), "a contender of another lease")?;
            ensure(contender.granted <= state.revision, "a grant at a revision to come")
        }
    }
}

fn check_history(state: &State) -> Check {
    let compacted = state.history.compacted() <= state.revision.next();
    ensure(compacted, "history compacted beyond the revision")?;
    let is_past = |place| place < (state.revision, state.next_sub);
    ensure(state.history.newest().is_none_or(is_past), "an event beyond the revision")
}

fn ensure(holds: bool, what: &'static str) -> Check {
    if holds { Ok(()) } else { Err(what) }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::codec::DecodeError;
    use crate::command::{Acquire, Action, Command, Entry, LeaseGrant, Mode, Put};
    use crate::history::History;
    use crate::ids::{LockName, Millis, NodeId, PublicKey, Seq, Token};
    use crate::limits::Limits;
    use crate::lock::Floor;
    use crate::once::Answer;
    use crate::outcome::Outcome;
    use crate::signing::SigningKey;

    /// Two clients share one lock; a third key is nobody's.
    fn sound() -> State {
        let mut actions = Vec::new();
        for (id, client) in [(1, "ann"), (2, "ben")] {
            let id = LeaseId(id);
            let ttl = Millis(1_000);
            let client = ClientId::from(client);
            actions.push(Action::LeaseGrant(LeaseGrant { id, ttl, client, ..Default::default() }));
            let (name, lease) = (LockName::from("a"), id.into());
            let mode = Mode::Shared;
            actions.push(Action::Acquire(Acquire { name, lease, mode, ..Default::default() }));
        }
        actions.push(Action::Put(Put { key: "k".into(), ..Put::default() }));
        let mut state = State::new();
        let commands = actions.into_iter().map(Command::from).collect();
        state.apply(Entry { at: LogTime(1), commands });
        state
    }

    fn refusal(spoil: impl FnOnce(&mut State)) -> &'static str {
        let mut state = sound();
        spoil(&mut state);
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        match State::decode(&bytes) {
            Ok(_) => "",
            Err(DecodeError::Malformed(malformed)) => malformed.what,
            Err(_) => "another refusal",
        }
    }

    fn record<'a>(state: &'a mut State, key: &str) -> &'a mut Record {
        state.keys.get_mut(&Key::from(key)).expect("the key was put there")
    }

    #[test]
    fn what_is_sound_is_read() {
        assert_eq!(refusal(|_| {}), "");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let one = LeaseId(1);
        let lease = |state: &mut State| state.leases.remove(&one).expect("it was granted");
        let same = |what, found| assert_eq!(found, what);
        same("an impossible revision", refusal(|state| state.revision = Revision::LIMIT));
        same("an impossible feature level", refusal(|state| state.feature_level = 0));
        same("limits that contradict each other", refusal(|state| state.limits.leases_max = 0));
        same("a log time beyond all time", refusal(|state| state.now = LogTime::LIMIT));
        same("a lease id that cannot have been chosen", refusal(|state| state.last_lease = -1));
        same(
            "a lease made for a lock that it does not stand for",
            refusal(|state| {
                let lease = state.leases.get_mut(&LeaseId(1)).expect("it was granted");
                lease.sole_lock = Some(LockName::from("elsewhere"));
            }),
        );
        same(
            "a client without a name",
            refusal(|state| drop(state.clients.insert("".into(), Default::default()))),
        );
        same(
            "a lease id that is not positive",
            refusal(|state| {
                let lease = lease(state);
                state.leases.insert(LeaseId(0), lease);
            }),
        );
        same("a lease epoch that was not given out", refusal(|state| state.last_epoch = 1));
        same("a lease of an unknown client", refusal(|state| drop(state.clients.pop_first())));
        same(
            "a key of an unknown lease",
            refusal(|state| {
                lease(state);
            }),
        );
        same(
            "two signing keys of one member in one stage",
            refusal(|state| {
                let (node, since) = (NodeId(1), LogTime(1));
                let key = SigningKey { node, stage: KeyStage::Active, since };
                state.signing_keys.extend([(PublicKey([1; 32]), key), (PublicKey([2; 32]), key)]);
            }),
        );
        same(
            "two leases of one owner for one lock",
            refusal(|state| {
                for lease in state.leases.values_mut() {
                    lease.client = "ann".into();
                    lease.sole_lock = Some("a".into());
                }
            }),
        );
    }

    #[test]
    fn an_impossible_key_is_refused() {
        let same = |what, found| assert_eq!(found, what);
        same("impossible revisions of a key", refusal(|state| record(state, "k").created.0 = 0));
        same("an impossible version of a key", refusal(|state| record(state, "k").version = 0));
        same("a key of an impossible lease", refusal(|state| record(state, "k").lease.0 = -1));
        same("a key with a number that was not given out", refusal(|state| state.next_sub = 0));
        same(
            "a key in a queue that it does not belong to",
            refusal(|state| record(state, "k").role = Role::Foreign),
        );
        same(
            "a key outside the queue that it belongs to",
            refusal(|state| record(state, "a/1").role = Role::Plain),
        );
        same("a contender of another lease", refusal(|state| record(state, "a/1").lease.0 = 2));
        same(
            "two keys at one place in a queue",
            refusal(|state| {
                let spot = record(state, "a/1").spot();
                let other = record(state, "a/2");
                (other.created, other.sub) = (spot.created, spot.sub);
            }),
        );
        same(
            "two holders of one lock",
            refusal(|state| {
                let contender = record(state, "a/2").contender_mut();
                contender.expect("it was acquired").mode = Mode::Exclusive;
            }),
        );
    }

    #[test]
    fn what_is_out_of_order_is_refused() {
        let same = |what, found| assert_eq!(found, what);
        let answer = |seq| Answer { seq: Seq(seq), print: 1, outcome: Outcome::Done };
        same(
            "answers out of order",
            refusal(|state| {
                let client = state.clients.values_mut().next().expect("there are two");
                client.window.answers.extend([answer(2), answer(2)]);
            }),
        );
        same(
            "tokens out of order",
            refusal(|state| {
                let tokens = [Token(4), Token(3)].into();
                state.floors.insert("a".into(), Floor { tokens, ..Floor::default() });
            }),
        );
        same(
            "events out of order",
            refusal(|state| {
                let mut events: Vec<_> = state.history.from(Revision::NONE).collect();
                events.reverse();
                state.history = History::starting_at(state.history.compacted());
                for event in events {
                    state.history.push(&event, &Limits::default());
                }
            }),
        );
        same("history compacted beyond the revision", {
            refusal(|state| state.history.compact(Revision(99)))
        });
    }
}
