//! Streams without a watch or a renewal do not keep a connection open.

use std::time::Duration;

use bytes::Bytes;
use fencepost_node::config::NodeConfig;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::etcdserverpb::watch_client::WatchClient;
use fencepost_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use fencepost_server::Tuning;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::support::{World, channel, soon, world_with};

async fn impatient() -> World {
    let tuning = Tuning { idle_patience: Duration::from_millis(100), ..Tuning::default() };
    world_with(1, &NodeConfig::new(0), tuning).await
}

fn create(key: &'static str) -> pb::WatchRequest {
    let create =
        pb::WatchCreateRequest { key: Bytes::from_static(key.as_bytes()), ..Default::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_stream_without_watches_ends_with_a_reason() {
    let world = impatient().await;
    let (_open, requests) = mpsc::channel(1);
    let mut client = WatchClient::new(channel(&world.servers[0]).await);
    let answers = client.watch(ReceiverStream::new(requests)).await;
    let mut answers = answers.expect("it is answered").into_inner();
    let status = soon(answers.message()).await.expect_err("it ends with a reason");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("connection_idle"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_stream_with_a_watch_outlives_idle_ones() {
    let world = impatient().await;
    let channel = channel(&world.servers[0]).await;
    let (open, requests) = mpsc::channel(4);
    let mut client = WatchClient::new(channel.clone());
    let answers = client.watch(ReceiverStream::new(requests)).await;
    let mut answers = answers.expect("it is answered").into_inner();
    open.send(create("a")).await.expect("the stream is open");
    let created = soon(answers.message()).await.expect("it goes on").expect("it goes on");
    assert!(created.created);
    for _ in 0..3 {
        let (_open, requests) = mpsc::channel(1);
        let idle = WatchClient::new(channel.clone()).watch(ReceiverStream::new(requests)).await;
        let mut idle = idle.expect("it is answered").into_inner();
        soon(idle.message()).await.expect_err("it has no watch");
    }
    open.send(create("b")).await.expect("the stream is open");
    let created = soon(answers.message()).await.expect("it goes on").expect("it goes on");
    assert!(created.created);
}

#[tokio::test(flavor = "multi_thread")]
async fn keep_alive_stream_without_renewals_ends_with_a_reason() {
    let world = impatient().await;
    let (_open, requests) = mpsc::channel(1);
    let mut client = LeaseClient::new(channel(&world.servers[0]).await);
    let answers = client.lease_keep_alive(ReceiverStream::new(requests)).await;
    let mut answers = answers.expect("it is answered").into_inner();
    let status = soon(answers.message()).await.expect_err("it ends with a reason");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("connection_idle"), "{status}");
}
