//! What a state has done since it was made or read, for people who watch it.
//!
//! Not part of what the cluster agrees on: it is in no snapshot and no hash, and nothing is decided
//! by it. A state that is read from a snapshot begins at zero.

/// Bounds by which entries are sorted by how many commands they carry.
pub const BATCH_BOUNDS: [u64; 13] = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 4_096];

/// What a state has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Commands that were carried out.
    pub commands: u64,
    /// Entries by how many commands they carried: up to each of [`BATCH_BOUNDS`], and more.
    pub batches: [u64; BATCH_BOUNDS.len() + 1],
    /// Keys that were visited to read, compare, remove or grant them.
    pub key_visits: u64,
    /// Deadlines that were visited to end what is due.
    pub deadline_visits: u64,
    /// Leases that were made.
    pub leases_granted: u64,
    /// Leases that log time has ended.
    pub leases_expired: u64,
    /// Leases that were ended by somebody, or with the lock that they were made for.
    pub leases_revoked: u64,
}

impl Work {
    pub(crate) fn note_entry(&mut self, commands: usize) {
        let commands = commands as u64;
        self.commands += commands;
        let bucket = BATCH_BOUNDS.iter().position(|&bound| commands <= bound);
        self.batches[bucket.unwrap_or(BATCH_BOUNDS.len())] += 1;
    }

    /// Entries that were applied.
    pub fn entries(&self) -> u64 {
        self.batches.iter().sum()
    }
}
