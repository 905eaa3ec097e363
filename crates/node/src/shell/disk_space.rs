//! Looks how full the disk is, beside the loop.
//!
//! Owns: the reserve, which a leader keeps for what must go on when the disk is nearly full: renewals,
//! releases, and the snapshots that let the log become short again.

use std::time::Duration;

use super::board::Board;
use super::inbox::{Happening, Inbox, Lane};
use super::notice::Notice;
use crate::disk::{Disk, Space};
use crate::io::Input;
use crate::snapshot_store;
use crate::wal::spare_bytes;

/// How often to look.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The reserve: so many segments of the log, and one more snapshot.
const RESERVE_SEGMENTS: u64 = 4;

/// But never more than this part of the disk, as long as the next snapshot fits.
const RESERVE_PART: u64 = 4;

/// The next snapshot may be larger than the newest by this part of it, and of a segment.
const GROWTH_PART: u64 = 4;

/// A disk that was low is so until it has this part of the reserve more than the reserve: otherwise it
/// would change with every segment.
const MARGIN_PART: u64 = 4;

/// The disk under the data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStatus {
    /// Bytes that can still be written, those of spare segments included.
    pub free: u64,
    /// Below so many free bytes, what makes the state grow is refused.
    pub reserve: u64,
    /// Whether it is.
    pub is_low: bool,
}

/// Looks at one disk.
pub(super) struct DiskWatch<D> {
    disk: D,
    segment_bytes: u64,
    status: Option<DiskStatus>,
}

impl<D: Disk> DiskWatch<D> {
    pub(super) fn new(disk: D, segment_bytes: u64) -> DiskWatch<D> {
        DiskWatch { disk, segment_bytes, status: None }
    }

    /// Looks, and tells those who want to know.
    pub(super) fn look(&mut self, board: &Board, inbox: &Inbox) {
        // A disk that cannot say it now says it later, or fails by itself.
        let Some(space) = self.disk.space().ok().flatten() else { return };
        let files = Files {
            segment: self.segment_bytes,
            snapshot: snapshot_store::newest_bytes(&self.disk).unwrap_or(0),
            spares: spare_bytes(&self.disk).unwrap_or(0),
        };
        let was_low = self.status.is_some_and(|status| status.is_low);
        let status = judge(space, files, was_low);
        let is_news = self.status != Some(status);
        self.status = Some(status);
        // First, so that whoever sees it on the board knows that the node decides by it.
        if status.is_low != was_low {
            inbox.push_waiting(Lane::Own, Happening::Input(Input::DiskIsLow(status.is_low)));
            if status.is_low {
                let trouble = Notice::Trouble(trouble(status));
                inbox.push_waiting(Lane::Own, Happening::Tell(trouble));
            }
        }
        if is_news {
            board.update(|shown| shown.disk = Some(status));
        }
    }
}

/// How large the files are that decide.
#[derive(Clone, Copy)]
struct Files {
    /// One segment of the log.
    segment: u64,
    /// The newest snapshot.
    snapshot: u64,
    /// All spare segments together.
    spares: u64,
}

/// Spare segments are free: they wait for the log. But the next snapshot cannot use them, and without it
/// the log never becomes short again.
fn judge(space: Space, files: Files, was_low: bool) -> DiskStatus {
    let Files { segment, snapshot, spares } = files;
    let part = space.total / RESERVE_PART;
    let next_snapshot = snapshot + (snapshot + segment) / GROWTH_PART;
    let wanted = (RESERVE_SEGMENTS * segment + snapshot).min(part);
    let reserve = wanted.max(next_snapshot.min(part) + spares);
    let enough = if was_low { reserve + reserve / MARGIN_PART } else { reserve };
    let free = space.free + spares;
    DiskStatus { free, reserve, is_low: free < enough }
}

fn trouble(status: DiskStatus) -> String {
    let mib = |bytes: u64| bytes >> 20;
    format!(
        "the disk is nearly full: {} MiB are free, {} MiB are kept in reserve\n\
         as long as this node leads, new keys, leases and places in queues are refused (disk_full)\n\
         make room on the disk; renewals, releases, deletes and reads go on",
        mib(status.free),
        mib(status.reserve)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const FILES: Files = Files { segment: 16 * MIB, snapshot: 10 * MIB, spares: 0 };

    fn is_low(free: u64, total: u64, was_low: bool) -> bool {
        judge(Space { free, total }, FILES, was_low).is_low
    }

    #[test]
    fn reserve_fits_large_and_small_disks() {
        let reserve = |total| judge(Space { free: 0, total }, FILES, false).reserve;
        assert_eq!(reserve(1 << 40), 74 * MIB);
        assert_eq!(reserve(100 * MIB), 25 * MIB);
    }

    #[test]
    fn spares_are_free_but_not_for_the_next_snapshot() {
        let files = Files { spares: 32 * MIB, ..FILES };
        let judged = |free| judge(Space { free: free * MIB, total: 160 * MIB }, files, false);
        assert!(judged(17).free > judged(17).reserve, "{:?}", judged(17));
        assert!(judged(16).is_low, "{:?}", judged(16));
        let large = |free| judge(Space { free: free * MIB, total: 1 << 40 }, files, false);
        assert!(large(41).is_low && !large(42).is_low, "{:?}", large(42));
    }

    #[test]
    fn low_disk_needs_a_margin_to_be_well_again() {
        assert!(!is_low(74 * MIB, 1 << 40, false));
        assert!(is_low(74 * MIB - 1, 1 << 40, false));
        assert!(is_low(74 * MIB, 1 << 40, true));
        assert!(!is_low(93 * MIB, 1 << 40, true));
    }
}
