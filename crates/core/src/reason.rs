//! Why a request cannot be served: one variant, one code and one sentence for each cause.

use alloc::string::String;
use core::fmt;

use crate::ids::{Epoch, LeaseId, LockName, LogTime, Millis, NodeId, Revision, Seq, Token};

/// Why a request cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The lock's name is empty.
    NameEmpty,
    /// The lock's name is too long: its length and the bound.
    NameTooLong(u64, u32),
    /// The key is empty.
    KeyEmpty,
    /// The key is too long: its length and the bound.
    KeyTooLong(u64, u32),
    /// The value is too large: its length and the bound.
    ValueTooLarge(u64, u32),
    /// The metadata is too large: its length and the bound.
    MetadataTooLarge(u64, u32),
    /// A client's name, address or reason is too long: its length and the bound.
    TextTooLong(u64, u32),
    /// The client's name is empty.
    ClientEmpty,
    /// The operator gave no reason.
    ReasonEmpty,
    /// The lease would be too short: what was asked for and the bound.
    TtlTooShort(Millis, Millis),
    /// The lease would be too long: what was asked for and the bound.
    TtlTooLong(Millis, Millis),
    /// A wait, delay, budget or grace is too long: what was asked for and the bound.
    SpanTooLong(Millis, Millis),
    /// The lease id is negative.
    LeaseIdInvalid(LeaseId),
    /// No such lease is alive.
    LeaseNotFound(LeaseId),
    /// The id was granted again since: the epoch that was sent and the present one.
    LeaseEpochStale(Epoch, Epoch),
    /// A lease with this id is alive.
    LeaseExists(LeaseId),
    /// The lease was made for one lock, by owner name, and serves no other.
    LeaseForOneLock(LeaseId),
    /// As many leases are alive as may be.
    LeasesFull(u32),
    /// As many clients are known as may be.
    ClientsFull(u32),
    /// More renewals in one command than may be.
    TooManyRenewals(u64, u32),
    /// A number must be at least one.
    SeqZero,
    /// The answer to this number was acknowledged and forgotten: the number and the oldest kept.
    SeqTooOld(Seq, Seq),
    /// Too many requests are open: the number and the first one beyond the window.
    SeqTooFar(Seq, Seq),
    /// The number was used for another request.
    SeqReused(Seq),
    /// The request is counted by somebody whose request it is not.
    CallerWrong,
    /// A semaphore needs between one and the bound of permits.
    PermitsInvalid(u32, u32),
    /// The lock's queue counts other permits: what was asked for and what stands there.
    PermitsConflict(u32, u32),
    /// The caller stands in this queue in another mode.
    ModeConflict,
    /// The lock's queue is as long as may be.
    QueueFull(u32),
    /// The lease stands in this lock's queue already.
    AlreadyQueued(LockName),
    /// A key that is no contender stands where the caller's would.
    PlaceTaken(LockName),
    /// No lock was named.
    NamesEmpty,
    /// More locks at once than may be.
    TooManyNames(u64, u32),
    /// The same lock twice in one request.
    NameRepeated(LockName),
    /// A wait without end must be bound to a call.
    WaitUnbound,
    /// The caller does not hold the lock with this token.
    NotHolder,
    /// The lock is held with another token.
    TokenMismatch(Token, Token),
    /// The lock was held for so long that its lease is not renewed any more.
    HeldTooLong,
    /// The lock is held or waited for.
    LockInUse,
    /// As many single tokens are fenced off for this lock as may be.
    FloorFull(u32),
    /// No key there to take the value or the lease from.
    KeyNotFound,
    /// A value was given although the present one should be kept.
    ValueGiven,
    /// A lease was given although the present one should be kept.
    LeaseGiven,
    /// The same key would be written twice in one transaction.
    KeyRepeated,
    /// More operations in one list of a transaction than may be.
    TooManyOps(u64, u32),
    /// The command would visit more keys than may be.
    TooManyKeys(u64),
    /// The command would answer, replace or remove more bytes than may be.
    TooManyBytes(u64),
    /// The state takes as many bytes as its quota allows.
    NoSpace(u64),
    /// The client has as many leases as one client may have.
    ClientLeasesFull(u32),
    /// As many clients came from the address as may be.
    AddressClientsFull(u32),
    /// As many keys are attached to the lease as may be.
    LeaseKeysFull(u32),
    /// Transactions nested deeper than may be.
    TxnTooDeep(u32),
    /// History before this revision is gone.
    Compacted(Revision),
    /// The revision lies in the future.
    RevisionFuture(Revision),
    /// The actor may not do this.
    Forbidden,
    /// There is no such namespace.
    NamespaceUnknown,
    /// After a restore, no lease is granted until this moment.
    Recovering(LogTime),
    /// The limits contradict each other.
    LimitsUnsound,
    /// The feature level can only be raised, and not beyond what this build knows.
    FeatureLevelInvalid(u32, u32),
    /// The text is no lock command.
    InvalidCommand(String),
    /// No such signing key is known, or the member has none.
    SigningKeyUnknown,
    /// The signing key was retired or revoked, and is never used again.
    SigningKeySpent,
    /// The signing key belongs to this member.
    SigningKeyTaken(NodeId),
    /// As many signing keys are remembered as may be.
    SigningKeysFull(u32),
    /// The key would block this lock, which is held or waited for. From feature level 2 on.
    KeyBlocksLock(LockName),
}

