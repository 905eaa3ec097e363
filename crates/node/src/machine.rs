//! The one file that knows what is replicated: everything else moves bytes.

pub use fencepost_core::codec::DecodeError;
use fencepost_core::codec::{
    decode_command, decode_entry, encode_command, encode_entry_from, peek_stamp,
};
pub use fencepost_core::codec::{decode_reply, encode_reply};
use fencepost_core::command::{Action, ChangeLimits, Command, QuotaChange};
use fencepost_core::contender_key_of;
use fencepost_core::event::KeyValue;
pub use fencepost_core::limits::FEATURE_LEVEL;
use fencepost_core::limits::KEY_VALUE_WEIGHT;
use fencepost_core::outcome::{OpAnswer, Outcome, TxnAnswer};
use fencepost_core::quota::{QUOTA_AUTO_MAX, QUOTA_MIN};
pub use fencepost_core::scan::{STEP_UNITS, StepBudget};
pub use fencepost_core::{
    Effects, Event, LogTime, Millis, Reason, Reply, Restore, Revision, State,
};

use crate::wal::Entry;

/// The kind of the entries that are the machine's. The engine's own have others.
const NORMAL: u8 = 0;

/// The replicated state machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    state: State,
    applied: u64,
}

impl Machine {
    /// A fresh machine behind this entry.
    pub fn at(applied: u64) -> Machine {
        Machine { state: State::default(), applied }
    }

