//! Answers and events as bytes. Snapshots carry them: answers in the callers' windows, events in
//! the history. Answers also travel between members. The numbers of the variants are never reused,
//! like those of the commands.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::{DecodeError, Malformed};
use super::reader::Reader;
use super::wire::{Wire, wire_enum, wire_struct};
use super::writer::Writer;
use crate::event::{Cause, Ended, Event, EventKind, Holding, KeyValue};
use crate::ids::{
    ClientId, Epoch, Key, LeaseId, LockName, LogTime, Millis, NodeId, Revision, Seq, Token, Value,
};
use crate::outcome::{
    DeletedPart, Denial, Grant, GrantMany, Granted, OpAnswer, Outcome, Place, Reason, RenewResult,
    Renewed, Reply, TxnAnswer,
};
use crate::range::RangeAnswer;

/// Appends an answer.
pub fn encode_reply(reply: &Reply, out: &mut Vec<u8>) {
    reply.put(&mut Writer::new(out));
}

/// Reads an answer. The bytes must hold it and nothing else.
///
/// # Errors
///
/// [`DecodeError::Malformed`].
pub fn decode_reply(bytes: &[u8]) -> Result<Reply, DecodeError> {
    let mut from = Reader::new(bytes);
    let reply = Reply::take(&mut from)?;
    from.finish()?;
    Ok(reply)
}

wire_struct!(Reply { revision: Revision, outcome: Outcome });

wire_struct!(KeyValue {
    key: Key,
    value: Value,
    create_revision: Revision,
    mod_revision: Revision,
    version: u64,
    lease: LeaseId,
});

/// Writes an event, as it stands in a snapshot.
pub(crate) fn put_event(event: &Event, out: &mut Vec<u8>) {
    event.put(&mut Writer::new(out));
}

/// Reads an event that [`put_event`] has written.
pub(crate) fn take_event(bytes: &[u8]) -> Event {
    Event::take(&mut Reader::new(bytes)).expect("it was written by this process")
}

wire_struct!(Event { revision: Revision, sub: u32, kind: EventKind });

wire_enum!(EventKind {
    0 => Put { kv: KeyValue, prev: Option<Box<KeyValue>> },
    1 => Deleted { prev: KeyValue, ended: Option<Ended> },
    2 => Granted(holding: Holding),
    3 => Lost(holding: Holding),
    4 => ForceAsked { holding: Holding, until: LogTime, reason: ClientId },
    5 => OverBudget(holding: Holding),
});

wire_struct!(Holding { key: Key, token: Token, lease: LeaseId, client: ClientId });

wire_struct!(Ended { cause: Cause, held: bool, holder: Option<Box<Holding>> });

wire_enum!(Cause {
    0 => Released,
    1 => Expired,
    2 => Revoked,
    3 => Forced,
    4 => Cancelled,
    5 => TimedOut,
    6 => Orphaned,
    7 => Incomplete,
    8 => Deleted,
});

wire_enum!(Outcome {
    0 => Done,
    1 => LeaseGranted(granted: Granted),
    2 => LeasesRenewed(renewed: Vec<Renewed>),
    3 => LeaseRevoked(keys: u64),
    4 => Put(prev: Option<Box<KeyValue>>),
    5 => Deleted(count: u64, prev: Vec<KeyValue>),
    6 => Txn(answer: Box<TxnAnswer>),
    7 => Acquired(grant: Grant),
    8 => Renewed(grant: Grant),
    9 => Queued(place: Box<Place>),
    10 => AcquiredMany(grant: Box<GrantMany>),
    11 => Reserved(place: Box<Place>),
    12 => Released,
    13 => ReleasePending(until: LogTime),
    14 => Ended(cause: Cause),
    15 => NotFound,
    16 => Denied(denial: Denial),
    17 => Rejected(reason: Reason),
    18 => DeletedPart(part: Box<DeletedPart>),
});

wire_struct!(DeletedPart { count: u64, removed: Vec<KeyValue>, next: Key });

wire_struct!(Granted { id: LeaseId, ttl: Millis, epoch: Epoch });

wire_struct!(Renewed { id: LeaseId, number: u64, result: RenewResult });

