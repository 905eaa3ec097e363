//! The contents of a store, their marks, and the lines of its file.
//!
//! The last line of a key counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::backend::FencedWriteError;
use super::record::Record;
use crate::rule::Repeats;
use crate::store::{DATA_BYTES_MAX, KEYS_MAX};
use crate::token::Presented;

/// All keys, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Book {
    entries: BTreeMap<Arc<str>, Arc<Record>>,
    /// Bytes of keys, names and data.
    bytes: usize,
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
    ) -> Result<Record, FencedWriteError> {
        let old = self.entries.get(key);
        let record =
            Record::after_write(old.map(Arc::as_ref), client_id, presented, data, repeats)?;
        let bytes = self.bytes - old.map_or(0, |old| old.size(key)) + record.size(key);
        let is_full = bytes > DATA_BYTES_MAX || (old.is_none() && self.entries.len() >= KEYS_MAX);
        match is_full {
            true => Err(FencedWriteError::Full(format!(
                "the store is full ({KEYS_MAX} keys or {DATA_BYTES_MAX} bytes): use another one"
            ))),
            false => Ok(record),
        }
    }

    /// Takes over what was decided, or what a line says.
    pub(super) fn put(&mut self, key: Arc<str>, record: Arc<Record>) {
        self.bytes += record.size(&key);
        if let Some(old) = self.entries.get(&key) {
            self.bytes -= old.size(&key);
        }
        self.entries.insert(key, record);
    }

    /// Reads a line of the file.
    pub(super) fn replay(&mut self, line: &str) -> Result<(), String> {
        let (key, record) = Record::parse(line)?;
        self.put(key.into(), Arc::new(record));
        Ok(())
    }

    /// One key.
    pub(super) fn get(&self, key: &str) -> Option<Arc<Record>> {
        self.entries.get(key).cloned()
    }

    /// Keys after this one, in order.
    pub(super) fn after<'a>(
        &'a self,
        key: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Record>)> {
        use std::ops::Bound::{Excluded, Unbounded};
        // No key is empty, so nothing is left out before the first one.
        self.entries.range::<str, _>((Excluded(key), Unbounded))
    }

    /// The lines that say everything in here.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.entries.iter().map(|(key, record)| record.to_line(key))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;

    fn write(
        book: &mut Book,
        key: &str,
        presented: Presented,
        data: &str,
    ) -> Result<(), FencedWriteError> {
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

    // Requirements: S0-075.
    #[test]
    fn an_equal_token_with_the_same_data_is_a_retry() {
        let mut book = Book::default();
        let mut write = |number, data: &str| {
            let presented = Presented::exclusive(token(number));
            let (client, data) = ("c".to_owned(), data.to_owned());
            let entry = book.decide("k", client, presented, data, Repeats::SameData)?;
            book.put("k".into(), Arc::new(entry));
            Ok::<_, FencedWriteError>(())
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
