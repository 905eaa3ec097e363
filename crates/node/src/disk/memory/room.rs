//! How much a simulated disk holds.

use super::{Fault, MemoryDisk, Space, State};

impl MemoryDisk {
    /// Bounds the bytes of all files together. What is there already stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = Some(bytes);
    }

    /// Whether new files are refused, as by a process that has as many files open as it may.
    pub fn refuse_new_files(&self, refuse: bool) {
        self.state().refuses_new_files = refuse;
    }

    /// The bytes of all files together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// How many bytes were written, all writes together.
    #[must_use]
    pub fn bytes_written(&self) -> u64 {
        self.state().bytes_written
    }
}

impl State {
    fn used(&self) -> u64 {
        let len = |inode: &u64| self.inodes.get(inode).map_or(0, |file| file.live.len());
        self.names.values().map(len).sum()
    }

    pub(super) fn space(&self) -> Option<Space> {
        let total = self.capacity?;
        Some(Space { free: total.saturating_sub(self.used()), total })
    }

    /// How many of the bytes of a write get through, and what goes wrong with it.
    pub(super) fn fit(
        &self,
        inode: u64,
        offset: u64,
        len: u64,
        fault: Option<Fault>,
    ) -> (u64, Option<Fault>) {
        match fault {
            Some(Fault::Error) => (0, fault),
            Some(Fault::NoSpace) => (len / 2, fault),
            Some(Fault::Die) => (len, fault),
            None if self.has_room(inode, offset, len) => (len, None),
            None => (len.min(self.room_at(inode, offset)), Some(Fault::NoSpace)),
        }
    }

    pub(super) fn has_room(&self, inode: u64, offset: u64, len: u64) -> bool {
        self.capacity.is_none() || len <= self.room_at(inode, offset)
    }

    /// How many bytes can be written from `offset` on.
    fn room_at(&self, inode: u64, offset: u64) -> u64 {
        let there = self.inodes.get(&inode).map_or(0, |file| file.live.len());
        let free = self.space().map_or(u64::MAX, |space| space.free);
        there.saturating_sub(offset).saturating_add(free)
    }
}
