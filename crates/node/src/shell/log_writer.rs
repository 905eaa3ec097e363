//! Writes the log: everything that waits, one sync.
//!
//! There is a thread for it, so that a node goes on while its disk is busy. A node that is alone has
//! nothing to go on with: its loop writes by itself, which saves two changes of threads.
//!
//! A failed write or sync ends the node. It is never tried again, because after it nobody knows
//! what is on the disk.

use std::sync::{Arc, Mutex, PoisonError};

use super::board::Board;
use super::edge;
use super::inbox::{Happening, Inbox, Lane};
use super::pile::{Pile, Taken};
use crate::bytes::to_u64;
use crate::disk::Disk;
use crate::io::{Input, Persist};
use crate::wal::{Fatal, Start, Wal};

/// How much may wait. Far more than a node gives out before the disk has confirmed some of it: a
/// leader closes a few entries, a follower takes 256 messages.
pub(super) const WORK_MAX: usize = 4_096;

/// Something to do to the log.
#[derive(Debug)]
pub(super) enum LogWork {
    Persist(Persist),
    Purge(Start),
    /// There is time to make a segment ready.
    Prepare,
    /// Nothing more will come: leave a mark that all of the log was durable.
    Close,
}

/// The log on disk, whatever the disk is.
pub(super) trait WriteLog: Send {
    /// Does all of this with one sync. The last batch that is durable then, if there was one.
    fn write(&mut self, work: &mut Vec<LogWork>) -> Result<Option<u64>, Fatal>;
}

/// The log on disk, for the thread that writes it and for a loop that does so itself. Only one of
/// them does at a time: the loop writes only while the thread has nothing to do.
pub(super) type SharedLog = Arc<Mutex<dyn WriteLog>>;

/// Writes all of this.
pub(super) fn write(log: &SharedLog, work: &mut Vec<LogWork>) -> Result<Option<u64>, Fatal> {
    // After a panic in a write the log is in the state of one that has failed: nobody syncs it.
    log.lock().unwrap_or_else(PoisonError::into_inner).write(work)
}

/// The log on disk.
pub(super) struct Log<D: Disk> {
    /// Nothing after it was closed, or a write has failed.
    pub(super) wal: Option<Wal<D>>,
    pub(super) board: Arc<Board>,
}

impl<D> WriteLog for Log<D>
where
    D: Disk + Send,
    D::File: Send,
{
    fn write(&mut self, work: &mut Vec<LogWork>) -> Result<Option<u64>, Fatal> {
        // Taken out, so that nothing can follow what has failed.
        let Some(mut wal) = self.wal.take() else {
            work.clear();
            return Ok(None);
        };
        let (mut highest, mut close, mut sync) = (None, false, false);
        let (mut entries, mut bytes) = (0, 0);
        for work in work.drain(..) {
            match work {
                LogWork::Persist(persist) => {
                    wal.append(&persist.batch())?;
                    highest = Some(persist.number);
                    entries += persist.entries.len();
                    bytes += persist.entries.iter().map(|entry| entry.data.len()).sum::<usize>();
                    sync = true;
                }
                LogWork::Purge(start) => {
                    wal.purge(start)?;
                    sync = true;
                }
                LogWork::Prepare => wal.prepare()?,
                LogWork::Close => close = true,
            }
        }
        if sync {
            let before = edge::now();
            wal.sync()?;
            let took = edge::now().saturating_duration_since(before);
            self.board.count_sync(took, to_u64(entries), to_u64(bytes));
        }
        if close {
            wal.close()?;
        } else {
            self.wal = Some(wal);
        }
        Ok(highest)
    }
}

pub(super) struct LogWriter {
    pub(super) log: SharedLog,
    pub(super) work: Arc<Pile<LogWork>>,
    pub(super) inbox: Arc<Inbox>,
}

impl LogWriter {
    /// Writes until the pile is closed.
    pub(super) fn run(self) {
        let mut taken = Vec::new();
        while self.work.take(&mut taken, None) == Taken::Some {
            match write(&self.log, &mut taken) {
                Ok(None) => {}
                Ok(Some(number)) => self.written(number),
                Err(fatal) => {
                    // The loop must not wait for room that nobody makes.
                    self.work.abandon();
                    self.inbox.push_waiting(Lane::Own, Happening::Failed(fatal.to_string()));
                }
            }
        }
    }

    /// Says what is durable. If more is to be written, that comes first, and the loop's thread does
    /// what follows from this.
    fn written(&self, number: u64) {
        let persisted = Happening::Input(Input::Persisted(number));
        if self.work.is_empty() {
            self.inbox.push_own(persisted);
        } else {
            self.inbox.push_waiting(Lane::Own, persisted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    /// Left where it was, it would be given again and again.
    #[test]
    fn a_log_that_has_failed_takes_what_it_is_given() {
        let board = Arc::new(Board::default());
        let log: SharedLog = Arc::new(Mutex::new(Log::<MemoryDisk> { wal: None, board }));
        let mut work = vec![LogWork::Close];
        assert!(matches!(write(&log, &mut work), Ok(None)));
        assert!(work.is_empty());
    }
}
