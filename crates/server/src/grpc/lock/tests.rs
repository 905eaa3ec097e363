//! What happens between the answer and the registration.

use std::pin::pin;

use fencepost_core::Millis;
use fencepost_core::command::{Acquire, LeaseGrant};

use super::*;
use crate::test_house::{TestHouse, acquire_as, is_pending, name, place, soon};

/// A call that is to wait, and the answer to its acquire, which it has not looked at yet.
async fn answered(test: &TestHouse, wanted: Wanted) -> (Call, Key, Reply) {
    let is_known = wanted.place().is_some();
    let call = Call::new(&test.house, wanted, false);
    let registered = test.house.pending().len();
    assert_eq!(registered, usize::from(is_known), "before anything is proposed");
    let command = Command::from(call.wanted.action());
    let reply = test.house.calls.propose_in_company(&command).await.expect("the node leads");
    let key = place(&reply).key;
    (call, key, reply)
}

/// How the call ends from there on.
async fn end(mut call: Call, key: &Key, reply: &Reply) -> End {
    let (_here, mut gone) = oneshot::channel();
    let seen = call.queued(key, reply).await.expect("the node runs");
    soon(call.wait(seen, None, &mut gone)).await
}

fn by_owner() -> Wanted {
    acquire_as("second", Wait::WhileLeased).into()
}

// Requirements: S2-013, S2-014.
#[tokio::test(flavor = "multi_thread")]
async fn grant_before_the_place_is_known_is_not_missed() {
    let test = TestHouse::with_a_held_lock().await;
    let (call, key, reply) = answered(&test, by_owner()).await;
    let verdict = test.release("first", &key, reply.revision).await;
    assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
    let End { told, left } = end(call, &key, &reply).await;
    let told = told.expect("it holds");
    assert_eq!((told.acquired, told.key, left), (true, show::text(&key), Left::Hold));
}

// Requirements: S2-013.
#[tokio::test(flavor = "multi_thread")]
async fn end_before_the_place_is_known_is_not_missed() {
    let test = TestHouse::with_a_held_lock().await;
    let (call, key, reply) = answered(&test, by_owner()).await;
    let verdict = test.release("second", &key, reply.revision).await;
    assert!(matches!(verdict, Verdict::Ended(_)), "{verdict:?}");
    let End { told, .. } = end(call, &key, &reply).await;
    assert_eq!(told, Err(Wrong::WaitEnded(None).into()));
}

/// A call under a lease knows its place beforehand, and nothing has to be looked up.
// Requirements: S2-013.
#[tokio::test(flavor = "multi_thread")]
async fn place_under_a_lease_is_registered_before_the_acquire() {
    let test = TestHouse::with_a_held_lock().await;
    let lease = LeaseGrant { id: LeaseId(7), ttl: Millis(60_000), ..LeaseGrant::default() };
    let granted = test.act(Action::LeaseGrant(lease)).await;
    assert!(matches!(granted, Outcome::LeaseGranted(_)), "{granted:?}");
    let lease = LeaseId(7).into();
    let acquire = Acquire { name: name(), lease, wait: Wait::WhileLeased, ..Acquire::default() };
    let (mut call, key, reply) = answered(&test, acquire.into()).await;
    test.release("first", &key, reply.revision).await;
    let seen = call.queued(&key, &reply).await.expect("the node runs");
    assert!(matches!(seen, Some(Verdict::Granted { .. })), "{seen:?}");
}

/// A look before the registration would miss what happens between them.
// Requirements: S2-013, S2-014.
#[tokio::test(flavor = "multi_thread")]
async fn place_is_registered_before_the_state_is_looked_at() {
    let test = TestHouse::with_a_held_lock().await;
    let (mut call, key, reply) = answered(&test, by_owner()).await;
    let held = test.hold_the_loop().await;
    {
        let mut queued = pin!(call.queued(&key, &reply));
        assert!(is_pending(queued.as_mut()).await, "the state cannot be looked at");
        assert_eq!(test.house.pending().len(), 1, "it is not registered");
        drop(held);
        let seen = soon(queued).await.expect("the node runs");
        assert_eq!(seen, None, "it waits");
    }
    test.release("first", &key, reply.revision).await;
    let (_here, mut gone) = oneshot::channel();
    let End { told, .. } = soon(call.wait(None, None, &mut gone)).await;
    assert!(told.is_ok_and(|told| told.acquired));
}
