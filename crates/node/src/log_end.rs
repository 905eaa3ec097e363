//! Where the log ended when the node was last stopped in good order.
//!
//! Owns: a small file beside the log that is replaced as a whole. Guarantees: a log that was closed
//! and has lost its end since is refused at the next start; a crash never makes it refuse a sound
//! log. Refuses: to be needed. Without the file, or with a damaged one, the log is opened as it is.

use std::io;

use crc32c::crc32c;

use crate::bytes::Reader;
use crate::disk::{Disk, DiskFile, read_all};
use crate::wal::Start;

const FILE: &str = "log-end";
const UNFINISHED: &str = "log-end.tmp";
const MAGIC: [u8; 8] = *b"FPLOGEND";
const VERSION: u32 = 1;
/// Magic, version, boot, index, term, commit, checksum.
const BYTES: usize = 8 + 4 + 4 * 8 + 4;

/// Where a log ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The process that closed it.
    pub boot: u64,
    /// The last entry.
    pub last: Start,
    /// The last entry that was known to be committed.
    pub commit: u64,
}

impl LogEnd {
    /// Reads it; nothing if there is none, or if it cannot be used.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn load<D: Disk>(disk: &D) -> io::Result<Option<LogEnd>> {
        if !disk.list()?.iter().any(|name| name == FILE) {
            return Ok(None);
        }
        let file = disk.open(FILE)?;
        if file.size()? != BYTES as u64 {
            return Ok(None);
        }
        Ok(decode(&read_all(&file)?))
    }

    /// Replaces it. The new file is durable before it takes the place of the old one.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn store<D: Disk>(&self, disk: &D) -> io::Result<()> {
        if disk.list()?.iter().any(|name| name == UNFINISHED) {
            disk.remove(UNFINISHED)?;
        }
        let mut file = disk.create(UNFINISHED)?;
        file.write_at(0, &self.encode())?;
        file.sync_data()?;
        disk.rename(UNFINISHED, FILE)?;
        disk.sync_dir()
    }

    /// Whether a log that ends with `last` can be the one that was closed, for the process that
    /// counts this boot. The next process finds what was closed; later ones find at least what was
    /// committed, because the processes between them did not close the log.
    #[must_use]
    pub fn allows(&self, boot: u64, last: Start) -> bool {
        if self.boot.checked_add(1) == Some(boot) {
            return last == self.last;
        }
        last.index >= self.commit
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.boot, self.last.index, self.last.term, self.commit] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }
}

fn decode(bytes: &[u8]) -> Option<LogEnd> {
    let mut from = Reader::new(bytes);
    let (_, _): ([u8; 8], u32) = (from.array()?, from.u32()?);
    let (boot, index, term) = (from.u64()?, from.u64()?, from.u64()?);
    let end = LogEnd { boot, last: Start { index, term }, commit: from.u64()? };
    // Also refuses another beginning, a later version and a bad checksum.
    (end.encode() == bytes).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    const END: LogEnd = LogEnd { boot: 4, last: Start { index: 9, term: 2 }, commit: 7 };

    #[test]
    fn stored_end_is_loaded_again() {
        let disk = MemoryDisk::new();
        assert_eq!(LogEnd::load(&disk).ok(), Some(None));
        END.store(&disk).expect("the disk has no faults");
        LogEnd { boot: 5, ..END }.store(&disk).expect("the disk has no faults");
        assert_eq!(LogEnd::load(&disk).ok(), Some(Some(LogEnd { boot: 5, ..END })));
    }

    #[test]
    fn damaged_end_is_not_used() {
        for place in 0..BYTES as u64 {
            let disk = MemoryDisk::new();
            END.store(&disk).expect("the disk has no faults");
            assert!(disk.flip(FILE, place, 3));
            assert_eq!(LogEnd::load(&disk).ok(), Some(None), "byte {place}");
        }
    }

    #[test]
    fn only_the_next_process_must_find_the_same_end() {
        let last = |index, term| Start { index, term };
        assert!(END.allows(5, last(9, 2)));
        assert!(!END.allows(5, last(8, 2)));
        assert!(!END.allows(5, last(9, 3)));
        // A process between them may have replaced what was not committed.
        assert!(END.allows(6, last(8, 3)));
        assert!(!END.allows(6, last(6, 2)));
    }
}
