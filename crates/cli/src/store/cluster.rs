//! Records in the cluster's own key-value store.
//!
//! Guarantees: a write and the check that its token holds the lock are one transaction of the
//! cluster, so an old holder is refused also if the new one has not written yet, whichever store
//! processes they ask. A write is sent once; a repetition follows only a certain refusal.
//! Refuses: tokens that hold nothing, also higher ones than any that was granted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fencepost_client::{Client, Error, HeldPut, proto};
use fencepost_fence::store::{Backend, FencedWrite, FencedWriteError, Page, ReadError, Record};
use fencepost_fence::{Refusal, Repeats, Token};
use tokio::time::timeout;

use super::data_key::{self, DataKey};
use crate::lock_view;

/// How often a write is tried whose record another request of the same holder changed meanwhile.
const TRIES_MAX: usize = 16;
/// Longer answers are cut by the service anyway; keys of other programs are passed over.
const PAGE_LEN_MAX: usize = 1_000;

/// A cluster as a place for records.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) client: Client,
    pub(super) prefix: String,
    pub(super) repeats: Repeats,
    /// How long the looks before a write may take, and how long the write itself.
    pub(super) patience: Duration,
}

/// What is known before a write.
struct Before {
    lock: proto::Lock,
    record: Option<Record>,
    /// When the record was written; 0 if there is none.
    revision: i64,
}

impl Backend for Cluster {
    async fn write(&self, write: FencedWrite) -> Result<(), FencedWriteError> {
        let key = DataKey::of(&self.prefix, &write.key);
        let kv = self.client.kv();
        for _ in 0..TRIES_MAX {
            let Before { lock, record, revision } = self.look(&write, &key).await?;
            let holder = holder(&lock, record.as_ref(), &write)?;
            let record = Record::after_write(
                record.as_ref(),
                holder.client_id.clone(),
                write.presented,
                write.data.clone(),
                self.repeats,
            )?;
            let line = record.to_line(&write.key);
            let put = kv.put_held(key.as_text().to_owned(), line, revision, holder).await;
            match put.map_err(|error| write_error(&error))? {
                HeldPut::Written(_) => return Ok(()),
                HeldPut::NotHeld => return Err(not_held(&write)),
                HeldPut::Changed => {}
            }
        }
        Err(FencedWriteError::Overloaded)
    }

    async fn read(&self, key: &str) -> Result<Option<Arc<Record>>, ReadError> {
        let at = DataKey::of(&self.prefix, key);
        let found = self.client.kv().get(at.as_text()).await;
        let found = found.map_err(|error| read_error(&error))?;
        let Some(found) = found else { return Ok(None) };
        parse(key, &found).map(|record| Some(Arc::new(record))).map_err(ReadError::Foreign)
    }

    async fn page(&self, after: &str, limit: usize) -> Result<Page, ReadError> {
        let mut page = Page::default();
        let mut after = match after {
            "" => Bytes::new(),
            after => DataKey::of(&self.prefix, after).as_text().to_owned().into(),
        };
        loop {
            let left = (limit - page.records.len()).min(PAGE_LEN_MAX);
            let asked = u32::try_from(left).expect("it is at most a page");
            let found = self.client.kv().page(&self.prefix, after.clone(), asked).await;
            let found = found.map_err(|error| read_error(&error))?;
            for kv in &found.kvs {
                match data_key::name(&self.prefix, &kv.key).map(|name| (parse(&name, kv), name)) {
                    Some((Ok(record), name)) => page.records.push((name.into(), Arc::new(record))),
                    _ => tracing::warn!(key = %kv.key, "a key of another program was passed over"),
                }
            }
            page.more = found.more;
            match found.kvs.last() {
                Some(last) if found.more && page.records.is_empty() => after = raw_key(last),
                _ => return Ok(page),
            }
        }
    }
}

impl Cluster {
    async fn look(&self, write: &FencedWrite, key: &DataKey) -> Result<Before, FencedWriteError> {
        let kv = self.client.kv();
        let looks =
            async { tokio::try_join!(self.client.get_lock(&write.key), kv.get(key.as_text())) };
        let looked = timeout(self.patience, looks).await.map_err(|_| {
            FencedWriteError::Unavailable("the cluster did not answer in time".to_owned())
        })?;
        let (lock, found) = looked.map_err(|error| match error {
            // Nothing was sent that writes.
            Error::Indeterminate { message } => FencedWriteError::Unavailable(message),
            error => write_error(&error),
        })?;
        let revision = found.as_ref().map_or(0, |found| found.mod_revision);
        let record = found.map(|found| parse(&write.key, &found)).transpose();
        Ok(Before { lock, record: record.map_err(FencedWriteError::Foreign)?, revision })
    }
}

