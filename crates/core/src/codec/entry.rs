//! Entries of the log as bytes.

use alloc::vec::Vec;

use super::command::{put_command, take_command};
use super::error::DecodeError;
use super::reader::Reader;
use super::wire::Wire;
use super::writer::Writer;
use crate::command::{Command, Entry};
use crate::ids::LogTime;

/// The format of entries that this build writes, and the only one that it reads.
const VERSION: u8 = 1;

/// A short command takes so many times as much memory as bytes. Room for all of them at once is
/// worth it: otherwise they would move, several times over.
const SWELLING: usize = 8;

/// Appends an entry.
pub fn encode_entry(entry: &Entry, out: &mut Vec<u8>) {
    let mut to = Writer::new(out);
    put_head(entry.at, entry.commands.len(), &mut to);
    for command in &entry.commands {
        to.framed(|to| put_command(command, to));
    }
}

/// Appends an entry of commands that [`super::encode_command`] has written already.
pub fn encode_entry_from(at: LogTime, commands: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    let mut to = Writer::new(out);
    put_head(at, commands.len(), &mut to);
    for command in commands {
        to.bytes(command.as_ref());
    }
}

fn put_head(at: LogTime, count: usize, to: &mut Writer<'_>) {
    to.u8(VERSION);
    at.put(to);
    to.count(count);
}

/// The stamp of an entry, without reading its commands: a new leader looks at the log's last one.
pub fn peek_stamp(bytes: &[u8]) -> Option<LogTime> {
    let mut from = Reader::new(bytes);
    let version = from.u8().ok()?;
    if version == VERSION { LogTime::take(&mut from).ok() } else { None }
}

/// Reads an entry. The bytes must hold it and nothing else.
///
/// # Errors
///
/// As [`super::decode_command`], and [`DecodeError::UnknownVersion`] for a later format.
pub fn decode_entry(bytes: &[u8]) -> Result<Entry, DecodeError> {
    let mut from = Reader::new(bytes);
    let version = from.u8()?;
    if version != VERSION {
        return Err(DecodeError::UnknownVersion(version));
    }
    let at = LogTime::take(&mut from)?;
    if at >= LogTime::LIMIT {
        return Err(from.malformed("a stamp beyond all time").into());
    }
    let count = from.count()?;
    let mut commands = Vec::with_capacity(from.room(count, size_of::<Command>() / SWELLING));
    for _ in 0..count {
        commands.push(take_command(&mut from.framed()?)?);
    }
    from.finish()?;
    Ok(Entry { at, commands })
}
