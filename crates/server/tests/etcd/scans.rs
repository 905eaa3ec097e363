//! Reads of many keys: exact at one revision, and bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use pb::request_op::Request as Op;
use tonic::Code;
use tonic::transport::Channel;

use crate::support::{channel, world};

const LARGE: usize = 64 << 20;

fn put(key: String, value: impl Into<bytes::Bytes>) -> pb::RequestOp {
    let put = pb::PutRequest { key: key.into(), value: value.into(), ..pb::PutRequest::default() };
    pb::RequestOp { request: Some(Op::RequestPut(put)) }
}

async fn kv(server: &fencepost_server::Server) -> KvClient<Channel> {
    KvClient::new(channel(server).await).max_decoding_message_size(LARGE)
}

/// Writes so many keys, a hundred at a time.
async fn fill(kv: &mut KvClient<Channel>, keys: usize, value: &str) {
    for from in (0..keys).step_by(100) {
        let puts = (from..from + 100).map(|number| put(format!("k{number:06}"), value.to_owned()));
        let txn = pb::TxnRequest { success: puts.collect(), ..pb::TxnRequest::default() };
        kv.txn(txn).await.expect("it is written");
    }
}

fn everything() -> pb::RangeRequest {
    pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..pb::RangeRequest::default() }
}

