//! A session without HTTP/2: messages with their lengths on a plain connection.
//!
//! All that has come is read at once and handed on together; all that waits is written at once.
//! `docs/session.md` describes what is said.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fencepost_proto::framing::{self, CLIENT_PREFACE, Frames, SERVER_PREFACE};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::link::{self, ANSWER_LEN_MAX, LinkEvent};
use super::outgoing::Outgoing;
use crate::core::LinkId;

/// How long an endpoint may take to answer the preface. One that speaks HTTP may wait for more of it,
/// and gRPC must still be tried before the session gives up on the endpoint.
const PREFACE_PATIENCE: Duration = Duration::from_millis(500);

/// Why an endpoint cannot be talked to like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unspoken {
    /// It has answered something else.
    Other,
    /// It has ended the connection.
    Ended,
    /// It says nothing.
    Silent,
}

impl fmt::Display for Unspoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unspoken::Other => "speaks something else than sessions without gRPC",
            Unspoken::Ended => "has ended the connection at its beginning",
            Unspoken::Silent => "accepts connections and says nothing",
        })
    }
}

/// A connection on which both prefaces were said.
pub(super) struct Wire {
    stream: TcpStream,
    frames: Frames,
    /// Bytes that are to be sent, and how many of them were.
    output: Vec<u8>,
    sent: usize,
}

/// Connects. An error, if nobody is there.
pub(super) async fn open(host: &str, timeout: Duration) -> Result<Result<Wire, Unspoken>, String> {
    let connected = tokio::time::timeout(timeout, TcpStream::connect(host)).await;
    let stream = match connected {
        Ok(connected) => connected.map_err(|why| format!("cannot connect: {why}"))?,
        Err(_) => return Err("cannot connect in time".to_owned()),
    };
    // Without it answers come later, and nothing is wrong.
    let _ = stream.set_nodelay(true);
    let greeted = tokio::time::timeout(PREFACE_PATIENCE, greet(stream)).await;
    // An endpoint that does not know the preface may close the connection hard.
    Ok(greeted.map_or(Err(Unspoken::Silent), |greeted| greeted.unwrap_or(Err(Unspoken::Ended))))
}

async fn greet(mut stream: TcpStream) -> io::Result<Result<Wire, Unspoken>> {
    stream.write_all(&CLIENT_PREFACE).await?;
    let mut frames = Frames::new(ANSWER_LEN_MAX);
    loop {
        match frames.begins_with(&SERVER_PREFACE) {
            Some(true) => return Ok(Ok(Wire { stream, frames, output: Vec::new(), sent: 0 })),
            Some(false) => return Ok(Err(Unspoken::Other)),
            None => {}
        }
        if stream.read_buf(frames.room()).await? == 0 {
            return Ok(Err(Unspoken::Ended));
        }
    }
}

/// Writes what goes out and reads what comes in, to the end.
pub(super) async fn read(
    id: LinkId,
    mut wire: Wire,
    outgoing: Outgoing,
    events: &mpsc::Sender<LinkEvent>,
) -> Result<(), String> {
    loop {
        let frames = poll_fn(|cx| wire.poll_frames(cx, &outgoing)).await?;
        let Some(last) = frames.last() else { return Ok(()) };
        // The last words of a server belong to no request.
        let end = last.failure.as_ref().filter(|_| last.request_id == 0);
        let end = end.map(|failure| failure.message.clone());
        if events.send(LinkEvent::Frames(id, frames)).await.is_err() {
            return Ok(());
        }
        if let Some(why) = end {
            return Err(why);
        }
    }
}

impl Wire {
    /// All frames of one read; none, if there will be no more.
    fn poll_frames(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &Outgoing,
    ) -> Poll<Result<link::Frames, String>> {
        loop {
            let mut frames = Vec::new();
            while let Some(frame) = self.frames.message().map_err(|why| why.to_string())? {
                frames.push(frame);
            }
            if !frames.is_empty() {
                return Poll::Ready(Ok(frames));
            }
            if let Poll::Ready(Err(why)) = self.poll_write(cx, outgoing) {
                return Poll::Ready(Err(why.to_string()));
            }
            let read = ready!(pin!(self.stream.read_buf(self.frames.room())).poll(cx));
            if read.map_err(|why| why.to_string())? == 0 {
                return Poll::Ready(Ok(Vec::new()));
            }
        }
    }

    /// Writes until nothing waits, or the connection takes no more.
    fn poll_write(&mut self, cx: &mut Context<'_>, outgoing: &Outgoing) -> Poll<io::Result<()>> {
        loop {
            while self.sent < self.output.len() {
                let unsent = self.output.get(self.sent..).unwrap_or_default();
                let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, unsent))?;
                if sent == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.sent += sent;
            }
            self.output.clear();
            framing::rest(&mut self.output);
            self.sent = 0;
            ready!(outgoing.poll_take(cx, |frame| framing::put(&frame, &mut self.output)));
        }
    }
}
