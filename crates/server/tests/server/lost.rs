//! A member that hears nothing for a while, with calls that wait on it.

use std::net::SocketAddr;
use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_node::shell::{Origin, RunningNode, Settings, start};
use fencepost_proto::v1;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use fencepost_proto::v1::session_acquired::State as Stage;
use fencepost_server::{Server, Tuning};
use tokio_stream::wrappers::ReceiverStream;

use crate::proxy::Proxy;
use crate::support::{
    Locks, PATIENCE, Talk, World, acquire, acquired, channel, get_lock, lease, lock_request,
    refused, release, serve_with, soon, unlock, until_waiters, world_with,
};

/// Two members, and a third one that the others reach over a wire that can be cut.
struct Rig {
    world: World,
    far: RunningNode,
    far_server: Server,
    wire: Proxy,
}

async fn rig(tuning: Tuning) -> Rig {
    let config = NodeConfig { snapshot_entries: 20, ..NodeConfig::new(0) };
    let world = world_with(2, &config, tuning.clone()).await;
    let peer_listen = SocketAddr::from(([127, 0, 0, 1], fencepost_testkit::free_port()));
    let wire = Proxy::start(peer_listen).await;
    let settings = Settings {
        peer_listen,
        peer_advertised: Some(wire.address().to_string()),
        origin: Origin::Join(vec![world.cluster.nodes()[0].handle().status().peer]),
        config,
        patience: Some(PATIENCE),
        ..Settings::new(world.dirs[0].with_extension("far"), "far")
    };
    let far = tokio::task::spawn_blocking(|| start(settings).expect("it is let in"));
    let far = far.await.expect("it does not panic");
    let id = far.handle().status().id;
    for node in world.cluster.nodes().iter().chain([&far]) {
        let votes = node.handle().board().wait_until(PATIENCE, |status| {
            status.members.voters().contains(&id) && status.role.leader.is_some_and(|one| one != id)
        });
        votes.expect("it votes, and does not lead");
    }
    let far_server = serve_with(&far, tuning).await;
    Rig { world, far, far_server, wire }
}

impl Rig {
    async fn locks(&self) -> Locks {
        LockServiceClient::new(channel(&self.far_server).await)
    }

    /// Writes until the log that the far member lacks is gone.
    async fn leave_behind(&self, near: &mut Locks) {
        let applied = self.far.handle().status().applied;
        for number in 0..200 {
            let put = v1::PutRequest { key: format!("k{number:03}"), ..Default::default() };
            near.put(put).await.expect("the others go on");
        }
        for node in self.world.cluster.nodes() {
            let purged = node
                .handle()
                .board()
                .wait_until(PATIENCE, |status| status.snapshot.index > applied + 60);
            purged.expect("snapshots are made");
        }
    }
}

