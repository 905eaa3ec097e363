//! Writing to a key only if it is still the one that was meant: what a candidate proclaims.

use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use crate::support::{Locks, Talk, acquired, lease, refused, unlock, world};

fn proclaim(lease: i64, created: i64, value: &str) -> v1::PutRequest {
    v1::PutRequest {
        key: format!("e/{lease:x}"),
        value: value.to_owned().into(),
        lease_id: lease,
        prev_kv: true,
        create_revision: created,
    }
}

async fn values(locks: &mut Locks) -> Vec<String> {
    let range = v1::RangeRequest { key: "e/".into(), prefix: true, ..Default::default() };
    let found = locks.range(range).await.expect("it is answered").into_inner();
    let text = |kv: &v1::KeyVal| String::from_utf8_lossy(&kv.value).into_owned();
    found.kvs.iter().map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_has_lost_its_key_proclaims_nothing() {
    let world = world(3).await;
    let mut locks = world.locks((world.leader() + 1) % 3).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let first = acquired(&mut locks, "e", one).await;
    let told = locks.put(proclaim(one, first, "one leads")).await.expect("it leads");
    let told = told.into_inner();
    assert!(told.prev_kv.is_some_and(|prev| prev.create_revision == first));
    assert!(told.header.is_some_and(|header| header.revision > first));
    assert_eq!(values(&mut locks).await, ["one leads"]);

    // Its key goes, another one is elected, and then it stands again: with another key.
    assert!(unlock(&mut locks, "e", one, first).await);
    let second = acquired(&mut locks, "e", two).await;
    assert_eq!(refused(locks.put(proclaim(one, first, "stale")).await), "key_not_found");
    assert_eq!(refused(locks.put(proclaim(two, first, "stale")).await), "key_not_found");
    locks.put(proclaim(two, second, "two leads")).await.expect("it leads");
    assert_eq!(values(&mut locks).await, ["two leads"]);
    assert!(unlock(&mut locks, "e", two, second).await);
    let third = acquired(&mut locks, "e", one).await;
    assert!(third > second);
    assert_eq!(refused(locks.put(proclaim(one, first, "stale")).await), "key_not_found");
    assert_eq!(values(&mut locks).await, [""]);
    // It holds on: the write has not taken the key from its lease.
    locks.put(proclaim(one, third, "one leads again")).await.expect("it leads");
    assert!(unlock(&mut locks, "e", one, third).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_proclaims_by_the_same_rule() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let one = lease(&mut locks, "one").await;
    let created = acquired(&mut locks, "e", one).await;
    let mut talk = Talk::open(&mut locks, "c").await;
    talk.say(2, None, Request::Put(proclaim(one, created, "x"))).await;
    let Some(Response::Put(told)) = talk.hear().await.response else { panic!("it is written") };
    assert!(told.prev_kv.is_some());
    talk.say(3, None, Request::Put(proclaim(one, created - 1, "y"))).await;
    assert_eq!(talk.failure().await.code, "key_not_found");
    talk.say(4, None, Request::Put(proclaim(one, -1, "y"))).await;
    assert_eq!(talk.failure().await.code, "field_invalid");
    assert_eq!(values(&mut locks).await, ["x"]);
}
