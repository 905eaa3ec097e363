//! Watches on one stream.

use bytes::Bytes;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::watch_client::WatchClient;
use fencepost_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::support::{World, channel, soon, world};

struct Watches {
    requests: mpsc::Sender<pb::WatchRequest>,
    answers: Streaming<pb::WatchResponse>,
}

impl Watches {
    async fn new(channel: Channel) -> Watches {
        let (requests, sent) = mpsc::channel(64);
        let answers = WatchClient::new(channel).watch(ReceiverStream::new(sent)).await;
        Watches { requests, answers: answers.expect("it is answered").into_inner() }
    }

    async fn ask(&self, request: RequestUnion) {
        let request = pb::WatchRequest { request_union: Some(request) };
        self.requests.send(request).await.expect("the stream is open");
    }

    async fn create(&self, key: &str, change: impl FnOnce(&mut pb::WatchCreateRequest)) {
        let mut create = pb::WatchCreateRequest {
            key: Bytes::copy_from_slice(key.as_bytes()),
            ..Default::default()
        };
        change(&mut create);
        self.ask(RequestUnion::CreateRequest(create)).await;
    }

    async fn next(&mut self) -> pb::WatchResponse {
        soon(self.answers.message()).await.expect("it goes on").expect("it goes on")
    }
}

async fn parts() -> (World, KvClient<Channel>, Watches) {
    let world = world(1).await;
    let channel = channel(&world.servers[0]).await;
    let watches = Watches::new(channel.clone()).await;
    (world, KvClient::new(channel), watches)
}

async fn put(keys: &mut KvClient<Channel>, key: &str) -> i64 {
    let key = Bytes::copy_from_slice(key.as_bytes());
    let put = pb::PutRequest { key, ..Default::default() };
    let told = keys.put(put).await.expect("it is written").into_inner();
    told.header.expect("every answer has a header").revision
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_get_ids_of_their_own_and_are_created_in_order() {
    let (_world, _keys, mut watches) = parts().await;
    for key in ["a", "b", "c"] {
        watches.create(key, |_| {}).await;
    }
    watches.create("d", |create| create.watch_id = 77).await;
    watches.create("e", |create| create.watch_id = 77).await;
    for id in [0, 1, 2, 77] {
        let told = watches.next().await;
        assert!(told.created && !told.canceled, "{told:?}");
        assert_eq!(told.watch_id, id);
    }
    let twice = watches.next().await;
    assert!(twice.created && twice.canceled && twice.cancel_reason.contains("duplicate"));
    assert_eq!(twice.watch_id, -1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_the_past_is_told_all_and_then_goes_on() {
    let (_world, mut keys, mut watches) = parts().await;
    let first = put(&mut keys, "k").await;
    for _ in 0..3 {
        put(&mut keys, "k").await;
    }
    watches.create("k", |create| create.start_revision = first).await;
    assert!(watches.next().await.created);
    put(&mut keys, "k").await;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let told = watches.next().await;
        seen.extend(told.events.iter().map(|one| one.kv.as_ref().expect("it is put").mod_revision));
    }
    assert_eq!(seen, (first..first + 5).collect::<Vec<i64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_before_all_history_is_created_and_then_canceled() {
    let (_world, mut keys, mut watches) = parts().await;
    put(&mut keys, "k").await;
    let revision = put(&mut keys, "k").await;
    keys.compact(pb::CompactionRequest { revision, physical: false }).await.expect("it is old");
    watches.create("k", |create| create.start_revision = 2).await;
    assert!(watches.next().await.created);
    let told = watches.next().await;
    assert!(told.canceled);
    assert_eq!(told.compact_revision, revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_told_behind_all_events() {
    let (_world, mut keys, mut watches) = parts().await;
    watches.create("k", |_| {}).await;
    assert!(watches.next().await.created);
    let revision = put(&mut keys, "k").await;
    watches.ask(RequestUnion::ProgressRequest(pb::WatchProgressRequest {})).await;
    let (mut seen, mut reached) = (false, 0);
    while reached == 0 {
        let told = watches.next().await;
        if told.watch_id == -1 {
            reached = told.header.expect("every answer has a header").revision;
            assert!(told.events.is_empty());
        }
        seen |= !told.events.is_empty();
    }
    assert!(reached < revision || seen, "progress has overtaken an event");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canceled_watch_is_told_so_and_hears_nothing_more() {
    let (_world, mut keys, mut watches) = parts().await;
    watches.create("k", |_| {}).await;
    watches.create("l", |_| {}).await;
    assert!(watches.next().await.created && watches.next().await.created);
    watches.ask(RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id: 0 })).await;
    let told = watches.next().await;
    assert!(told.canceled);
    assert_eq!(told.watch_id, 0);
    put(&mut keys, "k").await;
    put(&mut keys, "l").await;
    assert_eq!(watches.next().await.watch_id, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_slow_misses_nothing() {
    let (_world, mut keys, mut watches) = parts().await;
    watches.create("k", |_| {}).await;
    assert!(watches.next().await.created);
    let first = put(&mut keys, "k").await;
    // More than the stream and its buffers hold, so that it must go back to the history.
    let value = Bytes::from(vec![7; 100_000]);
    // It is less than the history of a small state has.
    for _ in 0..120 {
        let put = pb::PutRequest { key: "k".into(), value: value.clone(), ..Default::default() };
        keys.put(put).await.expect("it is written");
    }
    let mut expected = first;
    while expected <= first + 120 {
        for event in watches.next().await.events {
            assert_eq!(event.kv.expect("it is put").mod_revision, expected);
            expected += 1;
        }
    }
}
