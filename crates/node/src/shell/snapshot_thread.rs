//! The thread that makes, sends and receives snapshots.

use std::sync::Arc;

use super::inbox::{Happening, Inbox, Lane};
use super::notice::Notice;
use super::pile::{Pile, Taken};
use crate::disk::Disk;
use crate::io::Input;
use crate::snapshot_keeper::{SnapshotDone, SnapshotKeeper, SnapshotTask};

/// How many tasks may wait. The node gives out one to make, a few pieces for each member that is
/// being helped, and a few that arrive.
pub(super) const TASKS_MAX: usize = 4_096;

/// Carries out tasks until the pile is closed.
pub(super) fn keep_snapshots<D: Disk>(
    mut keeper: SnapshotKeeper<D>,
    tasks: &Pile<SnapshotTask>,
    inbox: &Arc<Inbox>,
) {
    let mut taken = Vec::new();
    let mut told = None;
    while tasks.take(&mut taken, None) != Taken::Closed {
        for task in taken.drain(..) {
            let done = keeper.perform(task);
            if let SnapshotDone::Made(_, result) = &done {
                let trouble = result.as_ref().err().map(|not| trouble(&not.why));
                if let Some(trouble) = &trouble
                    && told.as_ref() != Some(trouble)
                {
                    let tell = Happening::Tell(Notice::Trouble(trouble.clone()));
                    inbox.push_waiting(Lane::Own, tell);
                }
                told = trouble;
            }
            inbox.push_waiting(Lane::Own, Happening::Input(Input::Snapshot(done)));
        }
    }
}

/// What an operator should know of a snapshot that could not be made, in three lines. Told once
/// until it has changed.
fn trouble(why: &str) -> String {
    let why = why.lines().next().unwrap_or_default();
    format!(
        "no snapshot can be made\n\
         {why}\n\
         make room on the disk or mend it: until then the log grows, and a member that lags behind \
         cannot be helped"
    )
}
