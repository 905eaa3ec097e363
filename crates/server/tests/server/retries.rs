//! Calls that are given up and tried again, also on another member.

use fencepost_proto::v1;

use crate::support::{
    Talk, acquire, acquired, get_lock, lease, lock_request, soon, unlock, until_waiters, world,
};

/// How many commands of the log a member has done.
const COMMANDS: &str = "fencepost_log_batch_commands_sum";

/// Looks at a lock often enough for a cancel that is on its way to arrive.
const LOOKS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_was_tried_again_elsewhere_keeps_its_place_and_its_hold() {
    let world = world(3).await;
    let (mut first, mut second) = (world.locks(0).await, world.locks(1).await);
    let (one, two) = (lease(&mut first, "one").await, lease(&mut first, "two").await);
    for gives_up_late in [false, true] {
        let token = acquired(&mut first, "a", one).await;
        let mut waits = first.clone();
        let given_up = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
        until_waiters(&mut first, "a", 1).await;
        let before = number(&world.servers[0], COMMANDS).await;
        let mut waits = second.clone();
        let retried = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
        // Both stand at one place, and the second one has it once its acquire is in the log: a call
        // that only waits at its door may come there after the cancel of the first.
        soon(async { while number(&world.servers[0], COMMANDS).await == before {} }).await;
        if !gives_up_late {
            given_up.abort();
            for _ in 0..LOOKS {
                assert_eq!(get_lock(&mut second, "a").await.waiters_total, 1);
            }
        }
        assert!(unlock(&mut first, "a", one, token).await);
        given_up.abort();
        let told = soon(retried).await.expect("it does not panic").expect("it is granted");
        let told = told.into_inner();
        assert!(told.acquired);
        for _ in 0..LOOKS {
            let lock = get_lock(&mut second, "a").await;
            assert_eq!((lock.holders.len(), lock.holders[0].lease_id), (1, two));
        }
        assert!(unlock(&mut second, "a", two, told.fencing_token).await);
    }
}

/// One of a member's numbers.
async fn number(server: &fencepost_server::Server, name: &str) -> u64 {
    let (_, text) = crate::port::get(server, "/metrics").await;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = line.expect("it is counted");
    number.trim_end_matches(".0").parse().expect("it is a whole number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_caller_is_gone_is_taken_back() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let grant = v1::LeaseGrantRequest { ttl: 3_600, ..Default::default() };
    let one = locks.lease_grant(grant.clone()).await.expect("it is granted").into_inner().id;
    let two = locks.lease_grant(grant).await.expect("it is granted").into_inner().id;
    // Whoever goes just when its grant comes may be granted, answered or neither. However it is, what
    // nobody was answered with does not stay: the leases live for an hour.
    // The moment between the grant and the answer is short: it may take a while to meet it.
    const ROUNDS_MIN: u64 = 50;
    const ROUNDS_MAX: u64 = 2_000;
    let server = &world.servers[0];
    let (mut answered, mut unheard) = (0, 0);
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS_MIN && unheard > 0 {
            break;
        }
        let token = acquired(&mut locks, "a", one).await;
        let mut waits = locks.clone();
        let waiting = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
        until_waiters(&mut locks, "a", 1).await;
        if round % 2 == 0 {
            // The grant is there, and is told only after the log knows that it will be.
            assert!(unlock(&mut locks, "a", one, token).await);
            waiting.abort();
        } else {
            waiting.abort();
            assert!(unlock(&mut locks, "a", one, token).await);
        }
        drop(waiting.await);
        soon(async {
            loop {
                let lock = get_lock(&mut locks, "a").await;
                if lock.holders.is_empty() && lock.waiters.is_empty() {
                    return;
                }
                // Besides the calls of this round's first holder, only those of the second count.
                let kind = "fencepost_door_requests_total{kind=\"lock\",code=\"ok\"}";
                if number(server, kind).await > round + 1 + answered {
                    answered += 1;
                    let token = get_lock(&mut locks, "a").await.holders[0].fencing_token;
                    assert!(unlock(&mut locks, "a", two, token).await);
                }
            }
        })
        .await;
        unheard = number(server, "fencepost_lock_grants_total").await - (round + 1) - answered;
    }
    assert!(unheard > 0, "no round met a grant that nobody was told of");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_joins_a_sessions_place_and_gives_up_leaves_it_alone() {
    let world = world(3).await;
    let (mut first, mut second) = (world.locks(0).await, world.locks(1).await);
    let one = lease(&mut first, "one").await;
    acquired(&mut first, "a", one).await;
    let mut talk = Talk::open(&mut first, "c").await;
    let waits = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a"], waits, -1)).await;
    assert_eq!(talk.acquired().await.1.position, 1);
    let told = second.lock(lock_request("a", waits.0, 50)).await.expect("it is answered");
    assert!(!told.into_inner().acquired);
    for _ in 0..LOOKS {
        assert_eq!(get_lock(&mut second, "a").await.waiters_total, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_was_told_of_survives_a_second_call_that_gives_up() {
    let world = world(3).await;
    let (mut first, mut second) = (world.locks(0).await, world.locks(1).await);
    let one = lease(&mut first, "one").await;
    let token = acquired(&mut first, "a", one).await;
    for _ in 0..40 {
        let mut again = second.clone();
        let again = tokio::spawn(async move { again.lock(lock_request("a", one, -1)).await });
        // Long enough for it to be on its way, and not for its answer to be in the log.
        get_lock(&mut second, "b").await;
        again.abort();
    }
    for _ in 0..LOOKS {
        let lock = get_lock(&mut second, "a").await;
        assert_eq!((lock.holders.len(), lock.holders[0].fencing_token), (1, token));
    }
}
