//! The contents of a store, their marks, and the lines of its file.
//!
//! A line holds everything about one key after one write: its mark and its data. The last line of
//! a key counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::mark_text;
use crate::rule::{Mark, Refusal, Repeats};
use crate::store::{DATA_BYTES_MAX, KEYS_MAX};
use crate::token::{Mode, Presented, Token};

/// What is known about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    mark: Mark,
    /// Who wrote last.
    pub(super) client_id: String,
    pub(super) presented: Presented,
    pub(super) data: String,
}

/// All keys, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    entries: BTreeMap<Arc<str>, Arc<Entry>>,
    /// Bytes of keys, names and data.
    bytes: usize,
}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Denied {
    #[error(transparent)]
    Token(#[from] Refusal),
    #[error("the store is full ({KEYS_MAX} keys or {DATA_BYTES_MAX} bytes): use another one")]
    Full,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    mark: String,
    #[serde(rename = "clientID")]
    client_id: String,
    value: u64,
    mode: String,
    data: String,
}

impl Book {
    /// Decides about a write. Changes nothing.
    pub(super) fn decide(
        &self,
        key: &str,
        client_id: String,
        presented: Presented,
        data: String,
        repeats: Repeats,
    ) -> Result<Entry, Denied> {
        let old = self.entries.get(key);
        let mut mark = old.map(|entry| entry.mark.clone()).unwrap_or_default();
        let is_same = old.is_some_and(|old| old.presented == presented && old.data == data);
        mark.present_data(presented, repeats, is_same)?;
        let entry = Entry { mark, client_id, presented, data };
        let bytes = self.bytes - old.map_or(0, |old| size(key, old)) + size(key, &entry);
        let is_full = bytes > DATA_BYTES_MAX || (old.is_none() && self.entries.len() >= KEYS_MAX);
        if is_full { Err(Denied::Full) } else { Ok(entry) }
    }

    /// Takes over what was decided, or what a line says.
    pub(super) fn put(&mut self, key: Arc<str>, entry: Arc<Entry>) {
        self.bytes += size(&key, &entry);
        if let Some(old) = self.entries.get(&key) {
            self.bytes -= size(&key, old);
        }
        self.entries.insert(key, entry);
    }

    /// Reads a line of the file.
    pub(super) fn replay(&mut self, line: &str) -> Result<(), String> {
        let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let mark = mark_text::read(&line.mark).ok_or("this is no mark")?;
        let token = Token::try_from(line.value).map_err(|error| error.to_string())?;
        let mode: Mode = line.mode.parse().map_err(|_| "this is no mode")?;
        let presented = Presented { token, mode };
        let entry = Entry { mark, client_id: line.client_id, presented, data: line.data };
        self.put(line.key.into(), Arc::new(entry));
        Ok(())
    }

    /// One key.
    pub(super) fn get(&self, key: &str) -> Option<Arc<Entry>> {
        self.entries.get(key).cloned()
    }

    /// Keys after this one, in order.
    pub(super) fn after<'a>(
        &'a self,
        key: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Entry>)> {
        use std::ops::Bound::{Excluded, Unbounded};
        // No key is empty, so nothing is left out before the first one.
        self.entries.range::<str, _>((Excluded(key), Unbounded))
    }

    /// The lines that say everything in here.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|(key, entry)| line(key, entry))
    }

    /// Bytes of keys, names and data.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// The line of one key.
pub(super) fn line(key: &str, entry: &Entry) -> String {
    let line = Line {
        key: key.to_owned(),
        mark: mark_text::write(&entry.mark),
        client_id: entry.client_id.clone(),
        value: entry.presented.token.get(),
        mode: entry.presented.mode.name().to_owned(),
        data: entry.data.clone(),
    };
    serde_json::to_string(&line).expect("texts and numbers can be written as JSON")
}

fn size(key: &str, entry: &Entry) -> usize {
    key.len() + entry.client_id.len() + entry.data.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(book: &mut Book, key: &str, presented: Presented, data: &str) -> Result<(), Denied> {
        let entry =
            book.decide(key, "c".to_owned(), presented, data.to_owned(), Repeats::Accepted)?;
        book.put(key.into(), Arc::new(entry));
        Ok(())
    }

    fn token(number: u64) -> Token {
        Token::new(number).unwrap()
    }

    #[test]
    fn a_shared_write_does_not_hide_the_mark() {
        let mut book = Book::default();
        write(&mut book, "k", Presented::exclusive(token(5)), "five").unwrap();
        write(&mut book, "k", Presented::shared(token(9)), "nine").unwrap();
        let mut again = Book::default();
        for line in book.lines() {
            again.replay(&line).unwrap();
        }
        let late = write(&mut again, "k", Presented::exclusive(token(4)), "late").unwrap_err();
        assert_eq!(late.to_string(), "Token 4 is stale, last seen was 5");
        write(&mut again, "k", Presented::exclusive(token(6)), "six").unwrap();
        assert_eq!(again.get("k").unwrap().data, "six");
    }

    #[test]
    fn an_equal_token_with_the_same_data_is_a_retry() {
        let mut book = Book::default();
        let mut write = |number, data: &str| {
            let presented = Presented::exclusive(token(number));
            let (client, data) = ("c".to_owned(), data.to_owned());
            let entry = book.decide("k", client, presented, data, Repeats::SameData)?;
            book.put("k".into(), Arc::new(entry));
            Ok::<_, Denied>(())
        };
        write(5, "five").unwrap();
        write(5, "five").unwrap();
        let other = write(5, "another five").unwrap_err();
        assert_eq!(other.to_string(), "Token 5 already used");
        write(6, "five").unwrap();
        assert_eq!(book.get("k").unwrap().data, "five");
    }

    #[test]
    fn lines_say_everything_and_bytes_are_counted() {
        let mut book = Book::default();
        for (key, data) in [("b", "line\nbreak"), ("a\n", "\u{1}\"\\\u{1F980}"), ("b", "")] {
            write(&mut book, key, Presented::exclusive(token(u64::MAX)), data).unwrap();
        }
        let mut again = Book::default();
        for line in book.lines() {
            assert!(!line.contains('\n'));
            again.replay(&line).unwrap();
        }
        assert_eq!(again.entries, book.entries);
        assert_eq!((again.bytes(), book.bytes()), (12, 12));
        assert_eq!(again.after("").count(), 2);
        assert_eq!(again.after("a\n").count(), 1);
    }

    #[test]
    fn rubbish_is_no_line() {
        for line in [
            "",
            "{}",
            "[]",
            r#"{"key":"k","mark":"x","clientID":"","value":1,"mode":"shared","data":""}"#,
        ] {
            assert!(Book::default().replay(line).is_err(), "{line}");
        }
    }
}
