//! The bugs that can be planted in the core, each with the shortest story that shows it. Told with
//! the bug, the story breaks an invariant; told without it, none.

use fencepost_core::command::{
    AcquireMany, Action, ForceRelease, LeaseRef, LeaseRevoke, Mode, Put, Wait,
};
use fencepost_core::{ClientId, Epoch, Key, LeaseId, Limits, LockName, Millis, Mutant, Token};

use crate::rig::{Rig, Told, breaks, token};

/// Tells a story twice.
#[track_caller]
fn caught(mutant: Mutant, invariant: &str, story: impl Fn(&mut Rig) -> Told) {
    if let Err(violation) = story(&mut Rig::new(None)) {
        panic!("without the bug: {}: {}", violation.invariant, violation.what);
    }
    breaks(invariant, story(&mut Rig::new(Some(mutant))));
}

#[test]
fn a_due_lease_does_not_serve() {
    caught(Mutant::DueLeaseServes, "I8", |rig| {
        let limits = Limits { due_per_entry_max: 1, ..Limits::default() };
        rig.run(0, Action::SetLimits(Box::new(limits)))?;
        rig.lease(1, 1_000)?;
        rig.lease(2, 1_000)?;
        // Both are due, and only one of them is ended before the command runs.
        rig.run(1_000, rig.want("a", 2)).map(drop)
    });
}

#[test]
fn a_dead_waiter_is_not_granted() {
    caught(Mutant::ExpiryKeepsWaiters, "I8", |rig| {
        rig.lease(1, 10_000)?;
        rig.lease(2, 1_000)?;
        let held = token(&rig.run(0, rig.want("a", 1))?);
        rig.run(0, rig.want("a", 2))?;
        rig.entry(1_000, vec![])?;
        rig.run(0, rig.release("a", 1, held)).map(drop)
    });
}

#[test]
fn tokens_do_not_begin_anew() {
    caught(Mutant::TokenPerKey, "I6", |rig| {
        rig.lease(1, 10_000)?;
        rig.run(0, rig.want("a", 1)).map(drop)
    });
}

#[test]
fn the_last_does_not_come_first() {
    caught(Mutant::LastComeFirstServed, "I7", |rig| {
        for lease in [1, 2, 3] {
            rig.lease(lease, 10_000)?;
        }
        let held = token(&rig.run(0, rig.want("a", 1))?);
        rig.run(0, rig.want("a", 2))?;
        rig.run(0, rig.want("a", 3))?;
        rig.run(0, rig.release("a", 1, held)).map(drop)
    });
}

#[test]
fn a_release_needs_its_token() {
    caught(Mutant::ReleaseIgnoresToken, "I17", |rig| {
        rig.lease(1, 10_000)?;
        let held = token(&rig.run(0, rig.want("a", 1))?);
        rig.run(0, rig.release("a", 1, held - 1)).map(drop)
    });
}

#[test]
fn a_repeat_does_not_act_again() {
    caught(Mutant::RepeatActsAgain, "I16", |rig| {
        rig.lease(1, 10_000)?;
        let acquire = Rig::numbered(1, 1, rig.want("a", 1));
        let held = token(&rig.run(0, acquire.clone())?);
        rig.run(0, Rig::numbered(1, 2, rig.release("a", 1, held)))?;
        rig.run(0, acquire).map(drop)
    });
}

#[test]
fn a_cancelled_acquire_is_dead() {
    caught(Mutant::CancelForgotten, "I16", |rig| {
        rig.lease(1, 10_000)?;
        rig.run(0, Rig::numbered(1, 2, rig.cancel(1, 1)))?;
        rig.run(0, Rig::numbered(1, 1, rig.want("a", 1))).map(drop)
    });
}

#[test]
fn a_put_moves_nobody_forward() {
    caught(Mutant::PutMovesForward, "I7", |rig| {
        rig.lease(1, 10_000)?;
        let put = |lease| Put { key: Key::from("a/1"), lease, ..Put::default() };
        rig.run(0, Action::Put(put(LeaseId::NONE)))?;
        rig.run(0, Action::Put(put(LeaseId(1)))).map(drop)
    });
}

#[test]
fn a_permit_does_not_overtake() {
    caught(Mutant::PermitOvertakes, "I7", |rig| {
        for lease in [1, 2, 3] {
            rig.lease(lease, 10_000)?;
        }
        rig.run(0, rig.acquire("a", 1, Mode::Permit(2), Wait::WhileLeased))?;
        rig.run(0, rig.want("a", 2))?;
        rig.run(0, rig.acquire("a", 3, Mode::Permit(2), Wait::WhileLeased)).map(drop)
    });
}

