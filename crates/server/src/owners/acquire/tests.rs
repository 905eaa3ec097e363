//! What happens between the answer and the registration.

use std::future::pending;
use std::pin::pin;

use super::*;
use crate::test_house::{TestHouse, acquire_as, is_pending, place, soon};

/// An acquire that was answered with a place in the queue, and is not registered yet.
async fn answered(test: &TestHouse) -> (Call, Key, Revision) {
    let call = Call::new(&test.house, acquire_as("second", Wait::WhileLeased));
    let Ok(reply) = call.propose(&mut pending()).await else { panic!("the node leads") };
    (call, place(&reply).key, reply.revision)
}

// Requirements: S2-013, S2-014.
#[tokio::test(flavor = "multi_thread")]
async fn grant_before_the_registration_is_not_missed() {
    let test = TestHouse::with_a_held_lock().await;
    let (call, key, since) = answered(&test).await;
    let verdict = test.release("first", &key, since).await;
    assert!(matches!(verdict, Verdict::Granted { .. }), "{verdict:?}");
    let End { told, left } = soon(call.wait(key.clone(), since, pending())).await;
    let Ok((_, Told::Acquired(grant))) = told else { panic!("it holds: {told:?}") };
    assert_eq!((grant.key, left), (key, Left::Hold(grant.lease)));
}

// Requirements: S2-013.
#[tokio::test(flavor = "multi_thread")]
async fn end_before_the_registration_is_not_missed() {
    let test = TestHouse::with_a_held_lock().await;
    let (call, key, since) = answered(&test).await;
    let verdict = test.release("second", &key, since).await;
    assert!(matches!(verdict, Verdict::Ended(_)), "{verdict:?}");
    let End { told, .. } = soon(call.wait(key, since, pending())).await;
    assert_eq!(told, Err(Wrong::WaitEnded(None).into()));
}

/// A look before the registration would miss what happens between them.
// Requirements: S2-013, S2-014.
#[tokio::test(flavor = "multi_thread")]
async fn call_is_registered_before_it_looks_at_the_state() {
    let test = TestHouse::with_a_held_lock().await;
    let (call, key, since) = answered(&test).await;
    let held = test.hold_the_loop().await;
    let mut waiting = pin!(call.wait(key.clone(), since, pending()));
    assert!(is_pending(waiting.as_mut()).await, "the state cannot be looked at");
    assert_eq!(test.house.pending().len(), 1, "it is not registered");
    drop(held);
    test.release("first", &key, since).await;
    let End { told, .. } = soon(waiting).await;
    assert!(matches!(told, Ok((_, Told::Acquired(_)))), "{told:?}");
}