    /// Appends the bytes of its state.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.state.encode(out);
    }

    /// The same bytes, in pieces.
    pub fn encode_to(&self, sink: &mut dyn FnMut(&[u8])) {
        self.state.encode_to(sink);
    }

    /// Reads a state that covers the log up to this entry.
    pub fn decode(applied: u64, bytes: &[u8]) -> Result<Machine, DecodeError> {
        Ok(Machine { state: State::decode(bytes)?, applied })
    }

    /// The state, for reading.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The index of the last entry that was applied.
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Applies a committed entry that no caller here waits for: the answers of reads are empty. An
    /// entry without content only moves the index.
    pub fn apply(&mut self, index: u64, data: &[u8]) -> Result<Effects, DecodeError> {
        assert!(index == self.applied + 1, "entry {index} cannot follow {}", self.applied);
        let effects = match data {
            [] => Effects::default(),
            data => self.state.apply_unanswered(decode_entry(data)?),
        };
        self.applied = index;
        Ok(effects)
    }

    /// What a planted bug answers: as [`Machine::apply`], with the answers.
    pub(crate) fn apply_answered(&mut self, index: u64, data: &[u8]) -> Option<Vec<Reply>> {
        self.applied = index;
        if data.is_empty() {
            return Some(Vec::new());
        }
        Some(self.state.apply(decode_entry(data).ok()?).replies)
    }

    /// Applies a committed entry whose commands were read before it was packed.
    pub fn apply_read(&mut self, index: u64, at: LogTime, commands: Vec<Box<Read>>) -> Effects {
        assert!(index == self.applied + 1, "entry {index} cannot follow {}", self.applied);
        let effects = self.state.apply_all(at, commands.into_iter().map(|read| read.0), true);
        self.applied = index;
        effects
    }

    /// Applies an entry from the log again, for its effect on the state alone.
    pub fn replay(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.index != self.applied + 1 {
            return Err(format!("entry {} cannot follow {}", entry.index, self.applied));
        }
        if entry.kind == NORMAL {
            self.apply(entry.index, &entry.data).map_err(|malformed| malformed.to_string())?;
        } else {
            self.pass(entry.index);
        }
        Ok(())
    }

    /// Prepares a backup for a new cluster.
    pub fn restored(self, inputs: Restore) -> Result<Machine, Reason> {
        Ok(Machine { state: self.state.restore(inputs)?, ..self })
    }

    /// Passes over an entry that is not the machine's.
    pub fn pass(&mut self, index: u64) {
        assert!(index == self.applied + 1, "entry {index} cannot follow {}", self.applied);
        self.applied = index;
    }

    /// Plants a bug in the state, for tests that must catch it.
    #[cfg(feature = "mutants")]
    pub fn plant(&mut self, mutant: fencepost_core::Mutant) {
        self.state.plant(mutant);
    }

    /// What a planted bug does when a snapshot is installed.
    pub(crate) fn lose_grants(&mut self) {
        #[cfg(feature = "mutants")]
        self.state.lose_leases();
    }

    /// What a planted bug does when a node takes office.
    pub(crate) fn restart_leases(&mut self) {
        #[cfg(feature = "mutants")]
        self.state.restart_leases();
    }

    /// Whether a command would change nothing for anybody but whoever comes later: it would take its
    /// place behind a holder. As far as the log is applied.
    pub fn would_wait(&self, command: &Read) -> bool {
        match &command.0.action {
            Action::Acquire(acquire) if !acquire.wait.is_try() => {
                self.state.is_held_alone(&acquire.name)
            }
            _ => false,
        }
    }

    /// Why a command must not enter the log although the log's feature level has no rule against it.
    /// As far as the log is applied. `is_local` says that the answer stays in this process: members
    /// of level 1 cannot decode the reasons of level 2.
    pub fn refusal_at_level_1(&self, command: &Read, is_local: bool) -> Option<Reply> {
        let level = self.state.feature_level();
        if level >= 2 {
            return None;
        }
        let reason = match &command.0.action {
            Action::Txn(txn) => match self.state.check_txn_cost(txn) {
                Ok(()) => return None,
                Err(reason) if is_local => reason,
                Err(_) => Reason::TooManyOps(txn.success.len().max(txn.failure.len()) as u64, 1),
            },
            // Members that know only level 1 cannot read them, and would stop at them for good.
            Action::ChangeLimits(_)
            | Action::RenewHeld(_)
            | Action::ReleaseHeld(_)
            | Action::PutPlain(_) => Reason::FeatureLevelInvalid(2, level),
            _ => return None,
        };
        Some(Reply { revision: self.state.revision(), outcome: Outcome::Rejected(reason) })
    }

    /// Whether a command may make the state grow: by keys, leases, or places in queues. Whoever stands in
    /// a queue already asks for nothing new. As far as the log is applied.
    pub fn may_grow(&self, command: &Read) -> bool {
        match &command.0.action {
            Action::Put(_)
            | Action::PutPlain(_)
            | Action::LeaseGrant(_)
            | Action::AcquireMany(_) => true,
            Action::Acquire(acquire) => {
                let key = contender_key_of(&acquire.name, acquire.lease.id);
                self.state.standing(&key).is_none()
            }
            Action::AcquireAs(acquire) => {
                self.state.lease_of_owner(&acquire.client, &acquire.name).is_none()
            }
            Action::Txn(txn) => txn.has_put(),
            _ => false,
        }
    }

    /// Whether a command may visit many keys. As far as the log is applied.
    pub fn is_costly(&self, command: &Read) -> bool {
        match &command.0.action {
            Action::DeleteRange(delete) => !delete.range.is_one(),
            Action::Txn(txn) => txn.has_range(),
            Action::LeaseRevoke(revoke) => {
                self.state.lease_key_count(revoke.lease.id) > COSTLY_LEASE_KEYS
            }
            _ => false,
        }
    }

    /// The feature level of the cluster.
    pub fn feature_level(&self) -> u32 {
        self.state.feature_level()
    }

    /// When log time next ends something by itself.
    pub fn next_deadline(&self) -> Option<LogTime> {
        self.state.next_deadline()
    }
}

/// A command as every member will read it. A leader reads it before it is in the log, to see that
/// it can be read at all, and keeps what it has read until it is applied.
#[derive(Clone, Debug)]
pub struct Read(Command);

impl Read {
    /// Whether it is the command of a client that may wait for a lock.
    pub fn is_of_a_contender(&self) -> bool {
        matches!(
            self.0.action,
            Action::LeaseGrant(_)
                | Action::LeaseRenew(_)
                | Action::Acquire(_)
                | Action::AcquireMany(_)
                | Action::AcquireAs(_)
                | Action::RenewAs(_)
                | Action::RenewHeld(_)
                | Action::Txn(_)
        )
    }
}

