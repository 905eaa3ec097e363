//! Why a request has failed: one table for every door.
//!
//! Owns: the stable code, the gRPC code, the HTTP status, and whether the request may have been
//! done all the same. Guarantees: every refusal of the state, of the node and of this crate passes
//! through one `match` here, and every code has a page in `docs/errors`. Refuses: to say "failed"
//! of what has an unknown outcome.

use std::time::Duration;

use fencepost_core::Reason;
use fencepost_core::event::Cause;
use fencepost_core::outcome::Denial;
use fencepost_node::io::{ChangeError, ProposeError};
use fencepost_proto::v1;
pub use pages::{Page, page};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// What the details of a gRPC status say they are about.
const DOMAIN: &str = "fencepost";

/// A request that has failed, as every door tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Stable, for programs. Has a page in `docs/errors`.
    pub code: &'static str,
    /// For people.
    pub message: String,
    /// As gRPC has it.
    pub grpc: Code,
    /// As HTTP has it.
    pub http: u16,
    /// Whether the request may have been done all the same.
    pub indeterminate: bool,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

/// Everything that can be wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wrong {
    /// The state refused it.
    Refused(Reason),
    /// The node could not have it done.
    Unproposed(ProposeError),
    /// The members stay as they are.
    Unchanged(ChangeError),
    /// The member does not answer, so leadership is not handed to it.
    MemberUnreachable(u64, Duration),
    /// Somebody else has it.
    Denied(Denial),
    /// A wait ended without a grant, or the grant was taken back. The cause, if it is known.
    WaitEnded(Option<Cause>),
    /// A field makes no sense. Which one, and why.
    Invalid(&'static str, &'static str),
    /// What was sent is no JSON object. Why.
    NotJson(String),
    /// What was sent has more bytes than may be.
    TooLarge(usize),
    /// The answer would have more bytes than may be.
    AnswerTooLarge(u64),
    /// Keys have changed faster than they could be read at one revision.
    Outrun,
    /// Nothing was asked for.
    Empty,
    /// A session begins with a greeting.
    HelloExpected,
    /// A session has one greeting.
    HelloRepeated,
    /// No version is spoken by both.
    VersionUnsupported,
    /// The number is one of a request that is still open.
    RequestIdInUse(u64),
    /// More requests, watches or bytes are open than may be.
    TooMuchOpen(&'static str, usize),
    /// The server is about to end.
    ShuttingDown,
    /// The client reads more slowly than answers come.
    SlowReader,
    /// There is no such watch, or there is one already.
    WatchUnknown(i64),
    /// There is a watch of this number already.
    WatchExists(i64),
    /// No client of this name is remembered.
    ClientUnknown(String),
    /// This member has no key to sign tokens with, or none that is published yet.
    Unsigned,
    /// No backup could be made.
    NoBackup(String),
    /// There is nothing at this path.
    PathUnknown(String),
    /// What is at this path is not asked for like this.
    MethodUnknown(String),
    /// The body is of another kind than what is understood.
    ContentType(String),
    /// A request that cannot be read. What is wrong with it.
    Unreadable(String),
    /// A request did not arrive whole in time.
    Unfinished,
    /// A request that names no token was read so long ago, or may have lain in its socket for so
    /// long, that its client may have had it done elsewhere.
    Late,
    /// A connection had nothing to do for too long.
    Idle,
    /// The host that a request names is none of this server's.
    HostUnknown(String),
    /// The answer is none that this request can have.
    Unexpected,
}

/// What kind of failure it is: the row of the table.
struct Row {
    code: &'static str,
    grpc: Code,
    http: u16,
    retryable: bool,
}

const fn row(code: &'static str, grpc: Code, http: u16) -> Row {
    Row { code, grpc, http, retryable: false }
}

const fn later(code: &'static str, grpc: Code, http: u16) -> Row {
    Row { code, grpc, http, retryable: true }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Failure {
        let row = wrong.row();
        let indeterminate = matches!(
            wrong,
            Wrong::Unproposed(ProposeError::Indeterminate)
                | Wrong::Unchanged(ChangeError::Indeterminate)
        );
        let Row { code, grpc, http, retryable } = row;
        Failure { code, message: wrong.message(), grpc, http, indeterminate, retryable }
    }
}

