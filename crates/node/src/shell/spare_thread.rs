//! The thread that makes segments ready for the log.
//!
//! That takes as long as hundreds of syncs, so it is done beside the log and without its lock.

use std::sync::Arc;

use super::inbox::{Happening, Inbox, Lane};
use super::log_writer::{SharedLog, put_spare};
use super::pile::{Pile, Taken};
use crate::disk::Disk;
use crate::wal::{Fatal, SpareOrder};

/// How many orders may wait. The log gives out one at a time.
pub(super) const ORDERS_MAX: usize = 4;

/// Makes what the log orders, until the pile is closed.
pub(super) fn make_spares<D: Disk>(
    orders: &Pile<SpareOrder<D>>,
    log: &SharedLog,
    inbox: &Arc<Inbox>,
) {
    let mut taken = Vec::new();
    while orders.take(&mut taken, None) == Taken::Some {
        for order in taken.drain(..) {
            match order.make() {
                Ok(made) => put_spare(log, made),
                Err(source) => {
                    let fatal = Fatal::Io { doing: "making a spare segment", source };
                    inbox.push_waiting(Lane::Own, Happening::Failed(fatal.to_string()));
                }
            }
        }
    }
}
