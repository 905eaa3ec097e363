//! What must hold for any bytes at all. Fuzzers and tests call these.

use alloc::vec::Vec;

use super::{decode_command, decode_entry, encode_command, encode_entry};
use crate::command::{Action, Command};
use crate::state::State;

/// Reads bytes as an entry, and whatever was read once more after writing it.
pub fn fuzz_entry(bytes: &[u8]) {
    let Ok(entry) = decode_entry(bytes) else {
        return;
    };
    let mut again = Vec::new();
    encode_entry(&entry, &mut again);
    assert_eq!(decode_entry(&again).as_ref(), Ok(&entry), "an entry changed by being written");
    if !entry.commands.iter().any(is_skipped) {
        assert_eq!(bytes, again, "an entry has two spellings");
    }
}

/// Reads bytes as a command, and whatever was read once more after writing it.
pub fn fuzz_command(bytes: &[u8]) {
    let Ok(command) = decode_command(bytes) else {
        return;
    };
    let mut again = Vec::new();
    encode_command(&command, &mut again);
    assert_eq!(decode_command(&again).as_ref(), Ok(&command), "a command changed by being written");
    if !is_skipped(&command) {
        assert_eq!(bytes, again, "a command has two spellings");
    }
}

/// The fields of a command that was passed over are lost.
fn is_skipped(command: &Command) -> bool {
    matches!(command.action, Action::Skipped(_))
}

/// Reads bytes as a snapshot, and whatever was read once more after writing it.
pub fn fuzz_snapshot(bytes: &[u8]) {
    let Ok(state) = State::decode(bytes) else {
        return;
    };
    let mut again = Vec::new();
    state.encode(&mut again);
    assert_eq!(bytes, again, "a state has two spellings");
    let twin = State::decode(&again).expect("what was written can be read");
    assert_eq!(state.hash(), twin.hash(), "a state changed by being written");
}
