//! The number that a new directory has drawn, before it is a member of anything.
//!
//! It is durable before anybody hears of it, so that a node which asks twice to be let in asks as
//! the same one. `docs/peer-protocol.md` describes the file.

use std::io;

use crc32c::crc32c;

use super::edge;
use crate::bytes::Reader;
use crate::data_dir::Error;
use crate::disk::{Disk, DiskFile, read_all};
use crate::io::MemberId;

const FILE: &str = "draft";
const UNFINISHED: &str = "draft.tmp";
const MAGIC: [u8; 8] = *b"FPDRAFT\0";
const FILE_BYTES: usize = 20;

/// The number of this directory: the one that it has drawn before, or a new one.
pub(super) fn draw<D: Disk>(disk: &D) -> Result<MemberId, Error> {
    let names = disk.list().map_err(reading)?;
    if names.iter().any(|name| name == FILE) {
        let file = disk.open(FILE).map_err(reading)?;
        if file.size().map_err(reading)? == FILE_BYTES as u64
            && let Some(drawn) = decode(&read_all(&file).map_err(reading)?)
        {
            return Ok(drawn);
        }
        return Err(Error::DamagedIdentity {
            what: "the number that it has drawn fails its checksum",
        });
    }
    let drawn = edge::member_id();
    write(disk, &names, drawn)
        .map_err(|source| Error::Io { doing: "writing the number that it has drawn", source })?;
    Ok(drawn)
}

/// Removes the number: the identity has it now.
pub(super) fn discard<D: Disk>(disk: &D) -> Result<(), Error> {
    if disk.list().map_err(reading)?.iter().any(|name| name == FILE) {
        disk.remove(FILE).map_err(reading)?;
    }
    Ok(())
}

fn reading(source: io::Error) -> Error {
    Error::Io { doing: "reading the number that it has drawn", source }
}

fn write<D: Disk>(disk: &D, names: &[String], drawn: MemberId) -> io::Result<()> {
    if names.iter().any(|name| name == UNFINISHED) {
        disk.remove(UNFINISHED)?;
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&drawn.to_le_bytes());
    bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
    let mut file = disk.create(UNFINISHED)?;
    file.write_at(0, &bytes)?;
    file.sync_data()?;
    disk.rename(UNFINISHED, FILE)?;
    disk.sync_dir()
}

fn decode(bytes: &[u8]) -> Option<MemberId> {
    let mut from = Reader::new(bytes);
    let magic: [u8; 8] = from.array()?;
    let drawn = from.u64().filter(|&drawn| drawn != 0)?;
    let sound = magic == MAGIC && from.u32()? == crc32c(&bytes[..16]);
    (sound && from.is_empty()).then_some(drawn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    #[test]
    fn a_number_is_drawn_once() {
        let disk = MemoryDisk::new();
        let drawn = draw(&disk).expect("the disk has no faults");
        assert_eq!(draw(&disk).ok(), Some(drawn));
        discard(&disk).expect("the disk has no faults");
        assert_ne!(draw(&disk).ok(), Some(drawn));
    }

    #[test]
    fn a_damaged_number_is_refused() {
        let disk = MemoryDisk::new();
        draw(&disk).expect("the disk has no faults");
        for byte in 0..FILE_BYTES as u64 {
            assert!(disk.flip(FILE, byte, 3));
            assert!(draw(&disk).is_err(), "byte {byte}");
            assert!(disk.flip(FILE, byte, 3));
        }
    }
}
