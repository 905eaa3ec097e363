//! A watch on a prefix over etcd's API, with a steady rate of writes: each event once, and how late.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::watch_client::WatchClient;
use fencepost_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use fencepost_proto::etcd::etcdserverpb::{
    PutRequest, WatchCreateRequest, WatchRequest, WatchResponse,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::client;
use crate::clock;
use crate::latency::Latency;
use crate::server::Server;

/// Connections that write in turns, so that one slow write does not hold up the next.
const WRITERS: usize = 8;
/// How long events may take after the last write.
const PATIENCE: Duration = Duration::from_secs(10);

/// Writes `rate` keys a second for `length`. How late each event was: from when the write was due.
pub async fn run(server: &Server, rate: u32, length: Duration) -> anyhow::Result<Latency> {
    let address = server.addresses[0];
    let mut subscription = subscribe(address).await?;
    let total = u64::from(rate) * length.as_secs();
    let begun = clock::now() + Duration::from_millis(200);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS as u64 {
        let channel = client::channel(address).await?;
        writers.spawn(write(channel, writer, total, begun, rate));
    }
    let latency = receive(&mut subscription.events, total, begun, rate);
    let latency = tokio::time::timeout(length + PATIENCE, latency).await;
    while let Some(outcome) = writers.join_next().await {
        outcome??;
    }
    latency.context("events are missing")?
}

/// When the write with this number is due.
fn due(begun: Instant, number: u64, rate: u32) -> Instant {
    begun + Duration::from_nanos(number * 1_000_000_000 / u64::from(rate))
}

/// One writer of several: its share of the numbers, each when it is due and however long it takes.
async fn write(
    channel: Channel,
    writer: u64,
    total: u64,
    begun: Instant,
    rate: u32,
) -> anyhow::Result<()> {
    let mut open = JoinSet::new();
    for number in (writer..total).step_by(WRITERS) {
        let wait = due(begun, number, rate).saturating_duration_since(clock::now());
        clock::pass(wait).await;
        let mut keys = KvClient::new(channel.clone());
        open.spawn(async move {
            let key = Bytes::from(format!("watched/{number:08}"));
            let value = Bytes::copy_from_slice(&number.to_be_bytes());
            keys.put(PutRequest { key, value, ..Default::default() }).await
        });
    }
    while let Some(outcome) = open.join_next().await {
        outcome??;
    }
    Ok(())
}

/// A watch that is open.
struct Subscription {
    /// The server ends the watch when this is dropped. Somebody else who kept it would leave one watch more on the
    /// server in every round.
    _requests: mpsc::Sender<WatchRequest>,
    events: Streaming<WatchResponse>,
}

async fn subscribe(address: SocketAddr) -> anyhow::Result<Subscription> {
    let channel = client::channel(address).await?;
    let (sender, receiver) = mpsc::channel(1);
    let create = WatchCreateRequest {
        key: Bytes::from_static(b"watched/"),
        range_end: Bytes::from_static(b"watched0"),
        ..Default::default()
    };
    let request_union = Some(RequestUnion::CreateRequest(create));
    sender.send(WatchRequest { request_union }).await?;
    let opened = WatchClient::new(channel).watch(ReceiverStream::new(receiver)).await?;
    let mut events = opened.into_inner();
    let first = events.message().await?.context("the watch has ended")?;
    ensure!(first.created, "the watch was not made");
    Ok(Subscription { _requests: sender, events })
}

async fn receive(
    events: &mut Streaming<WatchResponse>,
    total: u64,
    begun: Instant,
    rate: u32,
) -> anyhow::Result<Latency> {
    let (mut latency, mut seen) = (Latency::default(), HashSet::new());
    while (seen.len() as u64) < total {
        let answer = events.message().await?.context("the watch has ended")?;
        let now = clock::now();
        for event in answer.events {
            let value = event.kv.context("an event without a key")?.value;
            let number = u64::from_be_bytes(value.as_ref().try_into()?);
            ensure!(seen.insert(number), "event {number} came twice");
            latency.add(now.saturating_duration_since(due(begun, number, rate)));
        }
    }
    Ok(latency)
}
