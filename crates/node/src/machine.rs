//! The one file that knows what is replicated: everything else moves bytes.

pub use fencepost_core::codec::DecodeError;
use fencepost_core::codec::{decode_command, decode_entry, encode_entry_from, peek_stamp};
pub use fencepost_core::codec::{decode_reply, encode_reply};
use fencepost_core::command::{Action, Command, Entry as CoreEntry};
pub use fencepost_core::{Effects, Event, LogTime, Millis, Reason, Reply, State};

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

    /// Applies a committed entry. An entry without content only moves the index.
    pub fn apply(&mut self, index: u64, data: &[u8]) -> Result<Effects, DecodeError> {
        assert!(index == self.applied + 1, "entry {index} cannot follow {}", self.applied);
        let effects = match data {
            [] => Effects::default(),
            data => self.state.apply(decode_entry(data)?),
        };
        self.applied = index;
        Ok(effects)
    }

    /// Applies a committed entry whose commands were read before it was packed.
    pub fn apply_read(&mut self, index: u64, at: LogTime, commands: Vec<Read>) -> Effects {
        assert!(index == self.applied + 1, "entry {index} cannot follow {}", self.applied);
        let commands = commands.into_iter().map(|read| read.0).collect();
        let effects = self.state.apply(CoreEntry { at, commands });
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

    /// Makes ready for a cluster that goes on from a backup.
    pub fn restored(self, grant_after: Option<Millis>) -> Result<Machine, Reason> {
        Ok(Machine { state: self.state.restore(grant_after)?, ..self })
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
                | Action::Txn(_)
        )
    }
}

/// Reads a command. Nothing, if a member could not.
pub fn read(bytes: &[u8]) -> Option<Read> {
    decode_command(bytes).ok().map(Read)
}

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
