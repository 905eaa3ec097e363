//! The bytes of the log and of snapshots. `docs/format.md` describes them for other readers.
//!
//! Owns: how a command, an entry and a state are written, and what is refused when they are
//! read. Guarantees: equal values have equal bytes, whatever path led to them; reading survives
//! arbitrary bytes; what was written can be read again. Refuses: checksums and files, which are
//! the node's.
//!
//! The schemas are the lists of fields in `command.rs`, `answer.rs` and `snapshot.rs`. Changing
//! one changes the format: see the rules of evolution on the page.

mod answer;
mod check;
mod command;
mod entry;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod reader;
mod rebuild;
mod snapshot;
mod wire;
mod writer;

pub use answer::{decode_reply, encode_reply};
pub(crate) use answer::{put_event, take_event};
pub use command::{decode_command, encode_command};
pub use entry::{decode_entry, encode_entry, encode_entry_from, peek_stamp};
pub use error::{DecodeError, Malformed};

use crate::limits::TXN_DEPTH_MAX;

/// Transactions inside transactions that are written and read.
const NESTING_MAX: u32 = 2 * TXN_DEPTH_MAX;

// What is cut off where it lies too deep must be refused by apply, with or without the cut.
const _: () = assert!(NESTING_MAX > TXN_DEPTH_MAX);