wire_enum!(RenewResult {
    0 => Alive { ttl: Millis, changes: u64 },
    1 => Gone,
    2 => HeldTooLong,
});

wire_struct!(Grant { key: Key, token: Token, lease: LeaseId, remaining: Millis });

wire_struct!(GrantMany { keys: Vec<Key>, token: Token, lease: LeaseId, remaining: Millis });

wire_struct!(Place { key: Key, predecessor: Key, position: u64, holder: ClientId });

impl Wire for TxnAnswer {
    /// As deep as transactions are applied, which is less deep than they are read.
    fn put(&self, to: &mut Writer<'_>) {
        self.succeeded.put(to);
        self.answers.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let read = from.nested(|from| {
            let succeeded = bool::take(from)?;
            let answers = Vec::take(from)?;
            Ok(TxnAnswer { succeeded, answers })
        });
        read.unwrap_or_else(|| Err(from.malformed("answers nested too deep")))
    }
}

wire_enum!(OpAnswer {
    0 => Put(prev: Option<Box<KeyValue>>),
    1 => Deleted(count: u64, prev: Vec<KeyValue>),
    2 => Range(answer: RangeAnswer),
    3 => Txn(answer: TxnAnswer),
});

wire_struct!(RangeAnswer { kvs: Vec<KeyValue>, more: bool, count: u64 });

wire_enum!(Denial {
    0 => Held(client: ClientId),
    1 => Delayed(until: LogTime),
    2 => NotOwner,
});

