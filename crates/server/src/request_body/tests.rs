use std::convert::Infallible;

use fencepost_proto::{DESCRIPTORS, ETCD_DESCRIPTORS};
use http_body_util::BodyExt as _;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio::sync::mpsc::{self, Sender};

use super::*;

impl From<Infallible> for BodyError {
    fn from(never: Infallible) -> BodyError {
        match never {}
    }
}

/// A body that a test writes piece by piece.
#[derive(Debug)]
struct Written(mpsc::Receiver<Bytes>);

impl Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

/// A message of so many bytes, as gRPC writes it.
fn message(length: usize) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(length).expect("it is small").to_be_bytes());
    bytes.resize(PREFIX_BYTES + length, 7);
    bytes
}

fn body(kind: Kind) -> (Sender<Bytes>, RequestBody<Written>, Arc<ByteBudget>) {
    let server = ByteBudget::for_server();
    let budget = ByteBudget::for_connection(&server);
    let (sender, pieces) = mpsc::channel(8);
    (sender, RequestBody::new(Written(pieces), kind, &budget, PATIENCE), server)
}

async fn send(sender: &Sender<Bytes>, bytes: &[u8]) {
    sender.send(Bytes::copy_from_slice(bytes)).await.expect("the body is read");
}

async fn next(body: &mut RequestBody<Written>) -> Result<Bytes, BodyError> {
    let frame = body.frame().await.expect("there is more")?;
    Ok(frame.into_data().expect("it is data"))
}

fn refused(result: Result<Bytes, BodyError>) -> &'static str {
    let error = result.expect_err("it is refused");
    BodyError::failure_in(&error).expect("it says why").code
}

#[tokio::test]
async fn the_decoder_sees_complete_messages_only() {
    let (sender, mut body, server) = body(Kind::Messages);
    let bytes = [message(10), message(3_000), message(0), message(70)].concat();
    for piece in [&bytes[..3], &bytes[3..40], &bytes[40..900], &bytes[900..3_027]] {
        send(&sender, piece).await;
    }
    assert_eq!(next(&mut body).await.expect("it goes on"), message(10));
    let more = next(&mut body).await.expect("it goes on");
    assert_eq!(more, [message(3_000), message(0)].concat());
    send(&sender, &bytes[3_027..]).await;
    assert_eq!(next(&mut body).await.expect("it goes on"), message(70));
    assert_eq!(server.used(), 0);
}

#[tokio::test]
async fn bytes_without_their_message_are_charged_until_it_is_complete() {
    let (sender, mut body, server) = body(Kind::Message);
    let bytes = message(1_000);
    send(&sender, &bytes[..600]).await;
    let waker = std::task::Waker::noop();
    let mut cx = Context::from_waker(waker);
    assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
    assert_eq!(server.used(), 600);
    send(&sender, &bytes[600..]).await;
    assert_eq!(next(&mut body).await.expect("it goes on"), bytes);
    assert_eq!(server.used(), 0);
    send(&sender, &bytes[..600]).await;
    assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
    drop(body);
    assert_eq!(server.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_message_ends_its_request_at_the_deadline() {
    for kind in [Kind::Plain, Kind::Message, Kind::Messages] {
        let (sender, mut body, _) = body(kind);
        send(&sender, &message(100)[..50]).await;
        if kind == Kind::Plain {
            next(&mut body).await.expect("nothing is kept back");
        }
        assert_eq!(refused(next(&mut body).await), "request_unfinished", "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_between_two_messages_has_no_deadline() {
    let (sender, mut body, _) = body(Kind::Messages);
    send(&sender, &message(10)).await;
    next(&mut body).await.expect("it goes on");
    let much_later = tokio::time::timeout(10 * PATIENCE, body.frame()).await;
    much_later.expect_err("it waits for the next message");
    // The time of the next message begins with its first byte.
    send(&sender, &message(10)[..6]).await;
    let early = tokio::time::timeout(PATIENCE / 2, body.frame()).await;
    early.expect_err("its time is not over");
    send(&sender, &message(10)[6..]).await;
    assert_eq!(next(&mut body).await.expect("it goes on"), message(10));
}

#[tokio::test]
async fn what_does_not_fit_into_the_budget_is_refused() {
    let server = ByteBudget::for_server();
    let budget = ByteBudget::for_connection(&server);
    let each = 1 << 20;
    let mut bodies = Vec::new();
    let mut fitted = 0;
    let refused = loop {
        assert!(fitted <= limits::CONNECTION_UNREAD_BYTES_MAX, "{fitted} bytes had room");
        let (sender, pieces) = mpsc::channel(8);
        let mut body = RequestBody::new(Written(pieces), Kind::Message, &budget, PATIENCE);
        send(&sender, &message(each + 1)[..each]).await;
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match Pin::new(&mut body).poll_frame(&mut cx) {
            Poll::Pending => fitted += each,
            Poll::Ready(Some(Err(why))) => {
                break BodyError::failure_in(&why).expect("it says why");
            }
            Poll::Ready(other) => panic!("{other:?}"),
        }
        bodies.push((sender, body));
    };
    assert_eq!((refused.code, refused.retryable), ("overloaded", true));
    assert_eq!(fitted, limits::CONNECTION_UNREAD_BYTES_MAX);
    assert_eq!(server.used(), fitted);
}

#[tokio::test]
async fn a_message_that_is_too_long_is_left_to_its_decoder() {
    let (sender, mut body, server) = body(Kind::Message);
    let bytes = message(limits::MESSAGE_BYTES_MAX + 1);
    send(&sender, &bytes[..4]).await;
    send(&sender, &bytes[4..9]).await;
    assert_eq!(next(&mut body).await.expect("it goes on"), bytes[..9]);
    assert_eq!(server.used(), 0);
}

#[test]
fn every_call_with_a_stream_of_messages_is_known() {
    let mut streaming = Vec::new();
    for set in [DESCRIPTORS, ETCD_DESCRIPTORS] {
        let files = FileDescriptorSet::decode(set).expect("it was encoded with this build").file;
        for file in &files {
            for service in &file.service {
                let methods = service.method.iter().filter(|one| one.client_streaming());
                let path = |name: &str| format!("/{}.{}/{name}", file.package(), service.name());
                streaming.extend(methods.map(|one| path(one.name())));
            }
        }
    }
    streaming.sort();
    streaming.dedup();
    let mut known: Vec<&str> =
        STREAMING.into_iter().filter(|path| !path.starts_with("/grpc.")).collect();
    known.sort_unstable();
    assert_eq!(streaming, known);
}