impl Reason {
    /// A stable name for machines, the same at every door.
    pub fn code(&self) -> &'static str {
        match self {
            Reason::NameEmpty => "name_empty",
            Reason::NameTooLong(..) => "name_too_long",
            Reason::KeyEmpty => "key_empty",
            Reason::KeyTooLong(..) => "key_too_long",
            Reason::ValueTooLarge(..) => "value_too_large",
            Reason::MetadataTooLarge(..) => "metadata_too_large",
            Reason::TextTooLong(..) => "text_too_long",
            Reason::ClientEmpty => "client_empty",
            Reason::ReasonEmpty => "reason_empty",
            Reason::TtlTooShort(..) => "ttl_too_short",
            Reason::TtlTooLong(..) => "ttl_too_long",
            Reason::SpanTooLong(..) => "span_too_long",
            Reason::LeaseIdInvalid(_) => "lease_id_invalid",
            Reason::LeaseNotFound(_) => "lease_not_found",
            Reason::LeaseEpochStale(..) => "lease_epoch_stale",
            Reason::LeaseExists(_) => "lease_exists",
            Reason::LeaseForOneLock(_) => "lease_for_one_lock",
            Reason::LeasesFull(_) => "leases_full",
            Reason::ClientsFull(_) => "clients_full",
            Reason::TooManyRenewals(..) => "too_many_renewals",
            Reason::SeqZero => "seq_zero",
            Reason::SeqTooOld(..) => "seq_too_old",
            Reason::SeqTooFar(..) => "seq_too_far",
            Reason::SeqReused(_) => "seq_reused",
            Reason::CallerWrong => "caller_wrong",
            Reason::PermitsInvalid(..) => "permits_invalid",
            Reason::PermitsConflict(..) => "permits_conflict",
            Reason::ModeConflict => "mode_conflict",
            Reason::QueueFull(_) => "queue_full",
            Reason::AlreadyQueued(_) => "already_queued",
            Reason::PlaceTaken(_) => "place_taken",
            Reason::NamesEmpty => "names_empty",
            Reason::TooManyNames(..) => "too_many_names",
            Reason::NameRepeated(_) => "name_repeated",
            Reason::WaitUnbound => "wait_unbound",
            Reason::NotHolder => "not_holder",
            Reason::TokenMismatch(..) => "token_mismatch",
            Reason::HeldTooLong => "held_too_long",
            Reason::LockInUse => "lock_in_use",
            Reason::FloorFull(_) => "floor_full",
            Reason::KeyNotFound => "key_not_found",
            Reason::ValueGiven => "value_given",
            Reason::LeaseGiven => "lease_given",
            Reason::KeyRepeated => "key_repeated",
            Reason::TooManyOps(..) => "too_many_ops",
            Reason::TooManyKeys(_) => "too_many_keys",
            Reason::TooManyBytes(_) => "too_many_bytes",
            Reason::LeaseKeysFull(_) => "lease_keys_full",
            Reason::NoSpace(_) => "no_space",
            Reason::ClientLeasesFull(_) => "client_leases_full",
            Reason::AddressClientsFull(_) => "address_clients_full",
            Reason::TxnTooDeep(_) => "txn_too_deep",
            Reason::Compacted(_) => "compacted",
            Reason::RevisionFuture(_) => "revision_future",
            Reason::Forbidden => "forbidden",
            Reason::NamespaceUnknown => "namespace_unknown",
            Reason::Recovering(_) => "recovering",
            Reason::LimitsUnsound => "limits_unsound",
            Reason::FeatureLevelInvalid(..) => "feature_level_invalid",
            Reason::InvalidCommand(_) => "invalid_command",
            Reason::SigningKeyUnknown => "signing_key_unknown",
            Reason::SigningKeySpent => "signing_key_spent",
            Reason::SigningKeyTaken(_) => "signing_key_taken",
            Reason::SigningKeysFull(_) => "signing_keys_full",
            Reason::KeyBlocksLock(_) => "key_blocks_lock",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NameEmpty => f.write_str("the lock's name is empty"),
            Reason::NameTooLong(len, max) => {
                write!(f, "the lock's name has {len} bytes, at most {max} are allowed")
            }
            Reason::KeyEmpty => f.write_str("the key is empty"),
            Reason::KeyTooLong(len, max) => {
                write!(f, "the key has {len} bytes, at most {max} are allowed")
            }
            Reason::ValueTooLarge(len, max) => {
                write!(f, "the value has {len} bytes, at most {max} are allowed")
            }
            Reason::MetadataTooLarge(len, max) => {
                write!(f, "the metadata has {len} bytes, at most {max} are allowed")
            }
            Reason::TextTooLong(len, max) => {
                write!(f, "a name, address or reason has {len} bytes, at most {max} are allowed")
            }
            Reason::ClientEmpty => f.write_str("the client's name is empty"),
            Reason::ReasonEmpty => f.write_str("a forced release needs a reason"),
            Reason::TtlTooShort(ttl, min) => write!(f, "a TTL of {ttl} is below {min}"),
            Reason::TtlTooLong(ttl, max) => write!(f, "a TTL of {ttl} is above {max}"),
            Reason::SpanTooLong(span, max) => {
                write!(f, "a wait, delay, budget or grace of {span} is above {max}")
            }
            Reason::LeaseIdInvalid(id) => write!(f, "lease ids are positive, {} is not", id.0),
            Reason::LeaseNotFound(_) => f.write_str("lease not found"),
            Reason::LeaseEpochStale(sent, now) => {
                write!(f, "the lease was granted anew: epoch {} is over, it is {}", sent.0, now.0)
            }
            Reason::LeaseExists(id) => write!(f, "lease {:x} is alive already", id.0),
            Reason::LeaseForOneLock(id) => {
                write!(f, "lease {:x} was made for one lock and serves no other", id.0)
            }
            Reason::LeasesFull(max) => write!(f, "{max} leases are alive, no more are allowed"),
            Reason::ClientsFull(max) => write!(f, "{max} clients are known, no more are allowed"),
            Reason::TooManyRenewals(count, max) => {
                write!(f, "{count} renewals in one request, at most {max} are allowed")
            }
            Reason::SeqZero => f.write_str("request numbers begin at one"),
            Reason::SeqTooOld(seq, oldest) => {
                write!(f, "request {} was acknowledged, the oldest kept is {}", seq.0, oldest.0)
            }
            Reason::SeqTooFar(seq, end) => {
                write!(f, "request {} is beyond the window, which ends before {}", seq.0, end.0)
            }
            Reason::SeqReused(seq) => {
                write!(f, "request number {} was used for another request", seq.0)
            }
            Reason::CallerWrong => f.write_str("the request is counted by the wrong caller"),
            Reason::PermitsInvalid(n, max) => {
                write!(f, "{n} permits, between 1 and {max} are allowed")
            }
            Reason::PermitsConflict(asked, there) => {
                write!(f, "asked for one of {asked} permits, the lock counts {there}")
            }
            Reason::ModeConflict => f.write_str("the caller stands in this queue in another mode"),
            Reason::QueueFull(max) => write!(f, "{max} contenders stand in the queue, it is full"),
            Reason::AlreadyQueued(name) => {
                write!(f, "the lease stands in the queue of {name} already")
            }
            Reason::PlaceTaken(name) => {
                write!(f, "a foreign key stands at the caller's place in the queue of {name}")
            }
            Reason::NamesEmpty => f.write_str("no lock was named"),
            Reason::TooManyNames(count, max) => {
                write!(f, "{count} locks at once, at most {max} are allowed")
            }
            Reason::NameRepeated(name) => write!(f, "lock {name} was named twice"),
            Reason::WaitUnbound => f.write_str("a wait without a limit needs a call to live with"),
            Reason::NotHolder => f.write_str("not lock holder"),
            Reason::TokenMismatch(sent, now) => {
                write!(f, "the lock is held with token {}, not {}", now.0, sent.0)
            }
            Reason::HeldTooLong => f.write_str("held for too long, the lease runs out"),
            Reason::LockInUse => f.write_str("the lock is held or waited for"),
            Reason::FloorFull(max) => {
                write!(f, "{max} tokens of this lock are fenced off, no more are allowed")
            }
            Reason::KeyNotFound => f.write_str("key not found"),
            Reason::ValueGiven => f.write_str("a value was given although the old one is kept"),
            Reason::LeaseGiven => f.write_str("a lease was given although the old one is kept"),
            Reason::KeyRepeated => f.write_str("a key would be written twice in one transaction"),
            Reason::TooManyOps(count, max) => {
                write!(f, "{count} operations in a transaction, at most {max} are allowed")
            }
            Reason::TooManyKeys(max) => {
                write!(f, "the request would visit more than {max} keys")
            }
            Reason::TooManyBytes(max) => {
                write!(f, "the request would read, replace or remove more than {max} bytes")
            }
            Reason::LeaseKeysFull(max) => {
                write!(f, "{max} keys are attached to the lease, no more are allowed")
            }
            Reason::NoSpace(quota) => write!(f, "the quota of {quota} bytes is used up"),
            Reason::ClientLeasesFull(max) => {
                write!(f, "the client has {max} leases, no more are allowed")
            }
            Reason::AddressClientsFull(max) => {
                write!(f, "{max} clients came from this address, no more are allowed")
            }
            Reason::TxnTooDeep(max) => write!(f, "transactions nest at most {max} deep"),
            Reason::Compacted(oldest) => {
                write!(f, "history before revision {} is gone", oldest.0)
            }
            Reason::RevisionFuture(now) => {
                write!(f, "the revision lies in the future, it is {} now", now.0)
            }
            Reason::Forbidden => f.write_str("not allowed"),
            Reason::NamespaceUnknown => f.write_str("there is no such namespace"),
            Reason::Recovering(until) => {
                write!(f, "restored from a backup: no lease before {} ms of log time", until.0)
            }
            Reason::LimitsUnsound => f.write_str("the limits contradict each other"),
            Reason::FeatureLevelInvalid(asked, now) => {
                write!(f, "feature level {asked} cannot follow {now}")
            }
            Reason::InvalidCommand(text) => write!(f, "Invalid lock command: {text}"),
            Reason::SigningKeyUnknown => f.write_str("there is no such signing key"),
            Reason::SigningKeySpent => {
                f.write_str("the signing key was retired or revoked, and is never used again")
            }
            Reason::SigningKeyTaken(node) => {
                write!(f, "the signing key belongs to member {}", node.0)
            }
            Reason::SigningKeysFull(max) => {
                write!(f, "{max} signing keys are remembered, no more are allowed")
            }
            Reason::KeyBlocksLock(name) => {
                let name = String::from_utf8_lossy(name);
                write!(f, "this key would stand in the queue of lock {name} and block it")
            }
        }
    }
}