#[test]
fn an_exclusive_holder_is_alone() {
    caught(Mutant::SharedJoinsExclusive, "I5", |rig| {
        rig.lease(1, 10_000)?;
        rig.lease(2, 10_000)?;
        rig.run(0, rig.want("a", 1))?;
        rig.run(0, rig.acquire("a", 2, Mode::Shared, Wait::WhileLeased)).map(drop)
    });
}

#[test]
fn there_are_as_many_permits_as_there_are() {
    caught(Mutant::PermitTooMany, "I5", |rig| {
        for lease in [1, 2, 3] {
            rig.lease(lease, 10_000)?;
            rig.run(0, rig.acquire("a", lease, Mode::Permit(2), Wait::WhileLeased))?;
        }
        Ok(())
    });
}

#[test]
fn a_renewal_does_not_shorten() {
    caught(Mutant::RenewShortens, "I10", |rig| {
        rig.lease(1, 10_000)?;
        rig.run(100, rig.renew(rig.lease_ref(1), 1)).map(drop)
    });
}

#[test]
fn a_zombie_does_not_renew() {
    caught(Mutant::RenewIgnoresEpoch, "I13", |rig| {
        rig.lease(1, 1_000)?;
        let old = rig.lease_ref(1);
        rig.entry(1_000, vec![])?;
        rig.lease(1, 1_000)?;
        rig.run(0, rig.renew(old, 1)).map(drop)
    });
}

#[test]
fn a_try_leaves_nothing_behind() {
    caught(Mutant::TryStays, "I18", |rig| {
        rig.lease(1, 10_000)?;
        rig.lease(2, 10_000)?;
        rig.run(0, rig.want("a", 1))?;
        rig.run(0, rig.acquire("a", 2, Mode::Exclusive, Wait::Try)).map(drop)
    });
}

#[test]
fn a_lease_ends_at_one_revision() {
    caught(Mutant::RevisionPerKey, "I6", |rig| {
        rig.lease(1, 10_000)?;
        rig.run(0, rig.want("a", 1))?;
        rig.run(0, rig.want("b", 1))?;
        let lease = rig.lease_ref(1);
        rig.run(0, Action::LeaseRevoke(LeaseRevoke { lease })).map(drop)
    });
}

#[test]
fn log_time_does_not_go_back() {
    caught(Mutant::TimeRunsBack, "I10", |rig| {
        rig.entry(1_000, vec![])?;
        rig.stamped(500, vec![]).map(drop)
    });
}

#[test]
fn what_is_asked_for_together_is_granted_together() {
    caught(Mutant::GroupPiecemeal, "I5", |rig| {
        rig.lease(1, 10_000)?;
        rig.lease(2, 10_000)?;
        rig.run(0, rig.want("b", 1))?;
        let locks = ["b", "a"].map(|name| (LockName::from(name), Mode::Exclusive)).to_vec();
        let lease = rig.lease_ref(2);
        let many = AcquireMany { locks, lease, ..AcquireMany::default() };
        rig.run(0, Action::AcquireMany(many)).map(drop)
    });
}

#[test]
fn the_floor_covers_nobody_who_waits() {
    caught(Mutant::FloorTooHigh, "I15", |rig| {
        rig.lease(1, 10_000)?;
        rig.lease(2, 10_000)?;
        let held = token(&rig.run(0, rig.want("a", 1))?);
        rig.run(0, rig.want("a", 2))?;
        let force = ForceRelease {
            name: LockName::from("a"),
            token: Token(held),
            reason: ClientId::from("a test"),
            now: true,
        };
        rig.run(0, Action::ForceRelease(force)).map(drop)
    });
}

#[test]
fn a_wait_ends() {
    caught(Mutant::WaitNeverEnds, "I18", |rig| {
        rig.lease(1, 10_000)?;
        rig.lease(2, 10_000)?;
        rig.run(0, rig.want("a", 1))?;
        rig.run(0, rig.acquire("a", 2, Mode::Exclusive, Wait::AtMost(Millis(50))))?;
        // Somebody touches the queue when the wait is over.
        rig.lease(3, 10_000)?;
        rig.run(50, rig.want("a", 3)).map(drop)
    });
}

#[test]
fn a_re_entry_keeps_its_place() {
    caught(Mutant::ReentryQueuesAgain, "I17", |rig| {
        rig.lease(1, 10_000)?;
        rig.run(0, rig.want("a", 1))?;
        rig.run(0, rig.want("a", 1)).map(drop)
    });
}

#[test]
fn an_epoch_that_is_meant_is_looked_at() {
    let mut rig = Rig::new(None);
    rig.lease(1, 10_000).expect("sound");
    let wrong = LeaseRef { id: LeaseId(1), epoch: Epoch(99) };
    rig.run(0, rig.renew(wrong, 1)).expect("refused, as it should be");
}
