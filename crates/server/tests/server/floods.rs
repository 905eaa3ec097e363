//! Clients that open more than they use, or send more than they take.

use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::watch_client::WatchClient;
use fencepost_server::Tuning;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::support::{World, channel, code, soon, world_with};

/// Requests that are served at once, and those that each connection has in any case.
const REQUESTS_MAX: usize = 8;
const CONNECTION_REQUESTS: usize = 4;
/// So many refused ones close a connection.
const REFUSED_MAX: usize = 64;

async fn busy() -> World {
    let tuning = Tuning { requests_max: REQUESTS_MAX, ..Tuning::default() };
    world_with(1, &NodeConfig::new(0), tuning).await
}

/// A stream that is opened and not used. It lasts as long as both ends of it.
struct Unused {
    _requests: mpsc::Sender<pb::WatchRequest>,
    _answers: Streaming<pb::WatchResponse>,
}

async fn open_stream(channel: &Channel) -> Result<Unused, Status> {
    let (_requests, sent) = mpsc::channel(1);
    let mut client = WatchClient::new(channel.clone());
    let answers = soon(client.watch(ReceiverStream::new(sent))).await?;
    Ok(Unused { _requests, _answers: answers.into_inner() })
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_bound_are_refused() {
    let world = busy().await;
    let flood = channel(&world.servers[0]).await;
    let mut open = Vec::new();
    for _ in 0..REQUESTS_MAX {
        open.push(open_stream(&flood).await.expect("there is room"));
    }
    let refused = open_stream(&flood).await.err().expect("there is no room");
    assert_eq!((refused.code(), &*code(&refused)), (Code::ResourceExhausted, "overloaded"));
    // Another client has a few in any case, and no more.
    let other = channel(&world.servers[0]).await;
    let mut few = Vec::new();
    for _ in 0..CONNECTION_REQUESTS {
        few.push(open_stream(&other).await.expect("each connection has a few"));
    }
    let refused = open_stream(&other).await.err().expect("there is no room");
    assert_eq!(code(&refused), "overloaded");
    // What ends makes room.
    drop(few);
    drop(open);
    soon(async { while open_stream(&flood).await.is_err() {} }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_that_floods_is_closed() {
    let world = busy().await;
    let flood = channel(&world.servers[0]).await;
    let mut open = Vec::new();
    for _ in 0..REQUESTS_MAX {
        open.push(open_stream(&flood).await.expect("there is room"));
    }
    for _ in 0..REFUSED_MAX {
        open_stream(&flood).await.err().expect("there is no room");
    }
    let cut = soon(open[0]._answers.message()).await.expect_err("its connection is closed");
    assert_ne!(cut.code(), Code::ResourceExhausted, "{cut:?}");
}

/// Each ping has an answer of its own size.
#[tokio::test(flavor = "multi_thread")]
async fn websocket_that_takes_no_pongs_is_cut_off() {
    // More than sockets hold.
    const BYTES_MAX: usize = 256 << 20;
    let answer_patience = Duration::from_millis(200);
    let tuning = Tuning { answer_patience, ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let mut stream = TcpStream::connect(world.servers[0].address()).await.expect("it listens");
    let hello = "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(hello.as_bytes()).await.expect("it reads");
    let mut head = [0; 12];
    soon(stream.read_exact(&mut head)).await.expect("it answers");
    assert_eq!(&head, b"HTTP/1.1 101");
    // A ping of 125 bytes, masked with zeros, many times.
    let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[7; 125]].concat();
    let pings = ping.repeat(1_000);
    let mut sent = 0;
    while soon(stream.write_all(&pings)).await.is_ok() {
        sent += pings.len();
        assert!(sent < BYTES_MAX, "the server takes pings whose answers are not taken");
    }
}
