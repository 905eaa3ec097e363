//! A client's end of a session without HTTP/2.

use std::io;

use fencepost_proto::framing::{self, CLIENT_PREFACE, Frames, SERVER_PREFACE};
use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use fencepost_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{granted, lease_of_a_minute, soon};

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 32 << 20;

pub(crate) struct Framed {
    pub(crate) stream: TcpStream,
    frames: Frames,
}

pub(crate) fn frame(request_id: u64, seq: Option<u64>, request: Request) -> Vec<u8> {
    let once = seq.map(|seq| v1::Once { seq, ack_upto: 0 });
    let mut bytes = Vec::new();
    let frame = v1::SessionRequest { request_id, once, request: Some(request) };
    framing::put(&frame, &mut bytes);
    bytes
}

pub(crate) fn hello(client: &str) -> Vec<u8> {
    let hello = v1::SessionHello {
        client_id: client.into(),
        version_min: 1,
        version_max: 1,
        ..Default::default()
    };
    frame(1, None, Request::Hello(hello))
}

pub(crate) fn ping(request_id: u64) -> Vec<u8> {
    frame(request_id, None, Request::Ping(v1::Ping {}))
}

impl Framed {
    /// A connection on which nothing was said.
    pub(crate) async fn silent(server: &Server) -> Framed {
        let stream = TcpStream::connect(server.address()).await.expect("it listens");
        stream.set_nodelay(true).expect("it is a socket");
        Framed { stream, frames: Frames::new(ANSWER_BYTES_MAX) }
    }

    /// With both prefaces said.
    pub(crate) async fn begun(server: &Server) -> Framed {
        let mut talk = Framed::silent(server).await;
        talk.put(&CLIENT_PREFACE).await;
        talk.preface().await;
        talk
    }

    pub(crate) async fn open(server: &Server, client: &str) -> Framed {
        let mut talk = Framed::begun(server).await;
        talk.put(&hello(client)).await;
        talk.welcome().await;
        talk
    }

    pub(crate) async fn put(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.expect("the server reads");
    }

    pub(crate) async fn say(&mut self, request_id: u64, seq: Option<u64>, request: Request) {
        self.put(&frame(request_id, seq, request)).await;
    }

    /// The server's preface.
    pub(crate) async fn preface(&mut self) {
        while self.frames.begins_with(&SERVER_PREFACE).is_none_or(|is_ours| {
            assert!(is_ours, "the server answers in kind");
            false
        }) {
            let read = soon(self.stream.read_buf(self.frames.room())).await;
            assert_ne!(read.expect("the connection goes on"), 0, "the connection goes on");
        }
    }

    /// The next answer; nothing, if the connection has ended.
    pub(crate) async fn next(&mut self) -> io::Result<Option<v1::SessionResponse>> {
        loop {
            if let Some(answer) = self.frames.message().map_err(io::Error::other)? {
                return Ok(Some(answer));
            }
            if soon(self.stream.read_buf(self.frames.room())).await? == 0 {
                return Ok(None);
            }
        }
    }

    pub(crate) async fn hear(&mut self) -> v1::SessionResponse {
        self.next().await.expect("the connection goes on").expect("the connection goes on")
    }

    pub(crate) async fn welcome(&mut self) {
        let welcome = self.hear().await;
        assert!(matches!(welcome.response, Some(Response::Welcome(_))), "{welcome:?}");
    }

    /// The last words of the server, which belong to no request, and its end.
    pub(crate) async fn last_words(&mut self) -> v1::Failure {
        let last = self.hear().await;
        assert_eq!(last.request_id, 0, "{last:?}");
        let failure = last.failure.unwrap_or_else(|| panic!("{:?} is no failure", last.response));
        assert_eq!(self.next().await.expect("it ends well"), None);
        failure
    }

    pub(crate) async fn lease(&mut self, request_id: u64, seq: u64, revoke_ms: i64) -> (i64, u64) {
        self.say(request_id, Some(seq), lease_of_a_minute(revoke_ms)).await;
        granted(&self.hear().await)
    }

    /// The next answer to an acquire that is not about its place.
    pub(crate) async fn decided(&mut self) -> (u64, v1::SessionAcquired) {
        loop {
            let heard = self.hear().await;
            match heard.response {
                Some(Response::Acquired(told))
                    if told.state() == v1::session_acquired::State::Queued => {}
                Some(Response::Acquired(told)) => return (heard.request_id, told),
                other => panic!("{other:?} {:?}", heard.failure),
            }
        }
    }
}
