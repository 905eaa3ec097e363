//! What a node is at, for everyone who wants to look without asking the loop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::edge;
use super::error::Ended;
use crate::io::{MemberId, Role};
use crate::membership::Membership;
use crate::snapshot_store::SnapshotId;

/// What a node is at.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Its number.
    pub id: MemberId,
    /// What people call it.
    pub name: String,
    /// Which life of its process this is.
    pub boot: u64,
    /// Its cluster.
    pub cluster_id: u64,
    /// How often that was restored from a backup.
    pub incarnation: u64,
    /// Where other members reach it.
    pub peer: String,
    /// What it is, and whom it follows.
    pub role: Role,
    /// The last entry that is known to be committed.
    pub commit: u64,
    /// The last entry that was applied.
    pub applied: u64,
    /// The feature level of the cluster, as far as the log is applied.
    pub feature_level: u32,
    /// The highest feature level that each other member is known to support.
    pub peer_levels: BTreeMap<MemberId, u32>,
    /// The newest snapshot on disk.
    pub snapshot: SnapshotId,
    /// Who the members are, as far as the log is applied.
    pub members: Arc<Membership>,
    /// How often the leader's clock was found to have jumped ahead.
    pub clock_cuts: u64,
    /// How often the log was synced.
    pub syncs: u64,
    /// How long these took, added up, in microseconds.
    pub sync_micros: u64,
    /// How many of them took how long: up to each of [`SYNC_MICROS`], and longer.
    pub sync_latencies: [u64; SYNC_MICROS.len() + 1],
    /// Entries that were appended to the log.
    pub log_entries: u64,
    /// Bytes of entries that were appended to the log.
    pub log_bytes: u64,
    /// The connections to other members.
    pub links: BTreeMap<MemberId, LinkStatus>,
    /// Whether the node has ended, and why.
    pub ended: Option<Ended>,
}

/// Bounds by which syncs of the log are sorted, in microseconds.
pub const SYNC_MICROS: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000];

/// A connection to another member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// Whether it stands.
    pub is_connected: bool,
    /// What is wrong with it, in three lines.
    pub trouble: Option<String>,
}

/// Keeps the status of one node.
#[derive(Debug, Default)]
pub struct Board {
    state: Mutex<State>,
    changed: Condvar,
    sync_micros: AtomicU64,
    sync_latencies: [AtomicU64; SYNC_MICROS.len() + 1],
    log_entries: AtomicU64,
    log_bytes: AtomicU64,
    /// When each member was heard last, in microseconds of the node's clock.
    heard: Mutex<BTreeMap<MemberId, Arc<AtomicU64>>>,
}

#[derive(Debug, Default)]
struct State {
    status: Status,
    /// A wake-up is a system call, so it is only made for those who wait.
    watchers: usize,
}

impl Board {
    pub(super) fn new(status: Status) -> Board {
        let state = Mutex::new(State { status, watchers: 0 });
        Board { state, ..Board::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the node is at.
    pub fn status(&self) -> Status {
        self.filled_in(self.state().status.clone())
    }

    fn filled_in(&self, status: Status) -> Status {
        let sync_latencies = self.sync_latencies.each_ref().map(|one| one.load(Ordering::Relaxed));
        Status {
            syncs: sync_latencies.iter().sum(),
            sync_micros: self.sync_micros.load(Ordering::Relaxed),
            sync_latencies,
            log_entries: self.log_entries.load(Ordering::Relaxed),
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            ..status
        }
    }

    /// Waits until the status is as wanted, for `patience` at most. The status then.
    ///
    /// # Errors
    ///
    /// The status at the end, if it was not as wanted in time.
    pub fn wait_until(
        &self,
        patience: Duration,
        mut wanted: impl FnMut(&Status) -> bool,
    ) -> Result<Status, Box<Status>> {
        let until = edge::now() + patience;
        let mut state = self.state();
        loop {
            if wanted(&state.status) {
                return Ok(self.filled_in(state.status.clone()));
            }
            let left = until.saturating_duration_since(edge::now());
            if left.is_zero() {
                return Err(Box::new(self.filled_in(state.status.clone())));
            }
            state.watchers += 1;
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.watchers -= 1;
        }
    }

    /// Changes the status.
    pub(super) fn update(&self, change: impl FnOnce(&mut Status)) {
        let mut state = self.state();
        change(&mut state.status);
        if state.watchers > 0 {
            self.changed.notify_all();
        }
    }

    /// The members, as far as the log is applied.
    pub(super) fn members(&self) -> Arc<Membership> {
        Arc::clone(&self.state().status.members)
    }

    /// The feature level of the cluster, as far as the log is applied.
    pub(super) fn feature_level(&self) -> u32 {
        self.state().status.feature_level
    }

    /// Counts a sync of the log: how long it took, and what it made durable.
    pub(super) fn count_sync(&self, took: Duration, entries: u64, bytes: u64) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = SYNC_MICROS.partition_point(|&bound| bound < micros);
        self.sync_latencies[place].fetch_add(1, Ordering::Relaxed);
        self.sync_micros.fetch_add(micros, Ordering::Relaxed);
        self.log_entries.fetch_add(entries, Ordering::Relaxed);
        self.log_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// When a member was heard last.
    pub(super) fn heard(&self, member: MemberId) -> Arc<AtomicU64> {
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(heard.entry(member).or_default())
    }
}
