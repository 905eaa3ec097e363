//! Random commands that get in each other's way.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Caller, CallsAnswered, Cancel, CancelTarget, Compact,
    DeleteRange, Disconnect, ForceRelease, LeaseGrant, LeaseRenew, LeaseRevoke, Mode, NodeLost,
    Once, PublishKey, Put, Release, ReleaseAs, ReleaseHeld, Renewal, RevokeKey, RotateKey, Terms,
    Wait,
};
use fencepost_core::range::KeyRange;
use fencepost_core::{
    Action, Boot, CallId, ClientId, Command, Key, LeaseId, Limits, LockName, Millis, NodeId,
    PublicKey, Revision, Seq, Token,
};

use crate::examples::lease;
use crate::states::grant;

/// One step of a random history. What the numbers mean is in `random_action`.
pub(crate) type Dice = (u8, u8, u8, u16);

/// One of few calls, so that they meet.
fn call(a: u8, b: u8) -> CallId {
    CallId { node: NodeId(1), boot: Boot(u64::from(a & 1)), number: u64::from(b & 1) }
}

pub(crate) fn random_action((kind, a, b, c): Dice) -> Action {
    // Far from the ids that the state chooses itself.
    let id = 0x1 + i64::from(a % 4);
    let name = LockName::from(["a", "b", "a/1"][usize::from(b % 3)]);
    let key = Key::from(["x", "a/1", "a/2", "b/3", "a/1/4", "b/5"][usize::from(b % 6)]);
    let mode = [Mode::Exclusive, Mode::Shared, Mode::Permit(2)][usize::from(a / 4 % 3)];
    let wait =
        [Wait::WhileLeased, Wait::AtMost(Millis(c.into())), Wait::Try][usize::from(b / 6 % 3)];
    let span = |bit: u8| {
        if b >> bit & 1 == 1 { Millis(u64::from(c) + 1) } else { Millis::ZERO }
    };
    let terms = Terms {
        lock_delay: span(3),
        budget: span(4),
        hold_max: span(5),
        call: (b & 0x40 != 0).then(|| call(a, b)),
        ..Terms::default()
    };
    let client = ClientId::from(["ann", "ben"][usize::from(a & 1)]);
    let token = Token(u64::from(c) % 40);
    match kind {
        0..=4 => Action::LeaseGrant(LeaseGrant {
            client: if b & 1 == 0 { client } else { ClientId::default() },
            revoke_on_disconnect: (b & 2 == 0).then_some(Millis(700)),
            ..grant(id, 500 + u64::from(c), "")
        }),
        5..=12 => Action::Acquire(Acquire { name, lease: lease(id), mode, wait, terms }),
        13 | 14 => Action::AcquireMany(AcquireMany {
            locks: vec![(name, mode), (LockName::from("m"), Mode::Exclusive)],
            lease: lease(id),
            wait,
            terms,
        }),
        15 | 16 => Action::AcquireAs(AcquireAs { name, client, ttl: Millis(900), wait, terms }),
        17 if c & 1 == 0 => Action::ReleaseAs(ReleaseAs { name, client }),
        17 => Action::ReleaseHeld(ReleaseHeld { name, client, token }),
        18 => Action::Release(Release { name, lease: lease(id), token }),
        19 => Action::ForceRelease(ForceRelease { name, token, reason: "r".into(), now: b > 200 }),
        20 => Action::LeaseRevoke(LeaseRevoke { lease: lease(id) }),
        21 => Action::Disconnect(Disconnect { lease: lease(id), renewal: u64::from(b & 1) }),
        22 => Action::LeaseRenew(LeaseRenew {
            renewals: vec![Renewal { lease: lease(id), number: c.into() }],
        }),
        23 | 24 => Action::Put(Put {
            key,
            lease: if b & 0x80 == 0 { LeaseId(id) } else { LeaseId::NONE },
            ..Put::default()
        }),
        25 => Action::DeleteRange(DeleteRange { range: KeyRange::One(key), prev: true }),
        26 => Action::NodeLost(NodeLost { node: NodeId(1), boot: Boot(u64::from(b & 1)) }),
        27 => Action::Cancel(Cancel {
            lease: lease(id),
            target: match b & 0x40 {
                0 => CancelTarget::Seq(Seq(u64::from(b % 16))),
                _ => CancelTarget::Call(name, call(a, b)),
            },
        }),
        28 => Action::CallsAnswered(CallsAnswered { contenders: vec![(key, token, call(a, b))] }),
        29 => Action::Compact(Compact { revision: Revision(token.0) }),
        30 | 31 => Action::PublishKey(PublishKey {
            node: NodeId(u64::from(a % 2) + 1),
            key: PublicKey([b % 8; 32]),
            after: Millis(u64::from(c % 3) * 400),
        }),
        32 => Action::RotateKey(RotateKey { node: NodeId(u64::from(a % 2) + 1), after: span(0) }),
        33 => Action::RetireKeys(NodeId(u64::from(a % 2) + 1)),
        34 => Action::RevokeKey(RevokeKey { key: PublicKey([b % 8; 32]) }),
        _ => Action::SetLimits(Box::new(Limits {
            signing_keys_max: u32::from(a % 4) + 2,
            signing_key_kept: Millis(u64::from(b) + 1),
            due_per_entry_max: u32::from(a % 3) + 1,
            history_events_max: u32::from(b) + 1,
            ..Limits::default()
        })),
    }
}

/// Numbers every other request, so that windows fill.
pub(crate) fn random_command(dice: Dice, seq: u64) -> Command {
    let action = random_action(dice);
    let by = match &action {
        Action::LeaseGrant(grant) => Caller::Client(grant.client.clone()),
        Action::AcquireAs(acquire) => Caller::Client(acquire.client.clone()),
        Action::Acquire(acquire) => Caller::Lease(acquire.lease.id),
        Action::AcquireMany(acquire) => Caller::Lease(acquire.lease.id),
        Action::Cancel(cancel) => Caller::Lease(cancel.lease.id),
        _ => return Command::from(action),
    };
    let once = (dice.1 & 0x80 == 0).then_some(Once { by, seq: Seq(seq), ack_upto: Seq::NONE });
    Command { once, ..Command::from(action) }
}