/// A command on its way into the log: its bytes, and what every member will read from them, if whoever
/// brings it knows that already.
#[derive(Clone, Debug)]
pub struct Order {
    bytes: Vec<u8>,
    read: Option<Box<Read>>,
}

impl Order {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Only the bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes and what they say. Nothing, if a member could not read them.
    pub fn read(self) -> Option<(Vec<u8>, Box<Read>)> {
        let read = match self.read {
            Some(read) => {
                debug_assert_eq!(decode_command(&self.bytes).as_ref(), Ok(&read.0));
                read
            }
            None => Box::new(Read(decode_command(&self.bytes).ok()?)),
        };
        Some((self.bytes, read))
    }
}

impl From<Vec<u8>> for Order {
    fn from(bytes: Vec<u8>) -> Order {
        Order { bytes, read: None }
    }
}

impl From<Command> for Order {
    fn from(command: Command) -> Order {
        let bytes = encoded(&command);
        Order { bytes, read: is_plain(&command).then(|| Box::new(Read(command))) }
    }
}

impl From<&Command> for Order {
    fn from(command: &Command) -> Order {
        let bytes = encoded(command);
        Order { bytes, read: is_plain(command).then(|| Box::new(Read(command.clone()))) }
    }
}

/// The command that raises the feature level of the cluster.
pub fn raise_feature_level(level: u32) -> Order {
    Order::from(Command::from(Action::RaiseFeatureLevel(level)))
}

/// The command that lowers the quota of the cluster.
pub fn fit_quota(bytes: u64) -> Order {
    let quota = Some(QuotaChange::Fit(bytes));
    let change = ChangeLimits { quota, ..ChangeLimits::default() };
    Order::from(Command::from(Action::ChangeLimits(change)))
}

/// The quota that a leader proposes for members with this much memory: a quarter of it. None if the
/// present one fits, or if an operator has set it.
pub fn quota_for(state: &State, memory: u64) -> Option<u64> {
    let quota = state.quota();
    let bytes = (memory / 4).clamp(QUOTA_MIN, QUOTA_AUTO_MAX);
    let fits = quota.bytes != 0 && quota.bytes <= bytes;
    (state.feature_level() >= 2 && quota.is_auto && !fits).then_some(bytes)
}

/// Bytes of an answer that is sent to another member, whose frames are not much longer.
pub const SENT_ANSWER_BYTES_MAX: u64 = 3 << 20;

/// An answer as it is sent to another member. A transaction that has only read is refused if its
/// answer is too long. None if it has written: then the other member must not take it for refused.
pub fn sent_answer(reply: Reply) -> Option<Reply> {
    let Outcome::Txn(answer) = &reply.outcome else { return Some(reply) };
    if txn_bytes(answer) <= SENT_ANSWER_BYTES_MAX {
        return Some(reply);
    }
    let outcome = Outcome::Rejected(Reason::TooManyBytes(SENT_ANSWER_BYTES_MAX));
    (!has_written(answer)).then_some(Reply { outcome, ..reply })
}

fn txn_bytes(answer: &TxnAnswer) -> u64 {
    let kv = |kv: &KeyValue| KEY_VALUE_WEIGHT + (kv.key.len() + kv.value.len()) as u64;
    let bytes = answer.answers.iter().map(|answer| match answer {
        OpAnswer::Put(prev) => prev.iter().map(|prev| kv(prev)).sum(),
        OpAnswer::Deleted(_, kvs) => kvs.iter().map(kv).sum(),
        OpAnswer::Range(range) => range.kvs.iter().map(kv).sum(),
        OpAnswer::Txn(inner) => txn_bytes(inner),
    });
    bytes.sum()
}

fn has_written(answer: &TxnAnswer) -> bool {
    answer.answers.iter().any(|answer| match answer {
        OpAnswer::Put(_) => true,
        OpAnswer::Deleted(count, _) => *count > 0,
        OpAnswer::Range(_) => false,
        OpAnswer::Txn(inner) => has_written(inner),
    })
}

