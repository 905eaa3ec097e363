//! Calls that go without layers are answered as the layers answer them.

use bytes::{BufMut as _, Bytes, BytesMut};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::v3lockpb::{LockRequest, UnlockRequest};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use hyper::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Channel;
use tower_service::Service as _;

use crate::support::{channel, world};

/// Both mean the same. The second one goes the long way.
const SHORT_WAY: &str = "application/grpc";
const LONG_WAY: &str = "application/grpc+proto";

/// A whole answer.
#[derive(Debug, PartialEq)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    data: Vec<Bytes>,
    trailers: Option<HeaderMap>,
}

/// One message with its prefix.
fn framed(message: &impl Message) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.encoded_len()).expect("it is small"));
    message.encode(&mut bytes).expect("there is room");
    bytes.freeze()
}

async fn ask(
    channel: &Channel,
    kind: &str,
    call: &str,
    body: &[Bytes],
    more: &HeaderMap,
) -> Answer {
    let frames: Vec<Result<Frame<Bytes>, Status>> =
        body.iter().cloned().map(Frame::data).map(Ok).collect();
    let service = if call == "Range" { "etcdserverpb.KV" } else { "v3lockpb.Lock" };
    let request = Request::post(format!("http://server/{service}/{call}"))
        .header(CONTENT_TYPE, kind)
        .header("te", "trailers")
        .body(Body::new(StreamBody::new(tokio_stream::iter(frames))));
    let mut request = request.expect("it is a request");
    request.headers_mut().extend(more.clone());
    let mut channel = channel.clone();
    std::future::poll_fn(|cx| channel.poll_ready(cx)).await.expect("the server is there");
    let response = channel.call(request).await.expect("it is answered");
    let (head, mut body) = response.into_parts();
    let (mut headers, mut data, mut trailers) = (head.headers, Vec::new(), None);
    headers.remove(DATE);
    while let Some(frame) = body.frame().await {
        match frame.expect("it goes on").into_data() {
            Ok(bytes) => data.push(bytes),
            Err(frame) => trailers = frame.into_trailers().ok(),
        }
    }
    Answer { status: head.status, headers, data, trailers }
}

/// Asks both ways, and again the long way: what is asked changes nothing the second time.
async fn ask_both(channel: &Channel, call: &str, body: &[Bytes], more: &HeaderMap) -> Answer {
    ask(channel, LONG_WAY, call, body, more).await;
    let short = ask(channel, SHORT_WAY, call, body, more).await;
    let long = ask(channel, LONG_WAY, call, body, more).await;
    assert_eq!(short, long, "{call} {body:?} {more:?}");
    short
}

fn code(answer: &Answer) -> Option<&str> {
    let trailers = answer.trailers.as_ref().unwrap_or(&answer.headers);
    trailers.get("grpc-status").and_then(|code| code.to_str().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ways_answer_the_same() {
    let world = world(1).await;
    let channel = channel(&world.servers[0]).await;
    let grant = pb::LeaseGrantRequest { ttl: 60, id: 0 };
    let granted =
        LeaseClient::new(channel.clone()).lease_grant(grant).await.expect("it is granted");
    let lease = granted.into_inner().id;
    let none = HeaderMap::new();
    let held = framed(&LockRequest { name: "l".into(), lease });
    let lost = framed(&LockRequest { name: "l".into(), lease: lease + 1 });
    let free = framed(&UnlockRequest { key: "nobody".into() });
    let range = framed(&pb::RangeRequest { key: "l".into(), ..pb::RangeRequest::default() });
    let future = framed(&pb::RangeRequest {
        key: "l".into(),
        revision: 1 << 40,
        ..pb::RangeRequest::default()
    });
    let cases: [(&str, Vec<Bytes>, &str); 15] = [
        ("Range", vec![range], "0"),
        ("Range", vec![future], "11"),
        ("Range", vec![framed(&pb::RangeRequest::default())], "3"),
        ("Lock", vec![held.clone()], "0"),
        ("Lock", vec![held.clone(), Bytes::new()], "0"),
        ("Lock", vec![held.slice(..3), held.slice(3..)], "0"),
        ("Lock", vec![held.slice(..7), held.slice(7..)], "0"),
        ("Lock", vec![lost], "2"),
        ("Unlock", vec![free.clone()], "0"),
        ("Unlock", vec![framed(&UnlockRequest::default())], "3"),
        // No message, half a message, one and a half, something else, something compressed.
        ("Lock", vec![], "13"),
        ("Lock", vec![held.slice(..held.len() - 1)], "13"),
        ("Lock", vec![held.clone(), held.slice(..4)], "13"),
        ("Unlock", vec![Bytes::from_static(b"\0\0\0\0\x01\xff")], "13"),
        ("Unlock", vec![[&[1][..], &free[1..]].concat().into()], "13"),
    ];
    for (call, body, expected) in cases {
        let answer = ask_both(&channel, call, &body, &none).await;
        assert_eq!(code(&answer), Some(expected), "{call} {body:?} {answer:?}");
    }
    let large = framed(&UnlockRequest { key: vec![b'k'; 1 << 20].into() });
    let answer = ask_both(&channel, "Unlock", &[large], &none).await;
    assert_ne!(code(&answer), Some("0"), "no key is so long");
    let encoded = HeaderMap::from_iter([(
        hyper::header::HeaderName::from_static("grpc-encoding"),
        HeaderValue::from_static("gzip"),
    )]);
    let answer = ask_both(&channel, "Unlock", &[free], &encoded).await;
    assert_eq!(code(&answer), Some("12"));
}
