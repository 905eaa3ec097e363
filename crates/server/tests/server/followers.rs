//! Any member serves any request.

use fencepost_node::shell::{Settings, start};
use fencepost_proto::v1;
use fencepost_proto::v1::session_acquired::State as Stage;

use crate::support::{
    Talk, acquire, acquired, get_lock, lease, lock_request, release, serve, soon, unlock,
    until_waiters, world,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_serves_everything() {
    let world = world(3).await;
    let leader = world.leader();
    for place in [(leader + 1) % 3, (leader + 2) % 3] {
        let mut locks = world.locks(place).await;
        let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
        let token = acquired(&mut locks, "a", one).await;
        let mut waits = locks.clone();
        let waiting = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
        until_waiters(&mut locks, "a", 1).await;
        assert!(unlock(&mut locks, "a", one, token).await);
        let told = soon(waiting).await.expect("it does not panic").expect("it is granted");
        let told = told.into_inner();
        assert!(told.acquired && told.fencing_token > token);
        let header = told.header.expect("every answer has one");
        assert_eq!(header.member_id, world.cluster.nodes()[place].handle().status().id);
        assert_eq!(header.leader_id, world.cluster.nodes()[leader].handle().status().id);
        assert!(unlock(&mut locks, "a", two, told.fencing_token).await);

        let mut talk = Talk::open(&mut locks, &format!("c{place}")).await;
        let held = talk.lease(2, 1, 0).await;
        talk.say(3, Some(1), acquire(&["b"], held, -1)).await;
        let (_, first) = talk.acquired().await;
        assert_eq!(first.state(), Stage::Acquired);
        // On another member.
        let mut other = Talk::open(&mut world.locks(leader).await, &format!("d{place}")).await;
        let waits = other.lease(2, 1, 0).await;
        other.say(3, Some(1), acquire(&["b"], waits, -1)).await;
        assert_eq!(other.acquired().await.1.state(), Stage::Queued);
        talk.say(4, Some(2), release("b", held, first.fencing_token)).await;
        let (_, second) = other.acquired().await;
        assert_eq!(second.state(), Stage::Acquired);
        let revoke = v1::LeaseRevokeRequest { id: waits.0, epoch: waits.1 };
        locks.lease_revoke(revoke).await.expect("it lives");
        assert!(get_lock(&mut locks, "b").await.holders.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_on_all_members_are_granted_in_order() {
    let world = world(3).await;
    let mut locks = world.locks(0).await;
    let first = lease(&mut locks, "first").await;
    let (mut holder, mut token) = (first, acquired(&mut locks, "a", first).await);
    let mut waiting = Vec::new();
    for count in 1..=30_u64 {
        let next = lease(&mut locks, "c").await;
        let place = usize::try_from(count % 3).expect("it is small");
        let mut waits = world.locks(place).await;
        let call = tokio::spawn(async move { waits.lock(lock_request("a", next, -1)).await });
        until_waiters(&mut locks, "a", count).await;
        waiting.push((next, call));
    }
    for (lease, call) in waiting {
        assert!(unlock(&mut locks, "a", holder, token).await);
        let told = soon(call).await.expect("it does not panic").expect("it is granted");
        let told = told.into_inner();
        assert!(told.acquired && told.fencing_token > token);
        (holder, token) = (lease, told.fencing_token);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_member_that_dies_end_when_it_is_back() {
    let mut world = world(3).await;
    let leader = world.leader();
    let place = (leader + 1) % 3;
    let mut locks = world.locks(leader).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    acquired(&mut locks, "a", one).await;
    let mut waits = world.locks(place).await;
    let waiting = tokio::spawn(async move { waits.lock(lock_request("a", two, -1)).await });
    until_waiters(&mut locks, "a", 1).await;
    // A place of a session belongs to its lease, and stays.
    let mut talk = Talk::open(&mut world.locks(place).await, "c").await;
    let stays = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a"], stays, -1)).await;
    talk.acquired().await;
    let dead = world.cluster.take(place);
    let address = dead.handle().status().peer;
    dead.kill();
    soon(waiting).await.expect("it does not panic").expect_err("the call has ended");
    assert_eq!(get_lock(&mut locks, "a").await.waiters_total, 2);
    let settings = Settings {
        peer_listen: address.parse().expect("it is an address"),
        ..Settings::new(world.dirs[place].clone(), "ignored")
    };
    let back = start(settings).expect("its directory is sound");
    let server = serve(&back).await;
    let left = until_waiters(&mut locks, "a", 1).await;
    assert_eq!(left.waiters[0].lease_id, stays.0);
    server.stop().await;
}
