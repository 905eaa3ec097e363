//! Where a store keeps its records.
//!
//! Owns: what a place for records must be able to do, and every way in which it can fail. The file
//! is one such place; the key-value store of a cluster is another.

use std::sync::Arc;

use super::record::Record;
use crate::rule::Refusal;
use crate::token::Presented;

/// A write whose token was understood, and verified if it is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedWrite {
    /// Who writes, as it calls itself.
    pub client_id: String,
    /// What is written, and the lock that the token is of.
    pub key: String,
    /// The token.
    pub presented: Presented,
    /// What to write.
    pub data: String,
}

/// Keys in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Keys with what is known about them.
    pub records: Vec<(Arc<str>, Arc<Record>)>,
    /// Whether there are more behind them.
    pub more: bool,
}

/// Where records are kept.
pub trait Backend: Send + Sync + 'static {
    /// Writes, if the token may. Success means that it is durable.
    fn write(
        &self,
        write: FencedWrite,
    ) -> impl Future<Output = Result<(), FencedWriteError>> + Send;

    /// What is known about one key.
    fn read(
        &self,
        key: &str,
    ) -> impl Future<Output = Result<Option<Arc<Record>>, ReadError>> + Send;

    /// At most `limit` keys behind this one, and as many as fit into one answer.
    fn page(
        &self,
        after: &str,
        limit: usize,
    ) -> impl Future<Output = Result<Page, ReadError>> + Send;
}

/// Why a write was not done, or is not known to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FencedWriteError {
    /// The rule refuses the token.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The lock is not held with this token by this client.
    #[error("{0}")]
    NotHeld(String),
    /// The place cannot keep such a record.
    #[error("{0}")]
    Invalid(String),
    /// There is no room left.
    #[error("{0}")]
    Full(String),
    /// Too much is under way. Nothing was written.
    #[error("the store is overloaded: try again later")]
    Overloaded,
    /// The place cannot be reached. Nothing was written.
    #[error("nothing was written: {0}")]
    Unavailable(String),
    /// What stands there was not written by a store. Nothing was written.
    #[error("nothing was written: {0}")]
    Foreign(String),
    /// The disk failed: the write may be there all the same.
    #[error("the disk failed: the write may or may not have happened")]
    DiskFailed,
    /// There was no answer: the write may be there all the same.
    #[error("the outcome is unknown: the write may or may not have happened: {0}")]
    Unknown(String),
}

impl FencedWriteError {
    /// Whether the write may have been done all the same.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, FencedWriteError::DiskFailed | FencedWriteError::Unknown(_))
    }
}

/// Why something cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The place cannot be reached.
    #[error("cannot read: {0}")]
    Unavailable(String),
    /// The place cannot have such a key.
    #[error("{0}")]
    Invalid(String),
    /// What stands there was not written by a store.
    #[error("{0}")]
    Foreign(String),
}
