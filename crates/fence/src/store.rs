//! The fenced data store: a small HTTP server over one text file, or over another [`Backend`].
//!
//! Owns: the founding documents' write protocol. `POST /` and `POST /write` take a write with its
//! token, `GET /` reads back. With the file it talks to clients only, never to the lock service.
//! Guarantees: what was answered with success is on the disk, and survives a kill at any moment.
//! Once a token has written under a key, no lower one does. What is refused has changed nothing.
//! Refuses: going on after the disk failed. [`serve`] returns then, and the process should end.
//!
//! | where | what |
//! |---|---|
//! | `request.rs` | what a body must look like |
//! | `backend.rs` | what a place for records must be able to do |
//! | `record.rs` | one key: its mark, its data, and the line that says both |
//! | `book.rs` | all records of the file |
//! | `file_backend.rs` | the file as a place for records |
//! | `writer.rs` | the one thread that writes: many requests, one sync |
//! | `answer.rs` | every answer, and its status |
//! | `serve.rs` | sockets, and their bounds |

mod answer;
mod backend;
mod book;
mod file_backend;
mod record;
mod request;
mod serve;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;

pub use backend::{Backend, FencedWrite, FencedWriteError, Page, ReadError};
pub use record::Record;
pub use serve::{Store, serve, serve_backend, serve_until};

use crate::rule::Repeats;
use crate::signed::Verifier;

/// Bytes in the body of a request, as everywhere in the service.
pub const BODY_LEN_MAX: usize = 3 << 19;
/// Bytes in a key.
pub const KEY_LEN_MAX: usize = 1_024;
/// Bytes in a client's name.
pub const CLIENT_LEN_MAX: usize = 256;
/// Keys in one store. They are kept in memory.
pub const KEYS_MAX: usize = 1_000_000;
/// Bytes of data in one store. They are kept in memory.
pub const DATA_BYTES_MAX: usize = 1 << 30;

/// How a store works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreConfig {
    /// The text file. It is made if it is not there.
    pub file: PathBuf,
    /// What to do when a token writes again.
    pub repeats: Repeats,
    /// What to do with signed tokens.
    pub signatures: Signatures,
}

/// What a store does with signed tokens.
#[derive(Clone, Debug, Default)]
pub enum Signatures {
    /// There are no keys to verify them with: bare tokens only.
    #[default]
    Refused,
    /// Accepts them, and bare tokens too.
    Accepted(Arc<Verifier>),
    /// Accepts nothing else.
    Required(Arc<Verifier>),
}

impl StoreConfig {
    /// A store in this file that believes bare tokens.
    pub fn new(file: impl Into<PathBuf>) -> StoreConfig {
        StoreConfig {
            file: file.into(),
            repeats: Repeats::default(),
            signatures: Signatures::default(),
        }
    }
}
