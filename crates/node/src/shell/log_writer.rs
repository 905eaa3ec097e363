//! The thread that writes the log: everything that waits, one sync.
//!
//! A failed write or sync ends the node. It is never tried again, because after it nobody knows
//! what is on the disk.

use std::sync::Arc;
use std::time::Duration;

use super::board::Board;
use super::edge;
use super::inbox::{Happening, Inbox, Lane};
use super::pile::{Pile, Taken};
use crate::bytes::to_u64;
use crate::disk::Disk;
use crate::io::{Input, Persist};
use crate::wal::{Fatal, Start, Wal};

/// After so long without anything to write there is time to prepare a segment.
const IDLE: Duration = Duration::from_millis(50);

/// How much may wait. Far more than a node gives out before the disk has confirmed some of it: a
/// leader closes a few entries, a follower takes 256 messages.
pub(super) const WORK_MAX: usize = 4_096;

/// Something to do to the log.
#[derive(Debug)]
pub(super) enum LogWork {
    Persist(Persist),
    Purge(Start),
    /// Nothing more will come: leave a mark that all of the log was durable.
    Close,
}

pub(super) struct LogWriter<D: Disk> {
    pub(super) wal: Wal<D>,
    pub(super) work: Arc<Pile<LogWork>>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) board: Arc<Board>,
}

impl<D: Disk> LogWriter<D> {
    /// Writes until the pile is closed.
    pub(super) fn run(mut self) {
        let written = self.write_all();
        let closed = written.and_then(|close| if close { self.wal.close() } else { Ok(()) });
        if let Err(fatal) = closed {
            // The loop must not wait for room that nobody makes.
            self.work.abandon();
            self.inbox.push_waiting(Lane::Own, Happening::Failed(fatal.to_string()));
        }
    }

    /// Says whether the log was to be closed.
    fn write_all(&mut self) -> Result<bool, Fatal> {
        let mut taken = Vec::new();
        let mut is_prepared = false;
        loop {
            let patience = (!is_prepared).then_some(IDLE);
            match self.work.take(&mut taken, patience) {
                Taken::Closed => return Ok(false),
                Taken::Nothing => {
                    self.wal.prepare()?;
                    is_prepared = true;
                }
                Taken::Some => {
                    if self.write(&mut taken)? {
                        return Ok(true);
                    }
                    is_prepared = false;
                }
            }
        }
    }

    /// Writes all of this with one sync, and says so.
    fn write(&mut self, taken: &mut Vec<LogWork>) -> Result<bool, Fatal> {
        let mut close = false;
        let mut highest = None;
        let (mut entries, mut bytes) = (0, 0);
        for work in taken.drain(..) {
            match work {
                LogWork::Persist(persist) => {
                    self.wal.append(&persist.batch())?;
                    highest = Some(persist.number);
                    entries += persist.entries.len();
                    bytes += persist.entries.iter().map(|entry| entry.data.len()).sum::<usize>();
                }
                LogWork::Purge(start) => self.wal.purge(start)?,
                LogWork::Close => close = true,
            }
        }
        let before = edge::now();
        self.wal.sync()?;
        let took = edge::now().saturating_duration_since(before);
        self.board.count_sync(took, to_u64(entries), to_u64(bytes));
        if let Some(number) = highest {
            let persisted = Happening::Input(Input::Persisted(number));
            self.inbox.push_waiting(Lane::Own, persisted);
        }
        Ok(close)
    }
}
