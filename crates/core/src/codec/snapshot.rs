//! A whole state as bytes.
//!
//! Only what does not follow from the rest is written; `rebuild.rs` makes the rest anew.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::check::check;
use super::error::{DecodeError, Malformed};
use super::reader::Reader;
use super::rebuild::{Overdue, overdue, rebuild};
use super::wire::{Wire, wire_enum, wire_struct};
use super::writer::Writer;
use crate::command::Mode;
use crate::event::Event;
use crate::history::History;
use crate::ids::{
    CallId, ClientId, Epoch, LeaseId, LockName, LogTime, Millis, NodeId, Revision, Seq, Token,
    Value,
};
use crate::lease::{Client, Lease};
use crate::limits::{FEATURE_LEVEL, Limits};
use crate::lock::{Delay, Floor};
use crate::once::{Answer, Window};
use crate::outcome::Outcome;
use crate::quota::Quota;
use crate::record::{Contender, Extra, Record, Role};
use crate::signing::{KeyStage, SigningKey};
use crate::state::State;

/// How every snapshot begins.
const MAGIC: [u8; 8] = *b"FPSTATE\0";
/// The format of snapshots that this build writes, and the only one that it reads.
const VERSION: u8 = 1;

impl State {
    /// Appends this state. Equal states give equal bytes, whatever path led to them.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.write(&mut Writer::new(out));
    }

    /// The same bytes, in pieces: a state is not in memory a second time while it is written.
    pub fn encode_to(&self, sink: &mut dyn FnMut(&[u8])) {
        let mut out = Vec::new();
        let mut to = Writer::into_sink(&mut out, sink);
        self.write(&mut to);
        to.flush();
    }

    fn write(&self, to: &mut Writer<'_>) {
        to.raw(&MAGIC);
        to.u8(VERSION);
        self.now.put(to);
        self.revision.put(to);
        self.next_sub.put(to);
        self.incarnation.put(to);
        self.last_epoch.put(to);
        self.last_lease.put(to);
        self.feature_level.put(to);
        self.limits.put(to);
        self.recovering_until.put(to);
        self.clients.put(to);
        self.leases.put(to);
        self.keys.put(to);
        self.delays.put(to);
        self.floors.put(to);
        self.lost_nodes.put(to);
        self.signing_keys.put(to);
        self.rotations.put(to);
        self.signing_changes.put(to);
        self.history.put(to);
        overdue(self).put(to);
        if self.feature_level >= 2 {
            self.quota.put(to);
        }
    }

    /// Reads a state that [`State::encode`] wrote. The bytes must hold it and nothing else.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownVersion`] for a later format, [`DecodeError::UnknownFeatureLevel`]
    /// for a state that this build cannot apply entries to, [`DecodeError::Malformed`] for
    /// anything that is no state or contradicts itself.
    pub fn decode(bytes: &[u8]) -> Result<State, DecodeError> {
        let from = &mut Reader::new(bytes);
        if from.raw(MAGIC.len())? != MAGIC {
            return Err(from.malformed("not a snapshot").into());
        }
        let version = from.u8()?;
        if version != VERSION {
            return Err(DecodeError::UnknownVersion(version));
        }
        let (mut state, overdue) = take_state(from)?;
        from.finish()?;
        check(&state).map_err(|what| from.malformed(what))?;
        rebuild(&mut state, overdue).map_err(|what| from.malformed(what))?;
        Ok(state)
    }

    /// A mark of the whole state. Replicas that applied the same entries have the same.
    pub fn hash(&self) -> [u8; 32] {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        blake3::hash(&bytes).into()
    }
}

/// Reads the fields. A planted bug is not among them: it belongs to a test, not to a cluster.
fn take_state(from: &mut Reader<'_>) -> Result<(State, Vec<Overdue>), DecodeError> {
    let state = State {
        now: Wire::take(from)?,
        revision: Wire::take(from)?,
        next_sub: Wire::take(from)?,
        incarnation: Wire::take(from)?,
        last_epoch: Wire::take(from)?,
        last_lease: Wire::take(from)?,
        feature_level: take_feature_level(from)?,
        limits: Limits::take(from)?,
        recovering_until: Wire::take(from)?,
        clients: Wire::take(from)?,
        leases: Wire::take(from)?,
        keys: Wire::take(from)?,
        delays: Wire::take(from)?,
        floors: Wire::take(from)?,
        lost_nodes: Wire::take(from)?,
        signing_keys: Wire::take(from)?,
        rotations: Wire::take(from)?,
        signing_changes: Wire::take(from)?,
        history: Wire::take(from)?,
        ..State::new()
    };
    let overdue = Wire::take(from)?;
    let quota = if state.feature_level >= 2 { Quota::take(from)? } else { Quota::default() };
    Ok((State { quota, ..state }, overdue))
}

