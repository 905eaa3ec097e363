//! The thread that makes segments ready for the log, and looks how full the disk is.
//!
//! Making one takes as long as hundreds of syncs, so it is done beside the log and without its lock.

use std::io;
use std::sync::Arc;

use super::board::Board;
use super::disk_space::{DiskWatch, LOOK_EVERY};
use super::inbox::{Happening, Inbox, Lane};
use super::log_writer::{SharedLog, put_spare};
use super::notice::Notice;
use super::pile::{Pile, Taken};
use crate::disk::Disk;
use crate::wal::SpareOrder;

/// How many orders may wait. The log gives out one at a time.
pub(super) const ORDERS_MAX: usize = 4;

/// What the thread works with.
pub(super) struct SpareThread<D> {
    pub(super) orders: Arc<Pile<SpareOrder<D>>>,
    pub(super) watch: DiskWatch<D>,
    pub(super) log: SharedLog,
    pub(super) board: Arc<Board>,
    pub(super) inbox: Arc<Inbox>,
}

impl<D: Disk> SpareThread<D> {
    /// Makes what the log orders, until the pile is closed.
    pub(super) fn run(mut self) {
        let mut taken = Vec::new();
        let mut told = None;
        loop {
            if self.orders.take(&mut taken, Some(LOOK_EVERY)) == Taken::Closed {
                return;
            }
            for order in taken.drain(..) {
                let made = order.make();
                let trouble = made.failure().map(trouble);
                if let Some(trouble) = &trouble
                    && told.as_ref() != Some(trouble)
                {
                    let tell = Happening::Tell(Notice::Trouble(trouble.clone()));
                    self.inbox.push_waiting(Lane::Own, tell);
                }
                told = trouble;
                put_spare(&self.log, made);
            }
            self.watch.look(&self.board, &self.inbox);
        }
    }
}

/// The log goes on without the spare. What an operator should know all the same, told once until it has
/// changed.
fn trouble(why: &io::Error) -> String {
    format!(
        "no segment of the log could be made ready\n\
         the disk says: {why}\n\
         the log goes on; make room on the disk, or raise the number of open files"
    )
}
