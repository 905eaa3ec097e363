//! What one request may cost and what the state may take, as clients of etcd see it.

use bytes::Bytes;
use fencepost_core::quota::QUOTA_MIN;
use fencepost_node::config::NodeConfig;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::alarm_request::AlarmAction;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use fencepost_proto::v1;
use fencepost_server::Tuning;
use tonic::Code;
use tonic::transport::Channel;

use crate::support::{World, channel, soon, world, world_with};

/// A node at feature level 2, which it reaches by itself.
async fn at_level_2(world: &World) {
    let mut admin = world.admin(0).await;
    soon(async {
        while admin.limits(v1::LimitsRequest {}).await.expect("ready").get_ref().feature_level < 2 {
        }
    })
    .await;
}

fn put(key: &str, value: Vec<u8>) -> pb::PutRequest {
    let (key, value) = (key.to_owned().into(), value.into());
    pb::PutRequest { key, value, ..Default::default() }
}

fn all() -> (Bytes, Bytes) {
    (Bytes::from_static(&[0]), Bytes::from_static(&[0]))
}

/// Writes many small keys, a hundred in each transaction.
async fn fill(kv: &mut KvClient<Channel>, count: usize) {
    for from in (0..count).step_by(100) {
        let puts = (from..count.min(from + 100)).map(|number| {
            let put = put(&format!("k{number:06}"), b"v".to_vec());
            pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }
        });
        let txn = pb::TxnRequest { success: puts.collect(), ..Default::default() };
        kv.txn(txn).await.expect("it is within the bounds");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_range_is_deleted_in_steps_and_with_its_keys_at_once() {
    let world = world(1).await;
    at_level_2(&world).await;
    let mut kv = KvClient::new(channel(&world.servers[0]).await);
    fill(&mut kv, 9_000).await;
    let (key, range_end) = all();
    let with_keys =
        pb::DeleteRangeRequest { key: "k0001".into(), range_end: "k0002".into(), prev_kv: true };
    let deleted = kv.delete_range(with_keys).await.expect("it is done").into_inner();
    assert_eq!((deleted.deleted, deleted.prev_kvs.len()), (100, 100));
    let before = deleted.header.expect("it has one").revision;
    let whole = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
    let deleted = kv.delete_range(whole).await.expect("it is done").into_inner();
    assert_eq!(deleted.deleted, 8_900);
    assert_eq!(deleted.header.expect("it has one").revision, before + 3, "three steps");
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_that_reads_everything_many_times_is_refused() {
    let world = world(1).await;
    at_level_2(&world).await;
    let mut kv = KvClient::new(channel(&world.servers[0]).await);
    fill(&mut kv, 2_000).await;
    let (key, range_end) = all();
    let range = pb::RangeRequest { key, range_end, ..Default::default() };
    let read = pb::RequestOp { request: Some(pb::request_op::Request::RequestRange(range)) };
    let txn = pb::TxnRequest { success: vec![read; 100], ..Default::default() };
    let refused = kv.txn(txn).await.expect_err("200,000 keys are too many");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("too_many_keys"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_beyond_the_limit_is_granted_with_the_limit() {
    let world = world(1).await;
    at_level_2(&world).await;
    let mut leases = LeaseClient::new(channel(&world.servers[0]).await);
    let asked = pb::LeaseGrantRequest { ttl: 86_400, id: 0 };
    let granted = leases.lease_grant(asked).await.expect("it is granted").into_inner();
    assert_eq!(granted.ttl, 3_600);
}

#[tokio::test(flavor = "multi_thread")]
async fn full_state_raises_the_alarm_and_lets_keys_be_deleted() {
    let config = NodeConfig { memory_bytes: 4 * QUOTA_MIN, ..NodeConfig::new(0) };
    let world = world_with(1, &config, Tuning::default()).await;
    at_level_2(&world).await;
    let mut admin = world.admin(0).await;
    let limits = soon(async {
        loop {
            let limits = admin.limits(v1::LimitsRequest {}).await.expect("ready").into_inner();
            if limits.quota_bytes > 0 {
                return limits;
            }
        }
    })
    .await;
    assert_eq!((limits.quota_bytes, limits.quota_auto), (QUOTA_MIN, true));
    let channel = channel(&world.servers[0]).await;
    let (mut kv, mut care) = (KvClient::new(channel.clone()), MaintenanceClient::new(channel));
    let mut refused = None;
    for number in 0..32 {
        if let Err(status) = kv.put(put(&format!("k{number}"), vec![0; 1 << 20])).await {
            refused = Some((number, status));
            break;
        }
    }
    let (fitted, status) = refused.expect("16 MiB are full");
    assert_eq!((fitted, status.code()), (14, Code::ResourceExhausted));
    assert_eq!(status.message(), "etcdserver: mvcc: database space exceeded");
    let alarm = |action: AlarmAction| pb::AlarmRequest {
        action: action.into(),
        alarm: pb::AlarmType::Nospace.into(),
        ..Default::default()
    };
    let listed = care.alarm(alarm(AlarmAction::Get)).await.expect("it is listed").into_inner();
    assert_eq!(listed.alarms.len(), 1);
    assert_eq!(listed.alarms[0].alarm(), pb::AlarmType::Nospace);
    let shown = care.status(pb::StatusRequest {}).await.expect("it is shown").into_inner();
    assert!((14 << 20..16 << 20).contains(&shown.db_size), "{}", shown.db_size);
    let (key, range_end) = all();
    let whole = pb::DeleteRangeRequest { key, range_end, ..Default::default() };
    assert_eq!(kv.delete_range(whole).await.expect("it always works").into_inner().deleted, 14);
    kv.put(put("k", b"v".to_vec())).await.expect("there is space again");
    let still = care.alarm(alarm(AlarmAction::Get)).await.expect("it is listed").into_inner();
    assert_eq!(still.alarms.len(), 1, "it stays until it is disarmed");
    care.alarm(alarm(AlarmAction::Deactivate)).await.expect("it is disarmed");
    let none = care.alarm(alarm(AlarmAction::Get)).await.expect("it is listed").into_inner();
    assert_eq!(none.alarms, []);
}