/// One transaction writes the first and the last key, so a read that sees two revisions shows it.
#[tokio::test(flavor = "multi_thread")]
async fn large_range_shows_one_revision_while_keys_change() {
    let world = world(1).await;
    let mut kv = kv(&world.servers[0]).await;
    fill(&mut kv, 10_000, "v").await;
    let is_over = Arc::<AtomicBool>::default();
    let writer = {
        let (mut kv, is_over) = (kv.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            for number in 0_u64.. {
                let value = number.to_string();
                let delete = pb::DeleteRangeRequest { key: "middle".into(), ..Default::default() };
                let mut success = vec![put("a".into(), value.clone()), put("z".into(), value)];
                success.push(match number % 2 {
                    0 => put("middle".into(), "there"),
                    _ => pb::RequestOp { request: Some(Op::RequestDeleteRange(delete)) },
                });
                kv.txn(pb::TxnRequest { success, ..Default::default() }).await.expect("written");
                if is_over.load(Ordering::Relaxed) {
                    return number;
                }
            }
            0
        })
    };
    for round in 0..40 {
        let at = match round % 4 {
            // A read of the past, once there is some.
            3 => {
                kv.range(pb::RangeRequest { count_only: true, ..everything() })
                    .await
                    .expect("read")
                    .into_inner()
                    .header
                    .expect("a header")
                    .revision
            }
            _ => 0,
        };
        let found = kv.range(pb::RangeRequest { revision: at, ..everything() }).await;
        let found = found.expect("it is read").into_inner();
        assert_eq!(found.count, i64::try_from(found.kvs.len()).expect("few"));
        assert!(found.kvs.is_sorted_by(|one, next| one.key < next.key));
        let value = |key: &str| {
            let kv = found.kvs.iter().find(|kv| kv.key == key);
            kv.map(|kv| (kv.value.clone(), kv.mod_revision))
        };
        assert_eq!(value("a"), value("z"), "round {round}");
        if let Some((value, _)) = value("a") {
            let number: u64 = std::str::from_utf8(&value).expect("text").parse().expect("digits");
            let has_middle = found.kvs.iter().any(|kv| kv.key == "middle");
            assert_eq!(has_middle, number.is_multiple_of(2), "round {round}");
        }
        let first = kv.range(pb::RangeRequest { limit: 3, ..everything() }).await;
        let first = first.expect("it is read").into_inner();
        assert_eq!((first.kvs.len(), first.more), (3, true));
        assert!((10_000..=10_003).contains(&first.count), "{}", first.count);
    }
    is_over.store(true, Ordering::Relaxed);
    assert!(writer.await.expect("it goes on") > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hashes_of_many_callers_agree_on_every_member() {
    let world = world(3).await;
    let mut kv = kv(&world.servers[0]).await;
    fill(&mut kv, 5_000, "v").await;
    let last = kv.range(pb::RangeRequest { count_only: true, ..everything() }).await;
    let revision = last.expect("it is read").into_inner().header.expect("a header").revision;
    let mut calls = tokio::task::JoinSet::new();
    for server in &world.servers {
        // So that this member has applied everything.
        let mut kv = KvClient::new(channel(server).await);
        kv.range(pb::RangeRequest { count_only: true, ..everything() }).await.expect("it is read");
        for _ in 0..4 {
            let mut client = MaintenanceClient::new(channel(server).await);
            calls.spawn(async move {
                let hash = client.hash(pb::HashRequest {}).await.expect("it is hashed");
                let request = pb::HashKvRequest { revision: 0 };
                let now = client.hash_kv(request).await.expect("it is hashed").into_inner();
                assert_eq!(now.hash_revision, revision);
                let at = pb::HashKvRequest { revision: revision - 1 };
                let before = client.hash_kv(at).await.expect("history has it").into_inner();
                assert_ne!(before.hash, now.hash);
                (hash.into_inner().hash, now.hash, before.hash)
            });
        }
    }
    let found = calls.join_all().await;
    assert!(found.iter().all(|one| one == &found[0] && one.0 == one.1), "{found:?}");
    let mut client = MaintenanceClient::new(channel(&world.servers[0]).await);
    let future = client.hash_kv(pb::HashKvRequest { revision: revision + 1 }).await;
    assert_eq!(future.expect_err("it is not there yet").code(), Code::OutOfRange);
    kv.txn(pb::TxnRequest { success: vec![put("one".into(), "more")], ..Default::default() })
        .await
        .expect("it is written");
    let after = client.hash(pb::HashRequest {}).await.expect("it is hashed").into_inner();
    assert_ne!(after.hash, found[0].0);
    let again = client.hash_kv(pb::HashKvRequest { revision }).await.expect("history has it");
    assert_eq!(again.into_inner().hash, found[0].1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answer_beyond_its_bytes_is_refused_and_can_be_read_in_pages() {
    let world = world(1).await;
    let mut kv = kv(&world.servers[0]).await;
    let value = "v".repeat(1 << 20);
    for number in 0..18 {
        let request = pb::PutRequest {
            key: format!("k{number:02}").into(),
            value: value.clone().into(),
            ..Default::default()
        };
        kv.put(request).await.expect("it is written");
    }
    let refused = kv.range(everything()).await.expect_err("it is too large");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("limit"), "{}", refused.message());
    let sorted = pb::RangeRequest {
        limit: 17,
        sort_order: pb::range_request::SortOrder::Descend.into(),
        ..everything()
    };
    let refused = kv.range(sorted.clone()).await.expect_err("it is too large");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let few = kv.range(pb::RangeRequest { limit: 2, ..sorted }).await.expect("it is small");
    assert_eq!(few.into_inner().kvs[0].key, "k17");
    let keys = kv.range(pb::RangeRequest { keys_only: true, ..everything() }).await;
    assert_eq!(keys.expect("they are small").into_inner().kvs.len(), 18);
    let (mut key, mut read) = (bytes::Bytes::from("\0"), 0);
    loop {
        let page = pb::RangeRequest { key: key.clone(), limit: 5, ..everything() };
        let page = kv.range(page).await.expect("a page fits").into_inner();
        read += page.kvs.len();
        let Some(last) = page.kvs.last().filter(|_| page.more) else { break };
        key = [&last.key[..], b"\0"].concat().into();
    }
    assert_eq!(read, 18);
    // Nothing of what was refused is still counted.
    for _ in 0..20 {
        let large = kv.range(pb::RangeRequest { limit: 15, ..everything() }).await;
        assert_eq!(large.expect("there is room").into_inner().kvs.len(), 15);
    }
}
