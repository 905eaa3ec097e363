//! Why a request has failed, in etcd's words. Its clients compare code and text.

use tonic::{Code, Status};

use crate::error::{Failure, Wrong};

/// A member without a leader. Whoever hears this asks another member.
pub(super) fn no_leader() -> Status {
    Status::unavailable("etcdserver: no leader")
}

/// A stream without watches or renewals for too long.
pub(super) fn idle() -> Status {
    status(&Failure::from(Wrong::Idle))
}

/// The code and the text that etcd has for a failure; nothing, if etcd knows no such failure.
fn known(code: &str) -> Option<(Code, &'static str)> {
    use Code::*;
    Some(match code {
        "lease_not_found" | "lease_epoch_stale" => {
            (NotFound, "etcdserver: requested lease not found")
        }
        "lease_exists" => (FailedPrecondition, "etcdserver: lease already exists"),
        "ttl_too_long" => (OutOfRange, "etcdserver: too large lease TTL"),
        "compacted" => (OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
        "revision_future" => {
            (OutOfRange, "etcdserver: mvcc: required revision is a future revision")
        }
        "key_empty" => (InvalidArgument, "etcdserver: key is not provided"),
        "key_not_found" => (InvalidArgument, "etcdserver: key not found"),
        "value_given" => (InvalidArgument, "etcdserver: value is provided"),
        "lease_given" => (InvalidArgument, "etcdserver: lease is provided"),
        "key_repeated" => (InvalidArgument, "etcdserver: duplicate key given in txn request"),
        "too_many_ops" => (InvalidArgument, "etcdserver: too many operations in txn request"),
        "no_space" | "disk_full" => {
            (ResourceExhausted, "etcdserver: mvcc: database space exceeded")
        }
        "value_too_large" => (InvalidArgument, "etcdserver: request is too large"),
        "member_unknown" => (NotFound, "etcdserver: member not found"),
        "member_behind" => (
            FailedPrecondition,
            "etcdserver: can only promote a learner member which is in sync with leader",
        ),
        "quorum_at_risk" | "last_voter" => (
            FailedPrecondition,
            "etcdserver: re-configuration failed due to not enough started members",
        ),
        "member_unreachable" => (FailedPrecondition, "etcdserver: bad leader transferee"),
        // Clients give up on a stream by any other code than this one.
        "no_leader" | "not_leader" => (Unavailable, "etcdserver: no leader"),
        "indeterminate" => (Unavailable, "etcdserver: request timed out"),
        "overloaded" => (Unavailable, "etcdserver: too many requests"),
        "shutting_down" => (Unavailable, "etcdserver: server stopped"),
        "handing_over" | "change_pending" => (Unavailable, "etcdserver: leader changed"),
        _ => return None,
    })
}

/// A failure as etcd's clients know it.
pub(super) fn status(failure: &Failure) -> Status {
    match known(failure.code) {
        Some((code, text)) => Status::new(code, text),
        None => {
            Status::new(failure.grpc, format!("fencepost: {}: {}", failure.code, failure.message))
        }
    }
}

/// A failure of a recipe that the server follows for its client: it comes without its code.
pub(super) fn of_recipe(failure: &Failure) -> Status {
    let status = status(failure);
    match status.code() {
        Code::NotFound => Status::unknown(status.message()),
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::{LeaseId, Reason, Revision};
    use fencepost_node::io::ProposeError;

    use super::*;

    #[test]
    fn failures_have_etcds_codes_and_texts() {
        let cases: [(Failure, Code, &str); 4] = [
            (
                Reason::LeaseNotFound(LeaseId(7)).into(),
                Code::NotFound,
                "etcdserver: requested lease not found",
            ),
            (
                Reason::Compacted(Revision(5)).into(),
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
            ),
            (Reason::KeyEmpty.into(), Code::InvalidArgument, "etcdserver: key is not provided"),
            (ProposeError::NoLeader.into(), Code::Unavailable, "etcdserver: no leader"),
        ];
        for (failure, code, text) in cases {
            let status = status(&failure);
            assert_eq!((status.code(), status.message()), (code, text));
        }
        let lost = of_recipe(&Reason::LeaseNotFound(LeaseId(7)).into());
        assert_eq!(lost.code(), Code::Unknown);
    }
}