macro_rules! from {
    ($($source:ty => $variant:ident),* $(,)?) => {
        $(
            impl From<$source> for Failure {
                fn from(source: $source) -> Failure {
                    Failure::from(Wrong::$variant(source))
                }
            }
        )*
    };
}

from! { Reason => Refused, ProposeError => Unproposed, ChangeError => Unchanged, Denial => Denied }

impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        let flags = [("indeterminate", failure.indeterminate), ("retryable", failure.retryable)];
        let metadata = flags.map(|(name, value)| (name.to_owned(), value.to_string()));
        let details = ErrorDetails::with_error_info(failure.code, DOMAIN, metadata);
        Status::with_error_details(failure.grpc, failure.message, details)
    }
}

impl From<Failure> for v1::Failure {
    fn from(failure: Failure) -> v1::Failure {
        let Failure { code, message, indeterminate, retryable, .. } = failure;
        v1::Failure { code: code.to_owned(), message, indeterminate, retryable }
    }
}

impl Wrong {
    fn message(&self) -> String {
        match self {
            Wrong::Refused(reason) => reason.to_string(),
            Wrong::Unproposed(why) => why.to_string(),
            Wrong::Unchanged(why) => why.to_string(),
            Wrong::MemberUnreachable(id, silent) => {
                let seconds = silent.as_secs();
                format!("nothing was heard of member {id:016x} for {seconds} seconds")
            }
            Wrong::Denied(denial) => denial.to_string(),
            Wrong::WaitEnded(Some(cause)) => {
                format!("the wait ended without the lock: {}", crate::show::cause(*cause))
            }
            Wrong::WaitEnded(None) => "the wait ended without the lock".to_owned(),
            Wrong::Invalid(field, why) => format!("{field} {why}"),
            Wrong::NotJson(why) => format!("this is no request in JSON: {why}"),
            Wrong::TooLarge(max) => format!("a request has at most {max} bytes"),
            Wrong::AnswerTooLarge(max) => format!(
                "the answer would have more than {max} bytes: read it in pages, with a limit and \
                 the last key as the next start, or ask for keys or the count only"
            ),
            Wrong::Outrun => {
                "keys changed faster than they could be read: try again, or read fewer".to_owned()
            }
            Wrong::Empty => "the request asks for nothing".to_owned(),
            Wrong::HelloExpected => "a session begins with a hello".to_owned(),
            Wrong::HelloRepeated => "a session has only one hello".to_owned(),
            Wrong::VersionUnsupported => {
                "no version of the session protocol is spoken by both sides, this one speaks 1"
                    .to_owned()
            }
            Wrong::RequestIdInUse(id) => format!("request {id} is still open on this stream"),
            Wrong::TooMuchOpen(what, max) => format!("more than {max} {what} are open"),
            Wrong::ShuttingDown => "this server is shutting down, ask another one".to_owned(),
            Wrong::SlowReader => "answers were read too slowly".to_owned(),
            Wrong::WatchUnknown(id) => format!("there is no watch {id} on this stream"),
            Wrong::WatchExists(id) => format!("there is a watch {id} on this stream already"),
            Wrong::ClientUnknown(id) => format!("no client is remembered by the name {id}"),
            Wrong::Unsigned => "this member has no published key to sign tokens with".to_owned(),
            Wrong::NoBackup(why) => format!("no backup was made: {why}"),
            Wrong::PathUnknown(path) => format!("there is nothing at {path}"),
            Wrong::MethodUnknown(method) => format!("this path does not take {method}"),
            Wrong::ContentType(kind) if kind.is_empty() => {
                "the body must be application/json, and no content type was given".to_owned()
            }
            Wrong::ContentType(kind) => format!("the body must be application/json, not {kind}"),
            Wrong::Unreadable(why) => format!("the request cannot be read: {why}"),
            Wrong::Unfinished => "the message did not arrive in time".to_owned(),
            Wrong::Late => {
                "this member stood still, or had to wait: a release without a token is not done \
                 so late"
                    .to_owned()
            }
            Wrong::Idle => "the connection had no request, lease or watch for too long".to_owned(),
            Wrong::HostUnknown(host) => format!(
                "this server is not known as {host:?}: use its IP address, or start it with \
                 --allowed-hosts"
            ),
            Wrong::Unexpected => "the answer does not fit the request".to_owned(),
        }
    }

