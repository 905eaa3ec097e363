//! The one file that knows what is replicated: everything else moves bytes.

pub use fencepost_core::codec::DecodeError;
use fencepost_core::codec::{decode_command, decode_entry, encode_entry_from, peek_stamp};
pub use fencepost_core::{Effects, Event, LogTime, Reply, State};

/// The replicated state machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    state: State,
    applied: u64,
}

impl Machine {
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

    /// Passes over an entry that is not the machine's.
    pub fn pass(&mut self, index: u64) {
        assert!(index == self.applied + 1, "entry {index} cannot follow {}", self.applied);
        self.applied = index;
    }

    /// When log time next ends something by itself.
    pub fn next_deadline(&self) -> Option<LogTime> {
        self.state.next_deadline()
    }
}

/// Whether these bytes are a command that every member will be able to read.
pub fn is_command(bytes: &[u8]) -> bool {
    decode_command(bytes).is_ok()
}

/// Packs encoded commands under one stamp.
pub fn pack(at: LogTime, commands: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut data = Vec::new();
    encode_entry_from(at, commands, &mut data);
    data
}

/// The stamp of a packed entry, without reading its commands. Nothing, for what has none.
pub fn stamp_of(data: &[u8]) -> Option<LogTime> {
    peek_stamp(data)
}
