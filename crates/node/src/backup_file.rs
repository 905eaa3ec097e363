//! The backup file: a snapshot file in a wrapper that says when and of which cluster it was made.
//!
//! Owns: the bytes of the wrapper, as `docs/format.md` describes them.
//! Guarantees: a damaged wrapper is refused, and its length field allocates nothing.
//! Refuses: a version that this build does not know.

use crc32c::{crc32c, crc32c_append};

use crate::bytes::{Reader, put_u32, put_u64, to_u64};
use crate::snapshot_store;

const MAGIC: [u8; 8] = *b"FPBACKUP";
const VERSION: u32 = 1;
/// The checksum at the end.
const SUM_LEN: usize = 4;

/// What the wrapper says about the snapshot inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Wall clock of the member when the backup was made, in milliseconds since the Unix epoch.
    pub(crate) created_unix_ms: u64,
    /// The cluster.
    pub(crate) cluster_id: u64,
}

/// A backup file that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackupFile<'a> {
    /// None for a bare snapshot file, which is what builds before the wrapper wrote.
    pub(crate) header: Option<Header>,
    /// The bytes of a snapshot file.
    pub(crate) snapshot: &'a [u8],
}

impl Header {
    /// What stands before and after the snapshot in the file.
    pub(crate) fn around(self, snapshot: &[u8]) -> (Vec<u8>, [u8; SUM_LEN]) {
        let mut head = MAGIC.to_vec();
        put_u32(VERSION, &mut head);
        put_u64(self.created_unix_ms, &mut head);
        put_u64(self.cluster_id, &mut head);
        put_u64(to_u64(snapshot.len()), &mut head);
        let sum = crc32c_append(crc32c(&head), snapshot);
        (head, sum.to_le_bytes())
    }
}

impl<'a> BackupFile<'a> {
    /// Whether a file that begins with these bytes can be a backup.
    pub(crate) fn may_be(start: &[u8]) -> bool {
        start == MAGIC || start == snapshot_store::MAGIC
    }

    /// Reads a backup file, or a bare snapshot file of an older build.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<BackupFile<'a>, String> {
        if !bytes.starts_with(&MAGIC) {
            return Ok(BackupFile { header: None, snapshot: bytes });
        }
        let short = || "its end is missing".to_owned();
        let mut from = Reader::new(bytes);
        let fields = (from.raw(MAGIC.len()), from.u32(), from.u64(), from.u64(), from.u64());
        let (Some(_), Some(version), Some(created_unix_ms), Some(cluster_id), Some(len)) = fields
        else {
            return Err(short());
        };
        if version != VERSION {
            return Err(format!("its version is {version}, and this build reads {VERSION}"));
        }
        let (summed, sum) = bytes.split_last_chunk::<SUM_LEN>().ok_or_else(short)?;
        let snapshot = from.rest().strip_suffix(sum).ok_or_else(short)?;
        if crc32c(summed) != u32::from_le_bytes(*sum) {
            return Err("its checksum is wrong: it is damaged or its end is missing".to_owned());
        }
        if to_u64(snapshot.len()) != len {
            return Err("its length is not the one that it states".to_owned());
        }
        Ok(BackupFile { header: Some(Header { created_unix_ms, cluster_id }), snapshot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { created_unix_ms: 1_795_000_000_000, cluster_id: 7 };

    fn file(snapshot: &[u8]) -> Vec<u8> {
        let (mut bytes, sum) = HEADER.around(snapshot);
        bytes.extend_from_slice(snapshot);
        bytes.extend_from_slice(&sum);
        bytes
    }

    #[test]
    fn wrapper_is_read_as_it_was_written() {
        for snapshot in [&b""[..], b"state"] {
            let bytes = file(snapshot);
            let read = BackupFile::decode(&bytes);
            assert_eq!(read, Ok(BackupFile { header: Some(HEADER), snapshot }));
        }
    }

    #[test]
    fn wrapper_has_the_documented_layout() {
        let bytes = file(b"state");
        let mut expected = b"FPBACKUP\x01\0\0\0".to_vec();
        expected.extend_from_slice(&1_795_000_000_000u64.to_le_bytes());
        expected.extend_from_slice(&7u64.to_le_bytes());
        expected.extend_from_slice(&5u64.to_le_bytes());
        expected.extend_from_slice(b"state");
        expected.extend_from_slice(&crc32c(&expected).to_le_bytes());
        assert_eq!(bytes, expected);
    }

    #[test]
    fn bare_snapshot_file_has_no_header() {
        let bare = b"FPSNAPFL and so on";
        assert_eq!(BackupFile::decode(bare), Ok(BackupFile { header: None, snapshot: bare }));
    }

    #[test]
    fn damaged_or_cut_wrapper_is_refused() {
        let whole = file(b"state");
        for at in MAGIC.len()..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(BackupFile::decode(&damaged).is_err(), "byte {at}");
            assert!(BackupFile::decode(&whole[..at]).is_err(), "cut at {at}");
        }
        // A sound checksum over a length that does not fit.
        let mut lies = whole[..whole.len() - SUM_LEN].to_vec();
        lies[28] = 6;
        lies.extend_from_slice(&crc32c(&lies).to_le_bytes());
        assert!(BackupFile::decode(&lies).is_err());
    }
}
