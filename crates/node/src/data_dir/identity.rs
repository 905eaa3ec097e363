//! Who a node is, in a small file that is replaced as a whole.

use crc32c::crc32c;

use super::Error;
use crate::bytes::{Reader, to_usize};
use crate::disk::{Disk, DiskFile, read_all};

const FILE: &str = "identity";
const UNFINISHED: &str = "identity.tmp";
const MAGIC: [u8; 8] = *b"FPIDENT\0";
/// The format that this build writes, and the only one that it reads.
const VERSION: u32 = 1;

/// How long the name of a node may be.
pub const NAME_BYTES_MAX: usize = 255;

/// Who a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The cluster that it belongs to.
    pub cluster_id: u64,
    /// Its number in the cluster. Never given to another node, nor to this one again.
    pub node_id: u64,
    /// What people call it.
    pub name: String,
    /// Random number of the last restore from a backup; zero before the first.
    pub incarnation: u64,
    /// How often the directory was opened.
    pub boot: u64,
}

impl Identity {
    /// Reads the identity of a directory; `None` if it has none.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn load<D: Disk>(disk: &D) -> Result<Option<Identity>, Error> {
        let io = |source| Error::Io { doing: "reading the identity", source };
        if !disk.list().map_err(io)?.iter().any(|name| name == FILE) {
            return Ok(None);
        }
        let file = disk.open(FILE).map_err(io)?;
        // The size comes from a file that may be anything: do not read more than can be right.
        if file.size().map_err(io)? > FILE_BYTES_MAX {
            return Err(Error::DamagedIdentity { what: "the file is too long" });
        }
        decode(&read_all(&file).map_err(io)?).map(Some)
    }

    /// Replaces the identity of a directory.
    ///
    /// The new file is durable before it takes the place of the old one: otherwise a crash could
    /// leave a node that does not know who it is.
    ///
    /// # Errors
    ///
    /// [`Error::NameTooLong`], [`Error::Io`].
    pub fn store<D: Disk>(&self, disk: &D) -> Result<(), Error> {
        let bytes = self.encode()?;
        let write = || {
            if disk.list()?.iter().any(|name| name == UNFINISHED) {
                disk.remove(UNFINISHED)?;
            }
            let mut file = disk.create(UNFINISHED)?;
            file.write_at(0, &bytes)?;
            file.sync_data()?;
            disk.rename(UNFINISHED, FILE)?;
            disk.sync_dir()
        };
        write().map_err(|source| Error::Io { doing: "writing the identity", source })
    }

    fn encode(&self) -> Result<Vec<u8>, Error> {
        let len = u32::try_from(self.name.len()).unwrap_or(u32::MAX);
        if self.name.len() > NAME_BYTES_MAX {
            return Err(Error::NameTooLong { len: self.name.len() });
        }
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        for number in [self.cluster_id, self.node_id, self.incarnation, self.boot] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(self.name.as_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        Ok(bytes)
    }
}

/// Everything but the name: magic, version, four numbers, length, checksum.
const FIXED_BYTES: usize = 8 + 4 + 4 * 8 + 4 + 4;
const FILE_BYTES_MAX: u64 = (FIXED_BYTES + NAME_BYTES_MAX) as u64;

fn decode(bytes: &[u8]) -> Result<Identity, Error> {
    let damaged = |what| Error::DamagedIdentity { what };
    let mut from = Reader::new(bytes);
    if from.array() != Some(MAGIC) {
        return Err(damaged("it does not begin as one"));
    }
    let (fields, sum) = bytes.split_last_chunk().ok_or_else(|| damaged("the file is cut short"))?;
    if crc32c(fields).to_le_bytes() != *sum {
        return Err(damaged("it fails its checksum"));
    }
    match from.u32() {
        Some(version) if version > VERSION => {
            return Err(Error::LaterVersion { version, known: VERSION });
        }
        _ => {}
    }
    let identity = fields_of(&mut from).ok_or_else(|| damaged("the file is cut short"))?;
    // Also refuses what is left over, and a version before the first.
    if identity.encode()? != bytes {
        return Err(damaged("it has another shape than any identity"));
    }
    Ok(identity)
}

fn fields_of(from: &mut Reader<'_>) -> Option<Identity> {
    let (cluster_id, node_id) = (from.u64()?, from.u64()?);
    let (incarnation, boot) = (from.u64()?, from.u64()?);
    let len = to_usize(from.u32()?.into());
    let name = String::from_utf8(from.raw(len)?.to_vec()).ok()?;
    Some(Identity { cluster_id, node_id, name, incarnation, boot })
}
