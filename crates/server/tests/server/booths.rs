//! Sessions without HTTP/2 share threads that serve nobody else, and the turns of the node.

use std::collections::BTreeSet;

use fencepost_proto::v1;
use fencepost_proto::v1::session_acquired::State as Stage;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use crate::framed_support::{Framed, frame, ping};
use crate::support::{World, acquire, release, soon, until_waiters, world};

const ROUNDS: u64 = 100;
const TOGETHER: u64 = 16;

/// Everything is answered once.
async fn bring_many(talk: &mut Framed, round: u64) {
    let ids = 1_000 + round * TOGETHER..1_000 + (round + 1) * TOGETHER;
    let put = |id: u64| {
        let key = format!("k{id}");
        let put = v1::PutRequest { key, value: "v".into(), ..Default::default() };
        frame(id, None, Request::Put(put))
    };
    talk.put(&ids.clone().flat_map(put).collect::<Vec<u8>>()).await;
    let mut missing: BTreeSet<u64> = ids.collect();
    while !missing.is_empty() {
        let heard = talk.hear().await;
        assert!(matches!(heard.response, Some(Response::Put(_))), "{heard:?}");
        assert!(missing.remove(&heard.request_id), "each is answered once");
    }
}

/// A connection that has brought much, waits for a lock, and who holds that.
async fn crowded(world: &World) -> (Framed, Framed, (i64, u64), i64) {
    let mut locks = world.locks(0).await;
    let mut holder = Framed::open(&world.servers[0], "holder").await;
    let lease = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], lease, -1)).await;
    let (_, held) = holder.decided().await;
    let mut talk = Framed::open(&world.servers[0], "c").await;
    let theirs = talk.lease(2, 1, 1).await;
    talk.say(3, Some(1), acquire(&["a"], theirs, -1)).await;
    until_waiters(&mut locks, "a", 1).await;
    let queued = talk.hear().await;
    assert!(
        matches!(queued.response, Some(Response::Acquired(told)) if told.state() == Stage::Queued)
    );
    for round in 0..ROUNDS {
        soon(bring_many(&mut talk, round)).await;
    }
    (talk, holder, lease, held.fencing_token)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_open_before_is_answered_after() {
    let world = world(1).await;
    let (mut talk, mut holder, lease, token) = crowded(&world).await;
    holder.say(4, Some(2), release("a", lease, token)).await;
    let (id, told) = talk.decided().await;
    assert_eq!((id, told.state()), (3, Stage::Acquired));
    assert!(told.fencing_token > token);
    talk.put(&ping(4)).await;
    assert!(matches!(talk.hear().await.response, Some(Response::Pong(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_so_to_them_too() {
    let mut world = world(1).await;
    let (mut talk, _holder, ..) = crowded(&world).await;
    let stopping = tokio::spawn(world.servers.remove(0).stop());
    let failure = talk.last_words().await;
    assert_eq!((&*failure.code, failure.retryable), ("shutting_down", true));
    drop((talk, _holder));
    soon(stopping).await.expect("it does not panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leases_of_one_that_is_gone_are_given_up_as_it_wanted() {
    let world = world(1).await;
    let (talk, mut holder, lease, token) = crowded(&world).await;
    drop(talk);
    // Its place in the queue goes with its lease.
    until_waiters(&mut world.locks(0).await, "a", 0).await;
    holder.say(4, Some(2), release("a", lease, token)).await;
    let heard = holder.hear().await;
    assert!(matches!(heard.response, Some(Response::Released(told)) if told.released));
}

/// The threads that serve such sessions, by the list that the system has of them.
#[cfg(target_os = "linux")]
fn booths() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").expect("this process has threads");
    let names = threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("comm")));
    names.flatten().filter(|name| name.trim() == "fencepost-booth").count()
}

/// One thread serves them until there are very many.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn many_connections_share_few_threads() {
    if !fencepost_testkit::is_alone() {
        return;
    }
    let world = world(1).await;
    let mut talks = Vec::new();
    for number in 0..32 {
        talks.push(Framed::open(&world.servers[0], &format!("c{number}")).await);
    }
    assert_eq!(booths(), 1);
    for talk in &mut talks {
        talk.put(&ping(4)).await;
    }
    for talk in &mut talks {
        assert!(matches!(talk.hear().await.response, Some(Response::Pong(_))));
    }
}
