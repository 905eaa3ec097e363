//! Writes the log: everything that waits, one sync.
//!
//! There is a thread for it, so that a node goes on while its disk is busy. A node that is alone has
//! nothing to go on with: its loop writes by itself, which saves two changes of threads. And whoever
//! brings a follower a little to write, writes it, after the turn: nobody waits for that thread.
//!
//! A failed write or sync ends the node. It is never tried again, because after it nobody knows
//! what is on the disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::board::Board;
use super::edge;
use super::inbox::{Happening, Inbox, Lane};
use super::pile::{Pile, Taken};
use super::run::mistake;
use crate::bytes::to_u64;
use crate::disk::Disk;
use crate::io::{Input, Persist};
use crate::wal::{Batch, Fatal, SpareMade, SpareOrder, Start, Wal, Witness};

/// How much may wait. Far more than a node gives out before the disk has confirmed some of it: a
/// leader closes a few entries, a follower takes 256 messages.
pub(super) const WORK_MAX: usize = 4_096;

/// Something to do to the log.
#[derive(Debug)]
pub(super) enum LogWork {
    Persist(Persist),
    Purge(Start),
    /// Nothing more will come: leave a mark that all of the log was durable.
    Close(Closing),
}

/// What a node leaves behind that stops in good order.
#[derive(Debug, Default)]
pub(super) struct Closing {
    pub(super) boot: u64,
    pub(super) commit: u64,
    /// An entry that the log should have and lacks.
    pub(super) lacking: Option<u64>,
    pub(super) witnesses: Vec<Witness>,
}

impl LogWork {
    /// How much is to be written, roughly.
    pub(super) fn bytes(&self) -> usize {
        match self {
            LogWork::Persist(persist) => persist.entries.iter().map(|entry| entry.data.len()).sum(),
            _ => 0,
        }
    }

    /// Whether these are only commands: what follows from them concerns only those who hear of it from
    /// the node.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, LogWork::Persist(persist) if persist.is_plain())
    }
}

/// The log on disk, whatever the disk is.
pub(super) trait WriteLog: Send {
    /// Does all of this but for the sync. The last batch that is durable after that, if there was one.
    fn append(&mut self, work: &mut Vec<LogWork>) -> Result<Option<u64>, Fatal>;

    /// Lets the disk begin with what was appended.
    fn begin_sync(&mut self);

    /// Makes durable what was appended.
    fn sync(&mut self) -> Result<(), Fatal>;

    /// Takes a segment that was made ready.
    fn put_spare(&mut self, made: SpareMade);

    /// Has no more segments made ready.
    fn order_no_more(&mut self);
}

/// The log on disk, for the thread that writes it and for a loop that does so itself. Only one of
/// them does at a time: the loop writes only while the thread has nothing to do.
pub(super) type SharedLog = Arc<Mutex<dyn WriteLog>>;

/// Does all of this with one sync. The last batch that is durable then, if there was one.
pub(super) fn write(log: &SharedLog, work: &mut Vec<LogWork>) -> Result<Option<u64>, Fatal> {
    let mut log = lock(log);
    let highest = log.append(work)?;
    log.sync()?;
    Ok(highest)
}

/// As [`write`], but for the sync, which the disk begins with.
pub(super) fn begin(log: &SharedLog, work: &mut Vec<LogWork>) -> Result<Option<u64>, Fatal> {
    let mut log = lock(log);
    let highest = log.append(work)?;
    log.begin_sync();
    Ok(highest)
}

/// Hands in a segment that was made ready.
pub(super) fn put_spare(log: &SharedLog, made: SpareMade) {
    lock(log).put_spare(made);
}

/// Lets the thread end that makes segments ready.
pub(super) fn order_no_more(log: &SharedLog) {
    lock(log).order_no_more();
}

/// Makes durable what was begun.
pub(super) fn finish(log: &SharedLog) -> Result<(), Fatal> {
    lock(log).sync()
}