async fn watch_keys(locks: &mut Locks) -> tonic::Streaming<v1::WatchResponse> {
    let (sender, frames) = tokio::sync::mpsc::channel(4);
    let watch =
        v1::WatchRequest { key: "k".into(), prefix: true, watch_id: 1, ..Default::default() };
    sender.send(watch).await.expect("it is open");
    let answers = locks.watch(ReceiverStream::new(frames)).await.expect("it is opened");
    let mut answers = answers.into_inner();
    let told = soon(answers.message()).await.expect("it goes on").expect("it goes on");
    assert!(told.created);
    // The stream ends when its sender does.
    tokio::spawn(async move { sender.closed().await });
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_takes_the_place_of_the_log_answers_the_calls_that_wait() {
    let patient = Tuning { member_patience: Duration::from_secs(600), ..Tuning::default() };
    let mut rig = rig(patient).await;
    let (mut near, mut far) = (rig.world.locks(0).await, rig.locks().await);
    let one = lease(&mut near, "one").await;
    let tokens = [
        acquired(&mut near, "a", one).await,
        acquired(&mut near, "b", one).await,
        acquired(&mut near, "c", one).await,
    ];
    let (two, three) = (lease(&mut far, "two").await, lease(&mut far, "three").await);
    let mut calls = far.clone();
    let granted = tokio::spawn(async move { calls.lock(lock_request("a", two, -1)).await });
    let mut calls = far.clone();
    let ended = tokio::spawn(async move { calls.lock(lock_request("c", three, -1)).await });
    let mut calls = far.clone();
    let waits = tokio::spawn(async move { calls.lock(lock_request("c", two, -1)).await });
    let mut talk = Talk::open(&mut far, "session").await;
    let session = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["b"], session, -1)).await;
    assert_eq!(talk.acquired().await.1.state(), Stage::Queued);
    until_waiters(&mut near, "a", 1).await;
    until_waiters(&mut near, "c", 2).await;
    let mut watch = watch_keys(&mut far).await;

    rig.wire.cut().await;
    assert!(unlock(&mut near, "a", one, tokens[0]).await);
    assert!(unlock(&mut near, "b", one, tokens[1]).await);
    let gone = v1::DeleteRangeRequest { key: format!("c/{three:x}"), ..Default::default() };
    near.delete_range(gone).await.expect("it is there");
    rig.leave_behind(&mut near).await;
    assert!(!granted.is_finished() && !ended.is_finished() && !waits.is_finished());

    rig.wire.mend().await;
    let told = soon(granted).await.expect("it does not panic").expect("it is granted");
    let told = told.into_inner();
    assert!(told.acquired && told.fencing_token > tokens[0]);
    assert!(rig.far.handle().status().snapshot.index > 0);
    let (id, told) = talk.decided().await;
    assert_eq!((id, told.state()), (3, Stage::Acquired));
    assert!(told.fencing_token > tokens[1]);
    assert_eq!(refused(soon(ended).await.expect("it does not panic")), "wait_ended");
    // The watch has missed nothing, and hears nothing twice.
    let mut next = 0;
    while next < 200 {
        let told = soon(watch.message()).await.expect("it goes on").expect("it goes on");
        for event in told.events {
            assert_eq!(event.kv.expect("it has one").key, format!("k{next:03}"));
            next += 1;
        }
    }
    // Whoever still waits does so at its place.
    assert_eq!(get_lock(&mut far, "c").await.waiters_total, 1);
    assert!(unlock(&mut near, "c", one, tokens[2]).await);
    let told = soon(waits).await.expect("it does not panic").expect("it is granted");
    assert!(told.into_inner().acquired);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_member_that_is_gone_for_too_long_end_and_later_ones_do_not() {
    let tuning = Tuning { member_patience: Duration::from_secs(1), ..Tuning::default() };
    let mut rig = rig(tuning).await;
    let (mut near, mut far) = (rig.world.locks(0).await, rig.locks().await);
    let (one, two) = (lease(&mut near, "one").await, lease(&mut near, "two").await);
    let token = acquired(&mut near, "a", one).await;
    let mut calls = far.clone();
    let waiting = tokio::spawn(async move { calls.lock(lock_request("a", two, -1)).await });
    until_waiters(&mut near, "a", 1).await;
    // A place of a session belongs to its lease, and stays.
    let mut talk = Talk::open(&mut far, "session").await;
    let session = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire(&["a"], session, -1)).await;
    assert_eq!(talk.acquired().await.1.position, 2);

    rig.wire.cut().await;
    let left = until_waiters(&mut near, "a", 1).await;
    assert_eq!(left.waiters[0].lease_id, session.0);
    rig.wire.mend().await;
    assert_eq!(refused(soon(waiting).await.expect("it does not panic")), "wait_ended");

    // It is the same process as before, and its calls are as good as any.
    let mut calls = far.clone();
    let waiting = tokio::spawn(async move { calls.lock(lock_request("a", two, -1)).await });
    until_waiters(&mut near, "a", 2).await;
    // Longer than the grace of a call that was given up.
    let clock = v1::LeaseGrantRequest { ttl: 7, ..Default::default() };
    let id = near.lease_grant(clock).await.expect("it is granted").into_inner().id;
    soon(async { while near.get_lease(v1::GetLeaseRequest { id }).await.is_ok() {} }).await;
    assert_eq!(get_lock(&mut near, "a").await.waiters_total, 2);
    assert!(unlock(&mut near, "a", one, token).await);
    let (_, told) = talk.decided().await;
    talk.say(4, Some(2), release("a", session, told.fencing_token)).await;
    let told = soon(waiting).await.expect("it does not panic").expect("it is granted");
    assert!(told.into_inner().acquired);
}
