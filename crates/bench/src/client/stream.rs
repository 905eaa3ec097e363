//! A session of Fencepost on a connection of its own, greeted, at the leader.
//!
//! Without HTTP/2 there is no reader beside the caller: a request is written, and its answer is read,
//! as the clients of the other systems do it. Over gRPC the library has a task for every connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, bail, ensure};
use fencepost_proto::framing::{self, CLIENT_PREFACE, Frames, SERVER_PREFACE};
use fencepost_proto::v1;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use fencepost_proto::v1::session_request::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// Frames that may wait to be written.
const FRAMES_MAX: usize = 4_096;
/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 32 << 20;

/// No two clients may have the same name.
static NEXT_CLIENT: AtomicU64 = AtomicU64::new(1);

/// What carries a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carrier {
    /// Messages with their lengths, and gRPC with an earlier build that knows nothing else.
    Best,
    Grpc,
}

/// A session that has been greeted.
pub(super) struct Stream {
    requests: Requests,
    answers: Answers,
}

/// Where requests go.
pub(super) enum Requests {
    Framed(OwnedWriteHalf, Vec<u8>),
    Grpc(mpsc::Sender<v1::SessionRequest>),
}

/// Where answers come from.
pub(super) enum Answers {
    Framed(OwnedReadHalf, Frames),
    Grpc(Box<Streaming<v1::SessionResponse>>),
}

impl Requests {
    /// Sends all of these at once.
    pub(super) async fn send(
        &mut self,
        requests: impl IntoIterator<Item = v1::SessionRequest>,
    ) -> anyhow::Result<()> {
        match self {
            Requests::Framed(socket, output) => {
                output.clear();
                for request in requests {
                    framing::put(&request, output);
                }
                socket.write_all(output).await?;
            }
            Requests::Grpc(sender) => {
                for request in requests {
                    sender.send(request).await?;
                }
            }
        }
        Ok(())
    }
}

impl Answers {
    /// The next answer. An error, if there is none.
    pub(super) async fn next(&mut self) -> anyhow::Result<v1::SessionResponse> {
        match self {
            Answers::Framed(socket, frames) => loop {
                if let Some(answer) = frames.message()? {
                    return Ok(answer);
                }
                ensure!(socket.read_buf(frames.room()).await? > 0, "the connection has ended");
            },
            Answers::Grpc(answers) => answers.message().await?.context("the stream has ended"),
        }
    }
}

impl Stream {
    /// Opens a session with the leader, whichever member is asked.
    pub(super) async fn open(address: SocketAddr, carrier: Carrier) -> anyhow::Result<Stream> {
        let (stream, header) = Stream::greet(&address.to_string(), carrier).await?;
        let elsewhere = header.leader_id != 0 && header.leader_id != header.member_id;
        if elsewhere && !header.leader_address.is_empty() {
            return Ok(Stream::greet(&header.leader_address, carrier).await?.0);
        }
        Ok(stream)
    }

    /// Opens a session with this member.
    pub(super) async fn greet(
        address: &str,
        carrier: Carrier,
    ) -> anyhow::Result<(Stream, v1::Header)> {
        let number = NEXT_CLIENT.fetch_add(1, Ordering::Relaxed);
        let client_id = format!("bench-{}-{number}", std::process::id());
        let hello =
            v1::SessionHello { client_id, version_min: 1, version_max: 1, ..Default::default() };
        let request = Some(Request::Hello(hello));
        let hello = v1::SessionRequest { request_id: 1, once: None, request };
        let framed = match carrier {
            Carrier::Best => framed(address, &hello).await?,
            Carrier::Grpc => None,
        };
        let mut stream = match framed {
            Some(stream) => stream,
            None => grpc(address, hello).await?,
        };
        let welcome = stream.answers.next().await?;
        if let Some(failure) = welcome.failure {
            bail!("not welcome: {}", failure.message);
        }
        Ok((stream, welcome.header.unwrap_or_default()))
    }

    /// Sends one request.
    pub(super) async fn send(&mut self, request: v1::SessionRequest) -> anyhow::Result<()> {
        self.requests.send([request]).await
    }

    pub(super) async fn next(&mut self) -> anyhow::Result<v1::SessionResponse> {
        self.answers.next().await
    }

    pub(super) fn split(self) -> (Requests, Answers) {
        (self.requests, self.answers)
    }
}

/// Nothing, if the other side does not know this.
async fn framed(address: &str, hello: &v1::SessionRequest) -> anyhow::Result<Option<Stream>> {
    let mut socket = TcpStream::connect(address).await.context("cannot connect")?;
    socket.set_nodelay(true)?;
    let mut output = CLIENT_PREFACE.to_vec();
    framing::put(hello, &mut output);
    socket.write_all(&output).await?;
    let mut frames = Frames::new(ANSWER_BYTES_MAX);
    let is_known = loop {
        if let Some(is_known) = frames.begins_with(&SERVER_PREFACE) {
            break is_known;
        }
        if socket.read_buf(frames.room()).await? == 0 {
            break false;
        }
    };
    let (read, write) = socket.into_split();
    let requests = Requests::Framed(write, output);
    Ok(is_known.then_some(Stream { requests, answers: Answers::Framed(read, frames) }))
}

async fn grpc(address: &str, hello: v1::SessionRequest) -> anyhow::Result<Stream> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
    let channel = endpoint.connect().await.context("cannot connect")?;
    let (requests, frames) = mpsc::channel(FRAMES_MAX);
    requests.send(hello).await?;
    let opened = LockServiceClient::new(channel).session(ReceiverStream::new(frames)).await?;
    let answers = Answers::Grpc(Box::new(opened.into_inner()));
    Ok(Stream { requests: Requests::Grpc(requests), answers })
}