fn lock(log: &SharedLog) -> MutexGuard<'_, dyn WriteLog + 'static> {
    // After a panic in a write the log is in the state of one that has failed: nobody syncs it.
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The log on disk.
pub(super) struct Log<D: Disk> {
    /// Nothing after it was closed, or something has failed.
    wal: Option<Wal<D>>,
    board: Arc<Board>,
    appended: Appended,
    /// Segments that are to be made ready.
    orders: Arc<Pile<SpareOrder<D>>>,
}

/// What was done to the log since it was synced.
#[derive(Default)]
struct Appended {
    wants_sync: bool,
    closing: Option<Closing>,
    entries: usize,
    bytes: usize,
}

impl<D: Disk> Log<D> {
    pub(super) fn new(wal: Wal<D>, board: Arc<Board>, orders: Arc<Pile<SpareOrder<D>>>) -> Log<D> {
        Log { wal: Some(wal), board, appended: Appended::default(), orders }
    }
}

impl<D> WriteLog for Log<D>
where
    D: Disk + Send,
    D::File: Send,
{
    fn append(&mut self, work: &mut Vec<LogWork>) -> Result<Option<u64>, Fatal> {
        // Taken out, so that nothing can follow what has failed.
        let Some(mut wal) = self.wal.take() else {
            work.clear();
            return Ok(None);
        };
        let mut highest = None;
        let appended = &mut self.appended;
        for work in work.drain(..) {
            match work {
                LogWork::Persist(persist) => {
                    wal.append(&persist.batch())?;
                    highest = Some(persist.number);
                    appended.entries += persist.entries.len();
                    appended.bytes +=
                        persist.entries.iter().map(|entry| entry.data.len()).sum::<usize>();
                    appended.wants_sync = true;
                }
                LogWork::Purge(start) => {
                    wal.purge(start)?;
                    appended.wants_sync = true;
                }
                LogWork::Close(closing) => {
                    let witnesses = closing.witnesses.clone();
                    if !witnesses.is_empty() {
                        wal.append(&Batch { witnesses, ..Batch::default() })?;
                    }
                    appended.closing = Some(closing);
                }
            }
        }
        if let Some(order) = wal.order_spare() {
            self.orders.push(order);
        }
        self.wal = Some(wal);
        Ok(highest)
    }

    fn begin_sync(&mut self) {
        if let Some(wal) = &self.wal {
            wal.begin_sync();
        }
    }

    fn sync(&mut self) -> Result<(), Fatal> {
        let Some(mut wal) = self.wal.take() else { return Ok(()) };
        let Appended { wants_sync, closing, entries, bytes } = std::mem::take(&mut self.appended);
        if wants_sync {
            let before = edge::now();
            wal.sync()?;
            let took = edge::now().saturating_duration_since(before);
            self.board.count_sync(took, to_u64(entries), to_u64(bytes));
        }
        match closing {
            Some(Closing { boot, commit, lacking, .. }) => wal.close_at(boot, commit, lacking)?,
            None => self.wal = Some(wal),
        }
        Ok(())
    }

    fn put_spare(&mut self, made: SpareMade) {
        if let Some(wal) = &mut self.wal {
            wal.put_spare(made);
        }
    }

    fn order_no_more(&mut self) {
        self.orders.abandon();
    }
}

/// Whoever writes the log beside the loop: the thread for that, or one in its place.
#[derive(Clone)]
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
            if let Some(number) = self.write(&mut taken) {
                self.written(number);
            }
        }
    }

    /// Writes this in place of the thread, for whoever has claimed its pile.
    pub(super) fn write_claimed(&self, mut work: Vec<LogWork>) {
        let claim = Claim(self);
        let highest = self.write(&mut work);
        drop(claim);
        if let Some(number) = highest {
            self.inbox.push_own(Happening::Input(Input::Persisted(number)));
        }
    }

    fn write(&self, work: &mut Vec<LogWork>) -> Option<u64> {
        write(&self.log, work).unwrap_or_else(|fatal| {
            // The loop must not wait for room that nobody makes.
            self.work.abandon();
            self.inbox.push_waiting(Lane::Own, Happening::Failed(fatal.to_string()));
            None
        })
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

/// A claimed pile. It is given back when this is dropped; if that is because of a panic, the node ends.
struct Claim<'a>(&'a LogWriter);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let LogWriter { work, inbox, .. } = self.0;
        if std::thread::panicking() {
            work.abandon();
            inbox.push_waiting(Lane::Own, Happening::Failed(mistake("whoever wrote the log")));
        }
        work.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::Status;
    use super::super::edge::Clock;
    use super::*;
    use crate::disk::MemoryDisk;

    /// Left where it was, it would be given again and again.
    #[test]
    fn a_log_that_has_failed_takes_what_it_is_given() {
        let board = Arc::new(Board::new(Status::default(), Clock::start()));
        let appended = Appended::default();
        let orders = Arc::new(Pile::new(1));
        let log = Log::<MemoryDisk> { wal: None, board, appended, orders };
        let log: SharedLog = Arc::new(Mutex::new(log));
        let mut work = vec![LogWork::Close(Closing::default())];
        assert!(matches!(write(&log, &mut work), Ok(None)));
        assert!(work.is_empty());
    }
}
