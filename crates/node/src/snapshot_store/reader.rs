//! Reads a snapshot file, chunk by chunk, and trusts none of it.

use super::format::{
    BadHeader, CHUNK_BYTES, CHUNK_HEADER_BYTES, HEADER_BYTES, TRAILER_BYTES, Totals, VERSION,
    check_header, chunk_sum,
};
use super::{Error, SnapshotId};
use crate::bytes::{Reader, to_u64, to_usize};
use crate::disk::DiskFile;

/// The chunks of one snapshot, in order. Ends after the first error.
#[derive(Debug)]
pub struct SnapshotReader<F> {
    file: F,
    name: String,
    id: SnapshotId,
    /// What the trailer says.
    totals: Totals,
    /// Where the trailer begins.
    end: u64,
    /// Where the next chunk begins.
    at: u64,
    /// What was read so far.
    read: Totals,
    is_done: bool,
}

impl<F: DiskFile> SnapshotReader<F> {
    /// Reads the header and the trailer.
    pub(super) fn open(file: F, name: String, id: SnapshotId) -> Result<SnapshotReader<F>, Error> {
        let read = Totals::default();
        let (totals, at) = (read, to_u64(HEADER_BYTES));
        let mut reader =
            SnapshotReader { file, name, id, totals, end: 0, at, read, is_done: false };
        let size = reader.file.size();
        let size = size.map_err(|source| Error::Io { doing: "reading a snapshot", source })?;
        if size < to_u64(HEADER_BYTES + TRAILER_BYTES) {
            return Err(reader.damaged(size, "a file that is cut short"));
        }
        reader.end = size - to_u64(TRAILER_BYTES);
        let header: [u8; HEADER_BYTES] = reader.array(0)?;
        check_header(&header, id).map_err(|bad| match bad {
            BadHeader::Damaged(what) => reader.damaged(0, what),
            BadHeader::LaterVersion(version) => {
                Error::LaterVersion { file: reader.name.clone(), version, known: VERSION }
            }
        })?;
        let trailer = reader.array(reader.end)?;
        let totals = Totals::from_trailer(&trailer, id);
        reader.totals = totals
            .ok_or_else(|| reader.damaged(reader.end, "a trailer that fails its checksum"))?;
        Ok(reader)
    }

    /// Reads all of it once, and begins again.
    pub(super) fn verified(mut self) -> Result<SnapshotReader<F>, Error> {
        for chunk in &mut self {
            chunk?;
        }
        self.rewind();
        Ok(self)
    }

    /// Begins again with the first chunk.
    pub fn rewind(&mut self) {
        self.at = to_u64(HEADER_BYTES);
        self.read = Totals::default();
        self.is_done = false;
    }

    /// Which snapshot this is.
    #[must_use]
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// How much room all chunks need, by the length of the file at most.
    pub(crate) fn len_hint(&self) -> usize {
        usize::try_from(self.totals.bytes.min(self.end)).unwrap_or_default()
    }

    /// How many bytes all chunks have together.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.totals.bytes
    }

    /// Whether all chunks were read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// The next chunk; `None` at the end.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.at == self.end {
            if self.read != self.totals {
                return Err(self.damaged(self.end, "chunks that do not add up to the whole"));
            }
            return Ok(None);
        }
        let left = self.end - self.at;
        let data_at = self.at + to_u64(CHUNK_HEADER_BYTES);
        if data_at > self.end {
            return Err(self.damaged(self.at, "a chunk that is cut short"));
        }
        let header: [u8; CHUNK_HEADER_BYTES] = self.array(self.at)?;
        let mut from = Reader::new(&header);
        let (len, sum) = (from.u32().unwrap_or_default(), from.u32().unwrap_or_default());
        let len = to_usize(len.into());
        if len == 0 || len > CHUNK_BYTES || to_u64(CHUNK_HEADER_BYTES + len) > left {
            return Err(self.damaged(self.at, "a chunk of an impossible length"));
        }
        let mut data = vec![0; len];
        self.fill(data_at, &mut data)?;
        if chunk_sum(self.id, self.read.chunks, &data) != sum {
            return Err(self.damaged(self.at, "a chunk that fails its checksum"));
        }
        self.read.add(&data);
        self.at = data_at + to_u64(len);
        Ok(Some(data))
    }

    fn array<const N: usize>(&self, offset: u64) -> Result<[u8; N], Error> {
        let mut bytes = [0; N];
        self.fill(offset, &mut bytes)?;
        Ok(bytes)
    }

    fn fill(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let read = self.file.read_at(offset, into);
        read.map_err(|source| Error::Io { doing: "reading a snapshot", source })
    }

    fn damaged(&self, offset: u64, what: &'static str) -> Error {
        Error::Damaged { file: self.name.clone(), offset, what }
    }
}

impl<F: DiskFile> Iterator for SnapshotReader<F> {
    type Item = Result<Vec<u8>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let chunk = self.chunk().transpose();
        self.is_done = !matches!(chunk, Some(Ok(_)));
        chunk
    }
}
