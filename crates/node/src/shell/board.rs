//! What a node is at, for everyone who wants to look without asking the loop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::disk_space::DiskStatus;
use super::edge::{self, Clock};
use super::error::Ended;
use crate::io::{MemberId, Micros, Role};
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
    /// The disk under the data directory, if it says how full it is.
    pub disk: Option<DiskStatus>,
    /// The connections to other members.
    pub links: BTreeMap<MemberId, LinkStatus>,
    /// When this node last learned of another term or leader.
    pub role_since: Micros,
    /// Which other members this node reaches.
    pub contacts: BTreeMap<MemberId, Contact>,
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
    /// When it came to stand, or ended.
    pub since: Micros,
    /// The version of the peer protocol that is spoken on it.
    pub version: u32,
    /// What is wrong with it, in three lines.
    pub trouble: Option<String>,
}

/// A member that hears nothing of another one for so long does not reach it. Members introduce
/// themselves to each other every second.
const CONTACT_TIMEOUT: Duration = Duration::from_secs(3);
/// The version of the peer protocol in which they do.
const INTRODUCTION_VERSION: u32 = 2;

/// Whether a node reaches another member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// Whether it is connected to it and hears from it.
    pub is_reachable: bool,
    /// For how long it has heard nothing of it.
    pub silent_for: Duration,
}

/// Keeps the status of one node.
#[derive(Debug)]
pub struct Board {
    clock: Clock,
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
    pub(super) fn new(status: Status, clock: Clock) -> Board {
        Board {
            clock,
            state: Mutex::new(State { status, watchers: 0 }),
            changed: Condvar::new(),
            sync_micros: AtomicU64::new(0),
            sync_latencies: Default::default(),
            log_entries: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            heard: Mutex::default(),
        }
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
        let contacts = self.contacts(&status);
        Status {
            contacts,
            syncs: sync_latencies.iter().sum(),
            sync_micros: self.sync_micros.load(Ordering::Relaxed),
            sync_latencies,
            log_entries: self.log_entries.load(Ordering::Relaxed),
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            ..status
        }
    }

    /// Which members this node reaches, by what it has heard of them.
    fn contacts(&self, status: &Status) -> BTreeMap<MemberId, Contact> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = |id| heard.get(&id).map_or(0, |at| at.load(Ordering::Relaxed));
        let others = status.members.members.keys().filter(|&&id| id != status.id);
        let now = self.clock.micros();
        others.map(|&id| (id, contact(status, id, Micros(heard(id)), now))).collect()
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

    /// For how long the term and the leader are as they are.
    pub(super) fn role_age(&self) -> Duration {
        let since = self.state().status.role_since;
        Duration::from_micros(self.clock.micros().0.saturating_sub(since.0))
    }

    /// The members, as far as the log is applied.
    pub(super) fn members(&self) -> Arc<Membership> {
        Arc::clone(&self.state().status.members)
    }

    /// The feature level of the cluster, as far as the log is applied.
    #[must_use]
    pub fn feature_level(&self) -> u32 {
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

/// Whether a node reaches a member that it has `heard` last then.
fn contact(status: &Status, id: MemberId, heard: Micros, now: Micros) -> Contact {
    let link = status.links.get(&id).cloned().unwrap_or_default();
    let since = |at: Micros| Duration::from_micros(now.0.saturating_sub(at.0));
    // A follower hears nothing of another follower whose build does not introduce itself.
    let talks =
        link.version >= INTRODUCTION_VERSION || status.role.leads || status.role.leader == Some(id);
    // A connection that has just been made has had no time to be heard on.
    let is_silent = talks && since(heard.max(link.since)) >= CONTACT_TIMEOUT;
    let last = if talks { heard } else { heard.max(link.since) };
    Contact { is_reachable: link.is_connected && !is_silent, silent_for: since(last) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn connected(since: u64) -> LinkStatus {
        let since = Micros(since * SECOND);
        LinkStatus { is_connected: true, since, version: 2, trouble: None }
    }

    fn seen(link: Option<LinkStatus>, heard: u64, now: u64) -> (bool, u64) {
        let links = link.map(|link| (2, link)).into_iter().collect();
        let status = Status { links, ..Status::default() };
        let found = contact(&status, 2, Micros(heard * SECOND), Micros(now * SECOND));
        (found.is_reachable, found.silent_for.as_secs())
    }

    #[test]
    fn silent_member_is_unreachable_since_it_was_last_heard() {
        assert_eq!(seen(Some(connected(1)), 10, 12), (true, 2));
        assert_eq!(seen(Some(connected(1)), 10, 13), (false, 3));
        // It has just connected, and has said nothing on the new connection.
        assert_eq!(seen(Some(connected(19)), 10, 20), (true, 10));
    }

    #[test]
    fn member_without_connection_is_unreachable() {
        let broken = LinkStatus { is_connected: false, ..connected(15) };
        assert_eq!(seen(Some(broken.clone()), 14, 20), (false, 6));
        let old = LinkStatus { version: 1, ..broken };
        assert_eq!(seen(Some(old), 10, 20), (false, 5));
        assert_eq!(seen(None, 0, 20), (false, 20));
    }

    #[test]
    fn old_build_is_not_called_unreachable_by_another_follower() {
        let old = LinkStatus { version: 1, ..connected(1) };
        assert_eq!(seen(Some(old), 0, 100), (true, 99));
    }
}
