//! Messages that are never complete, and answers that are never taken.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fencepost_node::config::NodeConfig;
use fencepost_proto::framing::CLIENT_PREFACE;
use fencepost_server::{Server, Tuning};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame};
use hyper::{HeaderMap, Request};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tower_service::Service as _;

use crate::framed_support::{Framed, hello, ping};
use crate::port::get;
use crate::support::{channel, lease, soon, world_with};

/// What the messages of one connection may take before they are complete.
const UNREAD_BYTES_MAX: u64 = 16 << 20;

/// A server that waits this long for the rest of a message.
fn impatient(body_patience: Duration) -> Tuning {
    Tuning { body_patience, ..Tuning::default() }
}

/// A body that begins and does not go on.
struct Unfinished(Option<Bytes>);

impl Body for Unfinished {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |data| Poll::Ready(Some(Ok(Frame::data(data)))))
    }
}

/// The beginning of a message of a MiB, as gRPC writes it.
fn beginning(len: usize) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend((1_u32 << 20).to_be_bytes());
    bytes.resize(len, 7);
    bytes.into()
}

/// How a request ends whose body does not: the status of gRPC, or that of HTTP.
async fn end_of(
    mut channel: Channel,
    path: &'static str,
    kind: &'static str,
    len: usize,
) -> String {
    poll_fn(|cx| channel.poll_ready(cx)).await.expect("it is connected");
    let request = Request::post(path).header("content-type", kind).header("te", "trailers");
    let body = tonic::body::Body::new(Unfinished(Some(beginning(len))));
    let request = request.body(body).expect("it is one");
    let (head, body) = channel.call(request).await.expect("it is answered").into_parts();
    let status = |headers: &HeaderMap| Some(headers.get("grpc-status")?.to_str().ok()?.to_owned());
    if let Some(status) = status(&head.headers) {
        return status;
    }
    let rest = body.collect().await.expect("it ends");
    let trailers = rest.trailers().and_then(status);
    trailers.unwrap_or_else(|| head.status.as_str().to_owned())
}

async fn unread(server: &Server) -> u64 {
    let (_, text) = get(server, "/metrics").await;
    let name = "fencepost_door_unread_bytes ";
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it is measured");
    line.parse().expect("it is a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_messages_are_bounded_and_end_at_the_deadline() {
    const STREAMS: usize = 300;
    let world = world_with(1, &NodeConfig::new(0), impatient(Duration::from_secs(2))).await;
    let server = &world.servers[0];
    let one = channel(server).await;
    let calls = [
        ("/etcdserverpb.KV/Put", "application/grpc"),
        ("/v3lockpb.Lock/Lock", "application/grpc"),
        ("/fencepost.v1.LockService/Session", "application/grpc"),
        ("/v1/kv/put", "application/json"),
    ];
    let mut ends = JoinSet::new();
    for (path, kind) in calls.into_iter().cycle().take(STREAMS) {
        ends.spawn(end_of(one.clone(), path, kind, 200_000));
    }
    let (mut most, mut late) = (0, 0);
    soon(async {
        while !ends.is_empty() {
            most = most.max(unread(server).await);
            while let Some(end) = ends.try_join_next() {
                let end = end.expect("it does not panic");
                // Either it took too long, or there was no room for it.
                assert!(["4", "8", "408", "429"].contains(&&*end), "{end}");
                late += usize::from(end == "4" || end == "408");
            }
        }
    })
    .await;
    assert!(late > 0, "those that had room have waited for the deadline");
    assert!((1..=UNREAD_BYTES_MAX).contains(&most), "{most} bytes were kept");
    soon(async { while unread(server).await > 0 {} }).await;
    // The connection goes on.
    lease(&mut fencepost_proto::v1::lock_service_client::LockServiceClient::new(one), "c").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_frame_ends_its_session() {
    let world = world_with(1, &NodeConfig::new(0), impatient(Duration::from_millis(200))).await;
    let mut talk = Framed::begun(&world.servers[0]).await;
    let half = [hello("c"), ping(2), (1_u32 << 20).to_le_bytes().to_vec(), vec![0; 1_000]];
    talk.put(&half.concat()).await;
    talk.welcome().await;
    assert_eq!(talk.hear().await.request_id, 2);
    let failure = talk.last_words().await;
    assert_eq!((&*failure.code, failure.retryable), ("request_unfinished", true));
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_frames_of_all_connections_have_a_bound() {
    let world = world_with(1, &NodeConfig::new(0), Tuning::default()).await;
    let server = &world.servers[0];
    let mut talks = Vec::new();
    let half = [(3_u32 << 19).to_le_bytes().to_vec(), vec![0; 1_400_000]].concat();
    let refused = loop {
        let mut talk = Framed::silent(server).await;
        talk.put(&[&CLIENT_PREFACE[..], &hello("c"), &half].concat()).await;
        talk.preface().await;
        talk.welcome().await;
        assert!(unread(server).await <= 128 << 20);
        // An answer to what follows can only come from one whose frame was given up.
        let heard = tokio::select! {
            heard = talk.hear() => Some(heard),
            () = until_read(server, talks.len() + 1, half.len()) => None,
        };
        match heard {
            Some(heard) => break heard.failure.expect("it is refused"),
            None => talks.push(talk),
        }
    };
    assert_eq!((&*refused.code, refused.retryable), ("overloaded", true));
    assert!(talks.len() > 80, "{} had room", talks.len());
    drop(talks);
    soon(async { while unread(server).await > 0 {} }).await;
}

/// Waits until so many halves were read, but for what each connection may have anyway.
async fn until_read(server: &Server, halves: usize, each: usize) {
    const FREE: usize = 8 << 10;
    while unread(server).await < (halves * (each - FREE)) as u64 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_body_is_refused_at_the_deadline() {
    let world = world_with(1, &NodeConfig::new(0), impatient(Duration::from_millis(200))).await;
    let mut stream = TcpStream::connect(world.servers[0].address()).await.expect("it listens");
    let head = "POST /v1/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                Content-Length: 100\r\n\r\n{\"key\":";
    stream.write_all(head.as_bytes()).await.expect("it reads");
    let mut answer = vec![0; 16];
    soon(stream.read_exact(&mut answer)).await.expect("it answers");
    assert_eq!(answer, b"HTTP/1.1 408 Req");
}