/// The holder that the token says it is of.
fn holder<'a>(
    lock: &'a proto::Lock,
    record: Option<&Record>,
    write: &FencedWrite,
) -> Result<&'a proto::Holder, FencedWriteError> {
    let token = write.presented.token;
    let is_meant = |holder: &&proto::Holder| number(holder) == Some(token);
    let Some(holder) = lock.holders.iter().find(is_meant) else {
        let holders = lock.holders.iter().filter_map(number);
        let seen = holders.chain(record.and_then(Record::highest)).max();
        return Err(match seen {
            Some(last) if token < last => Refusal::Stale { token, last }.into(),
            _ if lock.holders_total > lock.holders.len() as u64 => {
                let (listed, key) = (lock.holders.len(), &write.key);
                FencedWriteError::NotHeld(format!(
                    "Token {token} is none of the first {listed} holders of the lock {key:?}"
                ))
            }
            _ => not_held(write),
        });
    };
    let mode = lock_view::mode(lock.mode);
    if mode != write.presented.mode.name() {
        let asked = write.presented.mode;
        let why = format!("Token {token} is of mode {mode}, and not {asked}");
        return Err(FencedWriteError::NotHeld(why));
    }
    // Who names no client is recorded as the one that holds the lock.
    if !write.client_id.is_empty() && write.client_id != holder.client_id {
        let why = format!("Token {token} was not granted to the client {:?}", write.client_id);
        return Err(FencedWriteError::NotHeld(why));
    }
    Ok(holder)
}

/// A key as bytes: one that is no text stands in a field of its own.
fn raw_key(kv: &proto::KeyVal) -> Bytes {
    if kv.key.is_empty() { kv.raw_key.clone() } else { kv.key.clone().into() }
}

fn number(holder: &proto::Holder) -> Option<Token> {
    Token::new(u64::try_from(holder.fencing_token).ok()?)
}

fn not_held(write: &FencedWrite) -> FencedWriteError {
    let FencedWrite { key, presented, .. } = write;
    FencedWriteError::NotHeld(format!("Token {} does not hold the lock {key:?}", presented.token))
}

/// The record in a key, if a store wrote it for this name.
fn parse(name: &str, kv: &proto::KeyVal) -> Result<Record, String> {
    let foreign = |why: &str| format!("the key {:?} was not written by a store: {why}", kv.key);
    let line = str::from_utf8(&kv.value).map_err(|_| foreign("its value is not UTF-8"))?;
    let (named, record) = Record::parse(line).map_err(|why| foreign(&why))?;
    if named == name { Ok(record) } else { Err(foreign("it names another key")) }
}

fn write_error(error: &Error) -> FencedWriteError {
    match error {
        Error::Indeterminate { message } => FencedWriteError::Unknown(message.clone()),
        Error::Rejected { code, message, retryable } => match code.as_str() {
            "no_space" | "disk_full" | "resourceexhausted" => {
                FencedWriteError::Full(message.clone())
            }
            _ if *retryable => FencedWriteError::Unavailable(message.clone()),
            _ => FencedWriteError::Invalid(message.clone()),
        },
        error => FencedWriteError::Unavailable(error.to_string()),
    }
}

fn read_error(error: &Error) -> ReadError {
    match error {
        Error::Rejected { message, retryable: false, .. } => ReadError::Invalid(message.clone()),
        error => ReadError::Unavailable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirements: S1-002.
    #[test]
    fn a_write_without_an_answer_has_an_unknown_outcome() {
        let why = || "why".to_owned();
        let rejected = |code: &str, retryable| Error::Rejected {
            code: code.to_owned(),
            message: why(),
            retryable,
        };
        let cases = [
            (Error::Indeterminate { message: why() }, FencedWriteError::Unknown(why())),
            (rejected("resourceexhausted", true), FencedWriteError::Full(why())),
            (rejected("no_space", false), FencedWriteError::Full(why())),
            (rejected("overloaded", true), FencedWriteError::Unavailable(why())),
            (rejected("invalidargument", false), FencedWriteError::Invalid(why())),
        ];
        for (error, expected) in cases {
            assert_eq!(write_error(&error), expected);
        }
        let unavailable = Error::Unavailable { message: why() };
        assert!(matches!(write_error(&unavailable), FencedWriteError::Unavailable(_)));
    }
}