wire_enum!(Reason {
    0 => NameEmpty,
    1 => NameTooLong(len: u64, max: u32),
    2 => KeyEmpty,
    3 => KeyTooLong(len: u64, max: u32),
    4 => ValueTooLarge(len: u64, max: u32),
    5 => MetadataTooLarge(len: u64, max: u32),
    6 => TextTooLong(len: u64, max: u32),
    7 => ClientEmpty,
    8 => ReasonEmpty,
    9 => TtlTooShort(asked: Millis, min: Millis),
    10 => TtlTooLong(asked: Millis, max: Millis),
    11 => SpanTooLong(asked: Millis, max: Millis),
    12 => LeaseIdInvalid(lease: LeaseId),
    13 => LeaseNotFound(lease: LeaseId),
    14 => LeaseEpochStale(sent: Epoch, present: Epoch),
    15 => LeaseExists(lease: LeaseId),
    16 => LeasesFull(max: u32),
    17 => ClientsFull(max: u32),
    18 => TooManyRenewals(count: u64, max: u32),
    19 => SeqZero,
    20 => SeqTooOld(seq: Seq, oldest: Seq),
    21 => SeqTooFar(seq: Seq, end: Seq),
    22 => SeqReused(seq: Seq),
    23 => CallerWrong,
    24 => PermitsInvalid(asked: u32, max: u32),
    25 => PermitsConflict(asked: u32, present: u32),
    26 => ModeConflict,
    27 => QueueFull(max: u32),
    28 => AlreadyQueued(name: LockName),
    29 => PlaceTaken(name: LockName),
    30 => NamesEmpty,
    31 => TooManyNames(count: u64, max: u32),
    32 => NameRepeated(name: LockName),
    33 => WaitUnbound,
    34 => NotHolder,
    35 => TokenMismatch(sent: Token, present: Token),
    36 => HeldTooLong,
    37 => LockInUse,
    38 => FloorFull(max: u32),
    39 => KeyNotFound,
    40 => ValueGiven,
    41 => LeaseGiven,
    42 => KeyRepeated,
    43 => TooManyOps(count: u64, max: u32),
    44 => TxnTooDeep(max: u32),
    45 => Compacted(revision: Revision),
    46 => RevisionFuture(revision: Revision),
    47 => Forbidden,
    48 => NamespaceUnknown,
    49 => Recovering(until: LogTime),
    50 => LimitsUnsound,
    51 => FeatureLevelInvalid(asked: u32, present: u32),
    52 => InvalidCommand(text: String),
    53 => LeaseForOneLock(lease: LeaseId),
    54 => SigningKeyUnknown,
    55 => SigningKeySpent,
    56 => SigningKeyTaken(node: NodeId),
    57 => SigningKeysFull(max: u32),
    58 => TooManyKeys(max: u64),
    59 => TooManyBytes(max: u64),
    60 => LeaseKeysFull(max: u32),
    61 => NoSpace(quota: u64),
    62 => ClientLeasesFull(max: u32),
    63 => AddressClientsFull(max: u32),
    64 => KeyBlocksLock(name: LockName),
});

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn returns<T: Wire + PartialEq + core::fmt::Debug>(value: &T) -> u8 {
        let mut bytes = Vec::new();
        value.put(&mut Writer::new(&mut bytes));
        let mut from = Reader::new(&bytes);
        assert_eq!(T::take(&mut from).as_ref(), Ok(value));
        assert_eq!(from.finish(), Ok(()));
        bytes[0]
    }

    /// Every example returns, and every variant that can be read has one.
    fn all_return<T: Wire + PartialEq + core::fmt::Debug>(examples: &[T]) {
        let tags: Vec<u8> = examples.iter().map(returns).collect();
        for tag in 0..=u8::MAX {
            let read = T::take(&mut Reader::new(&[tag]));
            let unknown = read.is_err_and(|error| error.what.starts_with("unknown kind"));
            assert_eq!(tags.contains(&tag), !unknown, "variant {tag}");
        }
    }

    fn kv(key: &str) -> KeyValue {
        KeyValue {
            key: key.into(),
            value: "v".into(),
            create_revision: Revision(2),
            mod_revision: Revision(300),
            version: 4,
            lease: LeaseId(-5),
        }
    }

    fn holding() -> Holding {
        let (key, client) = ("n/1".into(), "me".into());
        Holding { key, token: Token(1 << 52), lease: LeaseId(1), client }
    }

    fn causes() -> [Cause; 9] {
        [
            Cause::Released,
            Cause::Expired,
            Cause::Revoked,
            Cause::Forced,
            Cause::Cancelled,
            Cause::TimedOut,
            Cause::Orphaned,
            Cause::Incomplete,
            Cause::Deleted,
        ]
    }

    #[test]
    fn every_event_returns() {
        all_return(&causes());
        let ended = Ended { cause: Cause::Forced, held: true, holder: Some(holding().into()) };
        let until = LogTime::NEVER;
        all_return(&[
            EventKind::Put { kv: kv("a"), prev: Some(kv("b").into()) },
            EventKind::Put { kv: kv("a"), prev: None },
            EventKind::Deleted { prev: kv("a"), ended: Some(ended) },
            EventKind::Deleted { prev: kv("a"), ended: None },
            EventKind::Granted(holding()),
            EventKind::Lost(holding()),
            EventKind::ForceAsked { holding: holding(), until, reason: "why".into() },
            EventKind::OverBudget(holding()),
        ]);
    }

    #[test]
    fn every_outcome_returns() {
        let (key, token, lease) = (Key::from("n/1"), Token(9), LeaseId(i64::MAX));
        let remaining = Millis(10);
        let grant = Grant { key: key.clone(), token, lease, remaining };
        let many = GrantMany { keys: vec![key.clone(), "m/1".into()], token, lease, remaining };
        let place = Place { key, predecessor: "n/2".into(), position: 3, holder: "c".into() };
        let results = [
            RenewResult::Alive { ttl: Millis(1), changes: 2 },
            RenewResult::Gone,
            RenewResult::HeldTooLong,
        ];
        all_return(&results);
        let renewed = results.map(|result| Renewed { id: lease, number: 7, result });
        let range = RangeAnswer { kvs: vec![kv("a")], more: true, count: 2 };
        let answers = vec![
            OpAnswer::Put(Some(kv("a").into())),
            OpAnswer::Deleted(1, vec![kv("b")]),
            OpAnswer::Range(range),
            OpAnswer::Txn(TxnAnswer::default()),
        ];
        all_return(&answers);
        let denials = [Denial::Held("me".into()), Denial::Delayed(LogTime(0)), Denial::NotOwner];
        all_return(&denials);
        let granted = Granted { id: lease, ttl: Millis(3), epoch: Epoch(4) };
        all_return(&[
            Outcome::Done,
            Outcome::LeaseGranted(granted),
            Outcome::LeasesRenewed(renewed.into()),
            Outcome::LeaseRevoked(2),
            Outcome::Put(Some(kv("a").into())),
            Outcome::Deleted(2, vec![kv("a"), kv("b")]),
            Outcome::DeletedPart(
                DeletedPart { count: 1, removed: vec![kv("a")], next: "b".into() }.into(),
            ),
            Outcome::Txn(TxnAnswer { succeeded: true, answers }.into()),
            Outcome::Acquired(grant.clone()),
            Outcome::Renewed(grant),
            Outcome::Queued(place.clone().into()),
            Outcome::AcquiredMany(many.into()),
            Outcome::Reserved(place.into()),
            Outcome::Released,
            Outcome::ReleasePending(LogTime(5)),
            Outcome::Ended(Cause::Orphaned),
            Outcome::NotFound,
            Outcome::Denied(Denial::NotOwner),
            Outcome::Rejected(Reason::Forbidden),
        ]);
    }

    #[test]
    fn every_reason_returns() {
        let lock = || LockName::from("n");
        all_return(&[
            Reason::NameEmpty,
            Reason::NameTooLong(1 << 40, 7),
            Reason::KeyEmpty,
            Reason::KeyTooLong(1 << 40, 7),
            Reason::ValueTooLarge(1 << 40, 7),
            Reason::MetadataTooLarge(1 << 40, 7),
            Reason::TextTooLong(1 << 40, 7),
            Reason::ClientEmpty,
            Reason::ReasonEmpty,
            Reason::TtlTooShort(Millis(8), Millis(108)),
            Reason::TtlTooLong(Millis(8), Millis(108)),
            Reason::SpanTooLong(Millis(8), Millis(108)),
            Reason::LeaseIdInvalid(LeaseId(-9)),
            Reason::LeaseNotFound(LeaseId(-9)),
            Reason::LeaseEpochStale(Epoch(10), Epoch(110)),
            Reason::LeaseExists(LeaseId(-9)),
            Reason::LeasesFull(7),
            Reason::ClientsFull(7),
            Reason::TooManyRenewals(1 << 40, 7),
            Reason::SeqZero,
            Reason::SeqTooOld(Seq(11), Seq(111)),
            Reason::SeqTooFar(Seq(11), Seq(111)),
            Reason::SeqReused(Seq(11)),
            Reason::CallerWrong,
            Reason::PermitsInvalid(7, 107),
            Reason::PermitsConflict(7, 107),
            Reason::ModeConflict,
            Reason::QueueFull(7),
            Reason::AlreadyQueued(lock()),
            Reason::PlaceTaken(lock()),
            Reason::NamesEmpty,
            Reason::TooManyNames(1 << 40, 7),
            Reason::NameRepeated(lock()),
            Reason::WaitUnbound,
            Reason::NotHolder,
            Reason::TokenMismatch(Token(12), Token(112)),
            Reason::HeldTooLong,
            Reason::LockInUse,
            Reason::FloorFull(7),
            Reason::KeyNotFound,
            Reason::ValueGiven,
            Reason::LeaseGiven,
            Reason::KeyRepeated,
            Reason::TooManyOps(1 << 40, 7),
            Reason::TxnTooDeep(7),
            Reason::Compacted(Revision(13)),
            Reason::RevisionFuture(Revision(13)),
            Reason::Forbidden,
            Reason::NamespaceUnknown,
            Reason::Recovering(LogTime(14)),
            Reason::LimitsUnsound,
            Reason::FeatureLevelInvalid(7, 107),
            Reason::InvalidCommand("?".into()),
            Reason::LeaseForOneLock(LeaseId(9)),
            Reason::SigningKeyUnknown,
            Reason::SigningKeySpent,
            Reason::SigningKeyTaken(NodeId(15)),
            Reason::SigningKeysFull(7),
            Reason::TooManyKeys(1 << 40),
            Reason::TooManyBytes(1 << 40),
            Reason::LeaseKeysFull(7),
            Reason::NoSpace(1 << 40),
            Reason::ClientLeasesFull(7),
            Reason::AddressClientsFull(7),
            Reason::KeyBlocksLock("a".into()),
        ]);
    }
}