fn take_feature_level(from: &mut Reader<'_>) -> Result<u32, DecodeError> {
    let level = from.u32()?;
    if level > FEATURE_LEVEL {
        return Err(DecodeError::UnknownFeatureLevel(level));
    }
    Ok(level)
}

wire_struct!(Quota {
    bytes: u64,
    is_auto: bool,
    leases_per_client_max: u32,
    clients_per_address_max: u32,
    no_space: bool,
});

wire_struct!(Client { address: ClientId, last_seen: LogTime, window: Window; leases });

wire_struct!(Lease {
    ttl: Millis,
    granted_ttl: Millis,
    deadline: LogTime,
    epoch: Epoch,
    client: ClientId,
    renewed_at: LogTime,
    renewal: u64,
    changes: u64,
    spent: bool,
    revoke_grace: Option<Millis>,
    revoke_at: Option<LogTime>,
    sole_lock: Option<LockName>,
    window: Window;
    keys
});

impl Wire for Window {
    fn put(&self, to: &mut Writer<'_>) {
        self.floor.put(to);
        self.answers.put(to);
    }

    /// The answers must ascend, because they are searched by halving.
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let floor = Seq::take(from)?;
        let answers: Vec<Answer> = Vec::take(from)?;
        if !answers.is_sorted_by(|one, next| one.seq < next.seq) {
            return Err(from.malformed("answers out of order"));
        }
        Ok(Window::new(floor, answers.into()))
    }
}

wire_struct!(Answer { seq: Seq, print: u32, outcome: Outcome });

wire_struct!(Record {
    value: Value,
    created: Revision,
    modified: Revision,
    version: u64,
    lease: LeaseId,
    sub: u32,
    role: Role,
});

wire_enum!(Role {
    0 => Plain,
    1 => Foreign,
    2 => Contender(contender: Contender),
});

impl Wire for Contender {
    fn put(&self, to: &mut Writer<'_>) {
        self.mode.put(to);
        self.since.put(to);
        self.granted.put(to);
        self.seq.put(to);
        self.wait_until.put(to);
        self.metadata.put(to);
        // Extras that were set and cleared again mean the same as none, so they are written
        // like none.
        let extra = self.extra.as_deref().filter(|&extra| *extra != Extra::default());
        to.bool(extra.is_some());
        if let Some(extra) = extra {
            extra.put(to);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mode = Mode::take(from)?;
        let since = LogTime::take(from)?;
        let granted = Revision::take(from)?;
        let seq = Seq::take(from)?;
        let wait_until = LogTime::take(from)?;
        let metadata = Value::take(from)?;
        let extra: Option<Box<Extra>> = Wire::take(from)?;
        if extra.as_deref() == Some(&Extra::default()) {
            return Err(from.malformed("extras without a content"));
        }
        if extra.as_ref().is_some_and(|extra| extra.bound && extra.call.is_none()) {
            return Err(from.malformed("a contender bound to no call"));
        }
        Ok(Contender { mode, since, granted, seq, wait_until, metadata, extra })
    }
}

wire_struct!(Extra {
    grouped: bool,
    shared_answer: bool,
    call: Option<CallId>,
    bound: bool,
    lock_delay: Millis,
    budget: Millis,
    hold_max: Millis,
    forced: Option<LogTime>,
});

wire_struct!(SigningKey { node: NodeId, stage: KeyStage, since: LogTime });

wire_enum!(KeyStage {
    0 => Next(due: LogTime),
    1 => Active,
    2 => Retired,
    3 => Revoked,
});

wire_struct!(Delay { until: LogTime, client: ClientId });

impl Wire for Floor {
    fn put(&self, to: &mut Writer<'_>) {
        self.below.put(to);
        self.tokens.put(to);
        self.until.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let below = Token::take(from)?;
        let tokens: Vec<Token> = Vec::take(from)?;
        if !tokens.is_sorted_by(|one, next| one < next) {
            return Err(from.malformed("tokens out of order"));
        }
        let until = LogTime::take(from)?;
        Ok(Floor { below, tokens, until })
    }
}

impl Wire for History {
    fn put(&self, to: &mut Writer<'_>) {
        self.compacted().put(to);
        to.count(self.len());
        for event in self.encoded() {
            to.raw(event);
            to.drain();
        }
    }

    /// The history comes back as it was, even if a limit was lowered since: only the next event
    /// makes room, on every replica alike.
    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let unbounded = Limits {
            history_events_max: u32::MAX,
            history_bytes_max: u32::MAX,
            ..Limits::default()
        };
        let compacted = Revision::take(from)?;
        let count = from.count()?;
        let mut history = History::starting_at(compacted);
        let mut last = None;
        for _ in 0..count {
            let event = Event::take(from)?;
            let place = Some((event.revision, event.sub));
            if last >= place {
                return Err(from.malformed("events out of order"));
            }
            last = place;
            history.push(&event, &unbounded);
        }
        if history.len() != count {
            return Err(from.malformed("a history beyond all bounds"));
        }
        Ok(history)
    }
}
