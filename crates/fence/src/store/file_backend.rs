//! Records in one text file, all of them in memory too.
//!
//! Guarantees: a write is answered when it is on the disk, and a reader sees only what is.

use std::sync::{Arc, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::backend::{Backend, FencedWrite, FencedWriteError, Page, ReadError};
use super::record::Record;
use super::writer::{Job, View};

/// Bytes of texts in one page.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// The place behind the file's writer.
#[derive(Debug)]
pub(super) struct FileBackend {
    pub(super) view: View,
    pub(super) jobs: mpsc::Sender<Job>,
}

impl Backend for FileBackend {
    async fn write(&self, write: FencedWrite) -> Result<(), FencedWriteError> {
        let FencedWrite { client_id, key, presented, data } = write;
        let (answer, answered) = oneshot::channel();
        let job = Job { key, client_id, presented, data, answer };
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => FencedWriteError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => FencedWriteError::DiskFailed,
        })?;
        answered.await.map_err(|_| FencedWriteError::DiskFailed)?
    }

    async fn read(&self, key: &str) -> Result<Option<Arc<Record>>, ReadError> {
        Ok(self.view.read().unwrap_or_else(PoisonError::into_inner).get(key))
    }

    async fn page(&self, after: &str, limit: usize) -> Result<Page, ReadError> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let records: Vec<_> = view
            .after(after)
            .take(limit)
            .take_while(|(key, record)| {
                let fits = bytes < PAGE_BYTES_MAX;
                bytes += record.size(key);
                fits
            })
            .map(|(key, record)| (key.clone(), record.clone()))
            .collect();
        let last = records.last().map_or(after, |(key, _)| key);
        let more = view.after(last).next().is_some();
        Ok(Page { records, more })
    }
}
