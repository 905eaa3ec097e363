use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fencepost_core::{
    ClientId, Epoch, LeaseId, LockName, LogTime, Millis, NodeId, Revision, Seq, Token,
};

use super::*;

/// The source of the reasons, so that none can be left out below.
const REASONS: &str = include_str!("../../../core/src/reason.rs");

fn every_reason() -> Vec<Reason> {
    let (millis, name) = (Millis(1), || LockName::from("a"));
    vec![
        Reason::NameEmpty,
        Reason::NameTooLong(1, 1),
        Reason::KeyEmpty,
        Reason::KeyTooLong(1, 1),
        Reason::ValueTooLarge(1, 1),
        Reason::MetadataTooLarge(1, 1),
        Reason::TextTooLong(1, 1),
        Reason::ClientEmpty,
        Reason::ReasonEmpty,
        Reason::TtlTooShort(millis, millis),
        Reason::TtlTooLong(millis, millis),
        Reason::SpanTooLong(millis, millis),
        Reason::LeaseIdInvalid(LeaseId(1)),
        Reason::LeaseNotFound(LeaseId(1)),
        Reason::LeaseEpochStale(Epoch(1), Epoch(2)),
        Reason::LeaseExists(LeaseId(1)),
        Reason::LeaseForOneLock(LeaseId(1)),
        Reason::LeasesFull(1),
        Reason::ClientsFull(1),
        Reason::TooManyRenewals(1, 1),
        Reason::SeqZero,
        Reason::SeqTooOld(Seq(1), Seq(2)),
        Reason::SeqTooFar(Seq(1), Seq(2)),
        Reason::SeqReused(Seq(1)),
        Reason::CallerWrong,
        Reason::PermitsInvalid(1, 1),
        Reason::PermitsConflict(1, 1),
        Reason::ModeConflict,
        Reason::QueueFull(1),
        Reason::AlreadyQueued(name()),
        Reason::PlaceTaken(name()),
        Reason::NamesEmpty,
        Reason::TooManyNames(1, 1),
        Reason::NameRepeated(name()),
        Reason::WaitUnbound,
        Reason::NotHolder,
        Reason::TokenMismatch(Token(1), Token(2)),
        Reason::HeldTooLong,
        Reason::LockInUse,
        Reason::FloorFull(1),
        Reason::KeyNotFound,
        Reason::ValueGiven,
        Reason::LeaseGiven,
        Reason::KeyRepeated,
        Reason::TooManyOps(1, 1),
        Reason::TooManyKeys(1),
        Reason::TooManyBytes(1),
        Reason::LeaseKeysFull(1),
        Reason::NoSpace(1),
        Reason::ClientLeasesFull(1),
        Reason::AddressClientsFull(1),
        Reason::TxnTooDeep(1),
        Reason::Compacted(Revision(1)),
        Reason::RevisionFuture(Revision(1)),
        Reason::Forbidden,
        Reason::NamespaceUnknown,
        Reason::Recovering(LogTime(1)),
        Reason::LimitsUnsound,
        Reason::FeatureLevelInvalid(1, 2),
        Reason::InvalidCommand(String::new()),
        Reason::SigningKeyUnknown,
        Reason::SigningKeySpent,
        Reason::SigningKeyTaken(NodeId(1)),
        Reason::SigningKeysFull(1),
        Reason::KeyBlocksLock(name()),
    ]
}

fn every_failure() -> Vec<Failure> {
    let proposals = [
        ProposeError::NoLeader,
        ProposeError::Malformed,
        ProposeError::Overloaded,
        ProposeError::DiskFull,
        ProposeError::Indeterminate,
    ];
    let changes = [
        ChangeError::NotLeader { leader: None },
        ChangeError::Pending,
        ChangeError::UnknownMember(1),
        ChangeError::NameTaken(String::new()),
        ChangeError::WasRemoved(1),
        ChangeError::Malformed,
        ChangeError::NotCaughtUp { behind: 1 },
        ChangeError::LastVoter,
        ChangeError::QuorumAtRisk,
        ChangeError::HandingOver,
        ChangeError::Indeterminate,
    ];
    let denials =
        [Denial::Held(ClientId::default()), Denial::Delayed(LogTime(1)), Denial::NotOwner];
    let own = [
        Wrong::MemberUnreachable(1, Duration::from_secs(1)),
        Wrong::WaitEnded(None),
        Wrong::WaitEnded(Some(Cause::Deleted)),
        Wrong::Invalid("field", "is wrong"),
        Wrong::Empty,
        Wrong::HelloExpected,
        Wrong::HelloRepeated,
        Wrong::VersionUnsupported,
        Wrong::RequestIdInUse(1),
        Wrong::TooMuchOpen("requests", 1),
        Wrong::ShuttingDown,
        Wrong::SlowReader,
        Wrong::WatchUnknown(1),
        Wrong::WatchExists(1),
        Wrong::Unsigned,
        Wrong::NoBackup(String::new()),
        Wrong::PathUnknown(String::new()),
        Wrong::MethodUnknown(String::new()),
        Wrong::ContentType(String::new()),
        Wrong::TooLarge(1),
        Wrong::AnswerTooLarge(1),
        Wrong::Outrun,
        Wrong::Unreadable(String::new()),
        Wrong::Unfinished,
        Wrong::Late,
        Wrong::ClientUnknown(String::new()),
        Wrong::Idle,
        Wrong::HostUnknown(String::new()),
        Wrong::Unexpected,
        Wrong::NotJson(String::new()),
    ];
    let mut all: Vec<Failure> = every_reason().into_iter().map(Failure::from).collect();
    all.extend(proposals.map(Failure::from));
    all.extend(changes.map(Failure::from));
    all.extend(denials.map(Failure::from));
    all.extend(own.map(Failure::from));
    all
}

#[test]
fn every_reason_is_among_those_that_are_checked() {
    let codes: BTreeSet<_> = every_reason().iter().map(Reason::code).collect();
    assert_eq!(codes.len(), REASONS.matches("=> \"").count());
}

/// Codes of failures that a client finds out by itself.
const FOUND_BY_CLIENTS: [&str; 1] = ["cluster_set_back"];

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let mut pages = BTreeSet::new();
    for page in fs::read_dir(folder).expect("the folder is part of the project") {
        let path = page.expect("it can be listed").path();
        let code = path.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).expect("it can be read");
        assert!(text.starts_with(&format!("# `{code}`\n")), "{code}");
        for part in ["**Can it have had effect?**", "**What to do.**"] {
            assert!(text.contains(part), "{code}: {part}");
        }
        pages.insert(code);
    }
    let failures = every_failure();
    let codes = failures.iter().map(|failure| failure.code).chain(FOUND_BY_CLIENTS);
    assert_eq!(codes.map(str::to_owned).collect::<BTreeSet<_>>(), pages);
}

#[test]
fn only_an_unknown_outcome_is_called_so() {
    for failure in every_failure() {
        assert_eq!(failure.indeterminate, failure.code == "indeterminate", "{failure:?}");
        assert!(!failure.message.is_empty(), "{failure:?}");
        assert!((400..600).contains(&failure.http), "{failure:?}");
        assert_ne!(failure.grpc, Code::Ok, "{failure:?}");
    }
}

#[test]
fn a_status_carries_the_code() {
    let status = Status::from(Failure::from(ProposeError::Indeterminate));
    let info = status.get_details_error_info().expect("every status has one");
    assert_eq!((&*info.reason, &*info.domain), ("indeterminate", "fencepost"));
    assert_eq!(info.metadata["indeterminate"], "true");
}
