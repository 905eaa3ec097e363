//! Small books for tests.

use fencepost_core::command::{Acquire, LeaseGrant, Mode, Wait};
use fencepost_core::event::{Event, EventKind, Holding, KeyValue};
use fencepost_core::outcome::Granted;
use fencepost_core::{
    Action, ClientId, Effects, Epoch, Key, LeaseId, LockName, LogTime, Millis, Revision, State,
    Token,
};

use super::{Book, Page};
use crate::check::oracle::Step;
use crate::seen::Time;

/// A page at this log time, for this command.
pub(in crate::check) fn page(now: u64, action: Option<&Action>) -> Page<'_> {
    Page { at: Time(now * 1_000), now: LogTime(now), action }
}

/// The key of a lease in the queue of lock `a`, made at this revision.
pub(in crate::check) fn key_value(lease: i64, revision: u64) -> KeyValue {
    KeyValue {
        key: Key::from(&*format!("a/{lease:x}")),
        create_revision: Revision(revision),
        mod_revision: Revision(revision),
        version: 1,
        lease: LeaseId(lease),
        ..KeyValue::default()
    }
}

/// An acquire of lock `a`.
pub(in crate::check) fn acquire(mode: Mode, wait: Wait) -> Action {
    Action::Acquire(Acquire { name: LockName::from("a"), mode, wait, ..Acquire::default() })
}

fn event(kind: EventKind) -> Event {
    Event { revision: Revision(0), sub: 0, kind }
}

impl Book {
    /// A lease of this length, made at the beginning.
    pub(in crate::check) fn with_lease(mut self, id: i64, ttl: u64) -> Book {
        let asked = LeaseGrant { ttl: Millis(ttl), ..LeaseGrant::default() };
        let granted = Granted { id: LeaseId(id), ttl: Millis(ttl), epoch: Epoch(1) };
        self.open_lease(&page(0, None), &asked, &granted, None);
        self
    }

    /// A place in the queue of lock `a`, made at the beginning.
    pub(in crate::check) fn with_place(
        mut self,
        lease: i64,
        revision: u64,
        asked: &Action,
    ) -> Book {
        let kv = key_value(lease, revision);
        self.note(&page(0, Some(asked)), &event(EventKind::Put { kv, prev: None }));
        self
    }

    /// That place is granted.
    pub(in crate::check) fn with_grant(mut self, lease: i64, revision: u64) -> Book {
        let holding = Holding {
            key: key_value(lease, revision).key,
            token: Token(revision),
            lease: LeaseId(lease),
            client: ClientId::from("c1"),
        };
        self.note(&page(0, None), &event(EventKind::Granted(holding)));
        self
    }
}

/// An entry that has led to this state.
pub(in crate::check) fn step<'a>(state: &'a State, effects: &'a Effects) -> Step<'a> {
    Step {
        at: Time(0),
        index: 1,
        effects,
        before: state.now(),
        now: state.now(),
        revision_before: state.revision(),
        queue_len_max_before: state.limits().queue_len_max,
        state,
    }
}