/// What is asked for most can always be read again. All else is read before it is in the log.
fn is_plain(command: &Command) -> bool {
    matches!(command.action, Action::Acquire(_) | Action::Release(_))
}

fn encoded(command: &Command) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(COMMAND_BYTES);
    encode_command(command, &mut bytes);
    bytes
}

impl PartialEq for Order {
    fn eq(&self, other: &Order) -> bool {
        self.bytes == other.bytes
    }
}

/// The end of a lease with more keys counts as a command that may visit many.
const COSTLY_LEASE_KEYS: usize = 64;

/// Room for most commands.
const COMMAND_BYTES: usize = 128;

/// Room for the head of an entry, and for the length of a command: mostly more than they take.
const HEAD_BYTES: usize = 16;
const LENGTH_BYTES: usize = 2;

/// Packs encoded commands under one stamp.
pub fn pack(at: LogTime, commands: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let lengths = commands.iter().map(|command| command.as_ref().len() + LENGTH_BYTES);
    let mut data = Vec::with_capacity(HEAD_BYTES + lengths.sum::<usize>());
    encode_entry_from(at, commands, &mut data);
    data
}

/// The stamp of a packed entry, without reading its commands. Nothing, for what has none.
pub fn stamp_of(data: &[u8]) -> Option<LogTime> {
    peek_stamp(data)
}

#[cfg(test)]
mod tests {
    use fencepost_core::command::{
        Acquire, Mode, Put, Release, ReleaseHeld, RenewHeld, Terms, Wait,
    };
    use fencepost_core::{LeaseId, Token, contended_name};

    use super::*;

    #[test]
    fn what_is_brought_with_its_meaning_is_what_every_member_reads() {
        let lease = LeaseId(7);
        let name = contended_name(b"jobs/nightly", lease);
        let (wait, terms) = (Wait::WhileLeased, Terms::default());
        let acquire =
            Acquire { name: name.clone(), lease: lease.into(), mode: Mode::Shared, wait, terms };
        let release = Release { name, lease: lease.into(), token: Token(9) };
        for action in [Action::Acquire(acquire), Action::Release(release)] {
            let command = Command::from(action);
            let order = Order::from(command.clone());
            assert!(order.read.is_some());
            let (_, known) = order.clone().read().expect("it can be read");
            let (_, read) = Order::from(order.into_bytes()).read().expect("it can be read");
            assert_eq!((&known.0, &read.0), (&command, &command));
        }
    }

    #[test]
    fn level_1_logs_no_command_of_level_2() {
        let (name, client) = ("a".into(), "c".into());
        let actions = [
            Action::ChangeLimits(ChangeLimits::default()),
            Action::ReleaseHeld(ReleaseHeld { name, client, token: Token(1) }),
            Action::RenewHeld(RenewHeld::default()),
            Action::PutPlain(Put { key: "k".into(), ..Put::default() }),
        ];
        let mut machine = Machine::default();
        let refused = Outcome::Rejected(Reason::FeatureLevelInvalid(2, 1));
        for action in &actions {
            let read = Read(Command::from(action.clone()));
            let reply = machine.refusal_at_level_1(&read, false);
            assert_eq!(reply.map(|reply| reply.outcome), Some(refused.clone()), "{action:?}");
        }
        let (_, read) = raise_feature_level(2).read().expect("it can be read");
        machine.apply_read(1, LogTime(1), vec![read]);
        for action in actions {
            let read = Read(Command::from(action));
            assert_eq!(machine.refusal_at_level_1(&read, false), None);
        }
    }

    /// In the log it would stop every member.
    #[test]
    fn what_members_could_not_read_is_refused_whoever_brings_it() {
        let order = Order::from(Command::from(Action::RaiseFeatureLevel(FEATURE_LEVEL + 1)));
        assert!(order.read().is_none());
        assert!(Order::from(b"no command".to_vec()).read().is_none());
    }
}