    /// The table.
    fn row(&self) -> Row {
        use Code::*;
        match self {
            Wrong::Refused(reason) => refused(reason),
            Wrong::Unproposed(ProposeError::NoLeader) => later("no_leader", Unavailable, 503),
            Wrong::Unproposed(ProposeError::Malformed) => row("malformed", InvalidArgument, 400),
            Wrong::Unproposed(ProposeError::Overloaded) => {
                later("overloaded", ResourceExhausted, 429)
            }
            Wrong::Unproposed(ProposeError::DiskFull) => later("disk_full", ResourceExhausted, 503),
            Wrong::Unproposed(ProposeError::Indeterminate)
            | Wrong::Unchanged(ChangeError::Indeterminate) => later("indeterminate", Unknown, 504),
            Wrong::Unchanged(why) => unchanged(why),
            Wrong::MemberUnreachable(..) => later("member_unreachable", FailedPrecondition, 409),
            Wrong::Denied(Denial::Held(_)) => later("lock_held", FailedPrecondition, 409),
            Wrong::Denied(Denial::Delayed(_)) => later("lock_delayed", FailedPrecondition, 409),
            Wrong::Denied(Denial::NotOwner) => row("not_owner", FailedPrecondition, 409),
            Wrong::WaitEnded(_) => row("wait_ended", Aborted, 409),
            Wrong::Invalid(..) => row("field_invalid", InvalidArgument, 400),
            Wrong::NotJson(_) => row("json_invalid", InvalidArgument, 400),
            Wrong::TooLarge(_) => row("request_too_large", InvalidArgument, 413),
            Wrong::AnswerTooLarge(_) => row("answer_too_large", ResourceExhausted, 413),
            Wrong::Empty => row("request_empty", InvalidArgument, 400),
            Wrong::HelloExpected => row("hello_expected", FailedPrecondition, 400),
            Wrong::HelloRepeated => row("hello_repeated", FailedPrecondition, 400),
            Wrong::VersionUnsupported => row("version_unsupported", FailedPrecondition, 400),
            Wrong::RequestIdInUse(_) => row("request_id_in_use", InvalidArgument, 409),
            Wrong::TooMuchOpen(..) | Wrong::Outrun => later("overloaded", ResourceExhausted, 429),
            Wrong::ShuttingDown => later("shutting_down", Unavailable, 503),
            Wrong::SlowReader => later("slow_reader", ResourceExhausted, 429),
            Wrong::WatchUnknown(_) => row("watch_unknown", NotFound, 404),
            Wrong::WatchExists(_) => row("watch_exists", AlreadyExists, 409),
            Wrong::ClientUnknown(_) => row("client_unknown", NotFound, 404),
            Wrong::Unsigned => later("signing_unavailable", Unavailable, 503),
            Wrong::NoBackup(_) => later("backup_failed", Internal, 500),
            Wrong::PathUnknown(_) => row("path_unknown", Unimplemented, 404),
            Wrong::MethodUnknown(_) => row("method_unknown", Unimplemented, 405),
            Wrong::ContentType(_) => row("content_type_wrong", InvalidArgument, 415),
            Wrong::Unreadable(_) => row("request_unreadable", InvalidArgument, 400),
            Wrong::Unfinished => later("request_unfinished", DeadlineExceeded, 408),
            Wrong::Late => later("request_late", Unavailable, 503),
            Wrong::Idle => later("connection_idle", Unavailable, 503),
            Wrong::HostUnknown(_) => row("host_not_allowed", PermissionDenied, 421),
            Wrong::Unexpected => row("internal", Internal, 500),
        }
    }
}

