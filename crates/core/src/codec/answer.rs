//! Answers and events as bytes. Snapshots carry them: answers in the callers' windows, events in
//! the history. The numbers of the variants are never reused, like those of the commands.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::error::Malformed;
use super::reader::Reader;
use super::wire::{Wire, wire_enum, wire_struct};
use super::writer::Writer;
use crate::event::{Cause, Ended, Event, EventKind, Holding, KeyValue};
use crate::ids::{
    ClientId, Epoch, Key, LeaseId, LockName, LogTime, Millis, Revision, Seq, Token, Value,
};
use crate::outcome::{
    Denial, Grant, GrantMany, Granted, OpAnswer, Outcome, Place, Reason, RenewResult, Renewed,
    TxnAnswer,
};
use crate::range::RangeAnswer;

wire_struct!(KeyValue {
    key: Key,
    value: Value,
    create_revision: Revision,
    mod_revision: Revision,
    version: u64,
    lease: LeaseId,
});

wire_struct!(Event {
    revision: Revision,
    sub: u32,
    kind: EventKind
});

wire_enum!(EventKind {
    0 => Put { kv: KeyValue, prev: Option<Box<KeyValue>> },
    1 => Deleted { prev: Box<KeyValue>, ended: Option<Ended> },
    2 => Granted(holding: Holding),
    3 => Lost(holding: Holding),
    4 => ForceAsked { holding: Holding, until: LogTime, reason: ClientId },
    5 => OverBudget(holding: Holding),
});

wire_struct!(Holding {
    key: Key,
    token: Token,
    lease: LeaseId,
    client: ClientId
});

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
});

wire_struct!(Granted {
    id: LeaseId,
    ttl: Millis,
    epoch: Epoch
});

wire_struct!(Renewed {
    id: LeaseId,
    number: u64,
    result: RenewResult
});

wire_enum!(RenewResult {
    0 => Alive { ttl: Millis, changes: u64 },
    1 => Gone,
    2 => HeldTooLong,
});

wire_struct!(Grant {
    key: Key,
    token: Token,
    lease: LeaseId,
    remaining: Millis
});

wire_struct!(GrantMany { keys: Vec<Key>, token: Token, lease: LeaseId, remaining: Millis });

wire_struct!(Place {
    key: Key,
    predecessor: Key,
    position: u64
});

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
});
