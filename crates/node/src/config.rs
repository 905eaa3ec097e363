//! What may differ between nodes.

use crate::machine::FEATURE_LEVEL;

/// How a node is set up.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Who it is.
    pub id: u64,
    /// Which life of this member's process this is. It grows with every start.
    pub boot: u64,
    /// Drawn at random by each process, so that copies of one data directory can be told apart.
    pub boot_nonce: u64,
    /// The highest feature level that this member supports.
    pub feature_level: u32,
    /// Usable memory in bytes; 0 if it is not known.
    pub memory_bytes: u64,
    /// Draws the election timeouts. Two nodes with the same seed and id behave the same.
    pub seed: u64,
    /// Ticks between heartbeats.
    pub heartbeat_ticks: usize,
    /// The least and the most ticks without a leader before an election.
    pub election_ticks: (usize, usize),
    /// Ordinary commands that may wait.
    pub waiting_max: usize,
    /// Renewals that may wait, in room of their own.
    pub renewals_waiting_max: usize,
    /// Commands in one entry.
    pub batch_len_max: usize,
    /// Bytes of commands in one entry. More than the longest request has.
    pub batch_bytes_max: usize,
    /// Entries that may be proposed and not yet applied.
    pub in_flight_max: usize,
    /// How long a command that would only take a place behind a holder waits for company, in
    /// microseconds. What the holder does next then shares its sync.
    pub linger: u64,
    /// How long the other members wait to hear what is committed if no entry follows that says so,
    /// and none of them has clients, in microseconds.
    pub commit_wait: u64,
    /// How long entries wait for company on their way to members that are not needed for a majority, in
    /// microseconds.
    pub spare_wait: u64,
    /// How long they wait if no majority has them, in microseconds: whoever is needed for it may have
    /// stalled.
    pub spare_patience: u64,
    /// How long a renewal waits for company, in microseconds. At this length a hundred thousand
    /// sessions cost forty syncs a second. A twentieth of the shortest lease is not missed.
    pub renewal_wait: u64,
    /// So many bytes of renewals are company enough: a thousand leases, more than a hundred thousand
    /// sessions renew in that time.
    pub renewal_company_bytes: usize,
    /// A snapshot is made after so many entries.
    pub snapshot_entries: u64,
    /// A snapshot is made after as many bytes of entries as it would have itself, but after so many at
    /// least and at most.
    pub snapshot_bytes: (u64, u64),
    /// With so many locks, leases, clients and keys at most, a snapshot is made from a copy of the state.
    /// Otherwise the log is applied once more, beside the loop.
    pub snapshot_copy_max: usize,
}

impl NodeConfig {
    /// How many ticks to wait for another member before giving up: two election timeouts.
    pub fn patience_ticks(&self) -> u64 {
        2 * self.election_ticks.1 as u64
    }

    /// The defaults: ticks of ten milliseconds, heartbeats every hundred, elections after half a
    /// second to a second.
    pub fn new(id: u64) -> NodeConfig {
        NodeConfig {
            id,
            boot: 1,
            boot_nonce: 0,
            feature_level: FEATURE_LEVEL,
            memory_bytes: 0,
            seed: 0,
            heartbeat_ticks: 10,
            election_ticks: (50, 100),
            waiting_max: 65_536,
            renewals_waiting_max: 65_536,
            batch_len_max: 4_096,
            batch_bytes_max: 2 << 20,
            in_flight_max: 8,
            linger: 1_000,
            commit_wait: 1_000,
            spare_wait: 8_000,
            spare_patience: 2_000,
            renewal_wait: 25_000,
            renewal_company_bytes: 16 << 10,
            snapshot_entries: 100_000,
            snapshot_bytes: (16 << 20, 64 << 20),
            snapshot_copy_max: 100_000,
        }
    }
}
