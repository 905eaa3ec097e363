//! One lock, two doors.

use bytes::Bytes;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::v3electionpb::election_client::ElectionClient;
use fencepost_proto::etcd::v3electionpb::{
    CampaignRequest, LeaderRequest, ProclaimRequest, ResignRequest,
};
use fencepost_proto::etcd::v3lockpb::lock_client::LockClient;
use fencepost_proto::etcd::v3lockpb::{LockRequest, UnlockRequest};
use tonic::Code;
use tonic::transport::Channel;

use crate::support::{acquired, channel, get_lock, lease, soon, unlock, until_waiters, world};

async fn etcd_lease(channel: &Channel) -> i64 {
    let grant = pb::LeaseGrantRequest { ttl: 60, id: 0 };
    let told = LeaseClient::new(channel.clone()).lease_grant(grant).await;
    told.expect("it is granted").into_inner().id
}

#[tokio::test(flavor = "multi_thread")]
async fn native_and_etcd_contenders_stand_in_one_queue() {
    let world = world(1).await;
    let channel = channel(&world.servers[0]).await;
    let mut native = world.locks(0).await;
    let mine = lease(&mut native, "native").await;
    let token = acquired(&mut native, "m", mine).await;
    let theirs = etcd_lease(&channel).await;
    let mut etcd = LockClient::new(channel.clone());
    let request = LockRequest { name: "m".into(), lease: theirs };
    let waiting = tokio::spawn(async move { etcd.lock(request).await });
    let lock = until_waiters(&mut native, "m", 1).await;
    assert_eq!(lock.waiters[0].lease_id, theirs);
    assert!(!waiting.is_finished());
    assert!(unlock(&mut native, "m", mine, token).await);
    let held = soon(waiting).await.expect("it goes on").expect("it is granted").into_inner();
    assert_eq!(held.key, format!("m/{theirs:x}"));
    let lock = get_lock(&mut native, "m").await;
    assert_eq!(lock.holders[0].lease_id, theirs);
    assert!(lock.holders[0].fencing_token > token, "tokens of both doors compare");
    // And the other way round.
    let mut again = world.locks(0).await;
    let waiting = tokio::spawn(async move { acquired(&mut again, "m", mine).await });
    until_waiters(&mut native, "m", 1).await;
    let unlocked = LockClient::new(channel).unlock(UnlockRequest { key: held.key }).await;
    unlocked.expect("it is answered");
    soon(waiting).await.expect("it is granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_of_a_mutex_excludes_native_holders() {
    let world = world(1).await;
    let channel = channel(&world.servers[0]).await;
    let theirs = etcd_lease(&channel).await;
    let mut keys = KvClient::new(channel);
    let key = Bytes::from(format!("r/{theirs:x}"));
    let put = pb::PutRequest { key: key.clone(), lease: theirs, ..Default::default() };
    keys.put(put).await.expect("it is written");
    let mut native = world.locks(0).await;
    let mine = lease(&mut native, "native").await;
    let mut waits = world.locks(0).await;
    let waiting = tokio::spawn(async move { acquired(&mut waits, "r", mine).await });
    let lock = until_waiters(&mut native, "r", 1).await;
    assert_eq!(lock.holders[0].lease_id, theirs);
    keys.delete_range(pb::DeleteRangeRequest { key, ..Default::default() }).await.expect("it is");
    soon(waiting).await.expect("it is granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_leaves_no_place_behind() {
    let world = world(1).await;
    let channel = channel(&world.servers[0]).await;
    let mut native = world.locks(0).await;
    let mine = lease(&mut native, "native").await;
    acquired(&mut native, "d", mine).await;
    let theirs = etcd_lease(&channel).await;
    let mut etcd = LockClient::new(channel);
    let request = LockRequest { name: "d".into(), lease: theirs };
    let waiting = tokio::spawn(async move { etcd.lock(request).await });
    until_waiters(&mut native, "d", 1).await;
    waiting.abort();
    until_waiters(&mut native, "d", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_and_lease_is_the_same_lock() {
    let world = world(1).await;
    let channel = channel(&world.servers[0]).await;
    let lease = etcd_lease(&channel).await;
    let mut etcd = LockClient::new(channel);
    let request = LockRequest { name: "i".into(), lease };
    let first = etcd.lock(request.clone()).await.expect("it is granted").into_inner();
    let again = etcd.lock(request).await.expect("it is granted").into_inner();
    assert_eq!(first.key, again.key);
    let own = etcd.lock(LockRequest { name: "own".into(), lease: 0 }).await.expect("it is granted");
    assert!(own.into_inner().key.starts_with(b"own/"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_with_a_dead_lease_is_refused_as_etcd_does() {
    let world = world(1).await;
    let mut etcd = LockClient::new(channel(&world.servers[0]).await);
    let refused = etcd.lock(LockRequest { name: "x".into(), lease: 12_345 }).await;
    let status = refused.expect_err("there is no such lease");
    assert_eq!(status.code(), Code::Unknown);
    assert_eq!(status.message(), "etcdserver: requested lease not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_election_is_led_observed_and_given_up() {
    let world = world(1).await;
    let channel = channel(&world.servers[0]).await;
    let mut election = ElectionClient::new(channel.clone());
    let nobody = election.leader(LeaderRequest { name: "e".into() }).await;
    assert_eq!(nobody.expect_err("nobody leads").message(), "election: no leader");
    let observed = election.observe(LeaderRequest { name: "e".into() }).await;
    let mut observed = observed.expect("it is answered").into_inner();
    let lease = etcd_lease(&channel).await;
    let campaign = CampaignRequest { name: "e".into(), lease, value: "one".into() };
    let led = election.campaign(campaign).await.expect("it leads").into_inner();
    let leader = led.leader.expect("it leads");
    let value = |told: fencepost_proto::etcd::v3electionpb::LeaderResponse| {
        told.kv.expect("it leads").value
    };
    let seen = soon(observed.message()).await.expect("it goes on").expect("it goes on");
    assert_eq!(value(seen), "one");
    let proclaim = ProclaimRequest { leader: Some(leader.clone()), value: "two".into() };
    election.proclaim(proclaim).await.expect("it leads");
    let seen = soon(observed.message()).await.expect("it goes on").expect("it goes on");
    assert_eq!(value(seen), "two");
    election.resign(ResignRequest { leader: Some(leader.clone()) }).await.expect("it led");
    let proclaim = ProclaimRequest { leader: Some(leader), value: "three".into() };
    let late = election.proclaim(proclaim).await.expect_err("it leads no more");
    assert_eq!((late.code(), late.message()), (Code::Unknown, "election: not leader"));
}
