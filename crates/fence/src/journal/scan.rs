//! Reads a journal when it is opened.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use super::{OpenError, title_line};

/// Bytes in one line. A line of the store has at most one body of a request, of which JSON can
/// make six times as much.
const LINE_LEN_MAX: u64 = 16 << 20;
/// Places in a bad line at which another one may begin. Only contents made for it have more.
const STARTS_MAX: usize = 1_000;

/// What was found of a file.
pub(super) struct Whole {
    /// How many bytes of it are good.
    pub(super) len: u64,
    /// How many of them some line calls durable.
    pub(super) proven: u64,
}

/// Reads a file from its start to where it stops making sense.
pub(super) struct Scan<'a, F> {
    pub(super) path: &'a Path,
    pub(super) title: &'static str,
    pub(super) replay: F,
}

impl<F: FnMut(&str) -> Result<(), String>> Scan<'_, F> {
    /// Which part of the file is good. The rest was never durable.
    pub(super) fn run(mut self, file: &File) -> Result<Whole, OpenError> {
        let mut from = BufReader::new(file);
        let first = self.next_line(&mut from)?;
        let Some(sealed) = read_title(self.title, &first) else {
            return Err(OpenError::Foreign(self.path.to_owned()));
        };
        let mut at = length(&first);
        let mut proven = sealed;
        let mut bad: Option<u64> = None;
        loop {
            let line = self.next_line(&mut from)?;
            if line.is_empty() {
                break;
            }
            match read_line(&line) {
                Some((synced, payload)) if bad.is_none() => {
                    proven = proven.max(synced.min(at));
                    (self.replay)(payload).map_err(|what| self.damaged(at, &what))?;
                }
                _ => {
                    let place = *bad.get_or_insert(at);
                    // A good line that was written when the bad one was durable already.
                    if synced_within(&line).is_some_and(|synced| synced > place) {
                        return Err(self.damaged(place, "a line was changed after it was synced"));
                    }
                }
            }
            at += length(&line);
        }
        let good = bad.unwrap_or(at);
        if good < sealed {
            return Err(self.damaged(good, "a line was changed or cut off after it was synced"));
        }
        Ok(Whole { len: good, proven: proven.min(good) })
    }

    fn next_line(&self, from: &mut BufReader<&File>) -> Result<Vec<u8>, OpenError> {
        let mut line = Vec::new();
        let outcome = from.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line);
        outcome.map_err(|error| OpenError::Io { path: self.path.to_owned(), error })?;
        Ok(line)
    }

    fn damaged(&self, at: u64, what: &str) -> OpenError {
        OpenError::Damaged { path: self.path.to_owned(), at, what: what.to_owned() }
    }
}

fn length(line: &[u8]) -> u64 {
    u64::try_from(line.len()).expect("a line in memory fits into 64 bits")
}

/// How many bytes of the file the title calls durable; none if it is no such title.
fn read_title(title: &str, line: &[u8]) -> Option<u64> {
    let text = str::from_utf8(line).ok()?;
    let sealed = text.split(' ').nth(3)?.parse().ok()?;
    (title_line(title, sealed) == text).then_some(sealed)
}

/// The number and the payload of a whole line with the right checksum.
fn read_line(line: &[u8]) -> Option<(u64, &str)> {
    let text = str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (crc, rest) = text.split_once(' ')?;
    if crc.len() != 8 || u32::from_str_radix(crc, 16).ok()? != crc32c::crc32c(rest.as_bytes()) {
        return None;
    }
    let (synced, payload) = rest.split_once(' ')?;
    Some((synced.parse().ok()?, payload))
}

/// What the good line at the end of a bad one says was durable. If a line break is damaged, the
/// next line hangs on to the bad one, and must be heard all the same.
fn synced_within(line: &[u8]) -> Option<u64> {
    let starts = line
        .windows(9)
        .enumerate()
        .filter(|(_, window)| window[8] == b' ' && window[..8].iter().all(u8::is_ascii_hexdigit));
    starts.take(STARTS_MAX).find_map(|(at, _)| read_line(&line[at..])).map(|(synced, _)| synced)
}