fn unchanged(why: &ChangeError) -> Row {
    use Code::*;
    match why {
        ChangeError::NotLeader { .. } => later("not_leader", Unavailable, 503),
        ChangeError::Pending => later("change_pending", Unavailable, 503),
        ChangeError::UnknownMember(_) => row("member_unknown", NotFound, 404),
        ChangeError::NameTaken(_) => row("member_name_taken", AlreadyExists, 409),
        ChangeError::WasRemoved(_) => row("member_removed", FailedPrecondition, 410),
        ChangeError::Malformed => row("member_malformed", InvalidArgument, 400),
        ChangeError::NotCaughtUp { .. } => later("member_behind", FailedPrecondition, 409),
        ChangeError::LastVoter => row("last_voter", FailedPrecondition, 409),
        ChangeError::QuorumAtRisk => later("quorum_at_risk", FailedPrecondition, 409),
        ChangeError::HandingOver => later("handing_over", Unavailable, 503),
        ChangeError::Indeterminate => later("indeterminate", Unknown, 504),
    }
}

fn refused(reason: &Reason) -> Row {
    use Code::*;
    let code = reason.code();
    match reason {
        Reason::NameEmpty
        | Reason::NameTooLong(..)
        | Reason::KeyEmpty
        | Reason::KeyTooLong(..)
        | Reason::TextTooLong(..)
        | Reason::ClientEmpty
        | Reason::ReasonEmpty
        | Reason::TtlTooShort(..)
        | Reason::TtlTooLong(..)
        | Reason::SpanTooLong(..)
        | Reason::LeaseIdInvalid(_)
        | Reason::TooManyRenewals(..)
        | Reason::SeqZero
        | Reason::SeqReused(_)
        | Reason::CallerWrong
        | Reason::PermitsInvalid(..)
        | Reason::NamesEmpty
        | Reason::TooManyNames(..)
        | Reason::NameRepeated(_)
        | Reason::WaitUnbound
        | Reason::ValueGiven
        | Reason::LeaseGiven
        | Reason::KeyRepeated
        | Reason::TooManyOps(..)
        | Reason::TooManyKeys(_)
        | Reason::TooManyBytes(_)
        | Reason::TxnTooDeep(_)
        | Reason::LimitsUnsound
        | Reason::InvalidCommand(_) => row(code, InvalidArgument, 400),
        Reason::ValueTooLarge(..) | Reason::MetadataTooLarge(..) => row(code, InvalidArgument, 413),
        Reason::LeaseNotFound(_)
        | Reason::KeyNotFound
        | Reason::NamespaceUnknown
        | Reason::SigningKeyUnknown => row(code, NotFound, 404),
        Reason::LeaseExists(_) => row(code, AlreadyExists, 409),
        Reason::LeaseEpochStale(..)
        | Reason::LeaseForOneLock(_)
        | Reason::SeqTooOld(..)
        | Reason::PermitsConflict(..)
        | Reason::ModeConflict
        | Reason::AlreadyQueued(_)
        | Reason::PlaceTaken(_)
        | Reason::NotHolder
        | Reason::TokenMismatch(..)
        | Reason::HeldTooLong
        | Reason::SigningKeySpent
        | Reason::SigningKeyTaken(_)
        | Reason::KeyBlocksLock(_)
        | Reason::FeatureLevelInvalid(..) => row(code, FailedPrecondition, 409),
        Reason::LockInUse => later(code, FailedPrecondition, 409),
        // They pass only if somebody removes something or raises a limit.
        Reason::LeaseKeysFull(_)
        | Reason::NoSpace(_)
        | Reason::ClientLeasesFull(_)
        | Reason::AddressClientsFull(_) => row(code, ResourceExhausted, 429),
        Reason::LeasesFull(_)
        | Reason::ClientsFull(_)
        | Reason::SeqTooFar(..)
        | Reason::QueueFull(_)
        | Reason::FloorFull(_)
        | Reason::SigningKeysFull(_) => later(code, ResourceExhausted, 429),
        Reason::Compacted(_) => row(code, OutOfRange, 410),
        Reason::RevisionFuture(_) => later(code, OutOfRange, 400),
        Reason::Forbidden => row(code, PermissionDenied, 403),
        Reason::Recovering(_) => later(code, Unavailable, 503),
    }
}

mod pages;
#[cfg(test)]
mod tests;
