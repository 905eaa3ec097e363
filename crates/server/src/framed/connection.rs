//! One connection that has said its preface: one task that reads, asks, answers and writes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fencepost_proto::framing::{self, Frames, SERVER_PREFACE, Unframed};
use fencepost_proto::v1;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::error::{Failure, Wrong};
use crate::limits;
use crate::session::Session;

/// Messages for which an idle connection keeps room.
const READY_IDLE_MAX: usize = 4;

/// How a talk has ended.
pub(super) enum Ending {
    /// Everything was said that there was to say.
    Said,
    /// The client has gone.
    Gone,
}

/// One connection. Its session ends with it.
pub(super) struct Connection {
    stream: TcpStream,
    frames: Frames,
    session: Arc<Session>,
    /// Messages that are made and not yet written down.
    ready: VecDeque<v1::SessionResponse>,
    /// Bytes that are to be sent, and how many of them were.
    output: Vec<u8>,
    sent: usize,
    /// How long the client may read nothing, and until when that is if it does not.
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// Nothing more is taken from the client.
    is_deaf: bool,
    /// Nothing more is said after what is in `output`.
    is_over: bool,
}

impl Connection {
    /// The answer to the preface goes out with the first answer, or before it.
    pub(super) fn new(
        stream: TcpStream,
        frames: Frames,
        session: Arc<Session>,
        patience: Duration,
    ) -> Connection {
        Connection {
            stream,
            frames,
            session,
            ready: VecDeque::new(),
            output: SERVER_PREFACE.to_vec(),
            sent: 0,
            patience,
            stalled: None,
            is_deaf: false,
            is_over: false,
        }
    }

    /// Talks until everything is said, or the client is gone.
    pub(super) async fn talk(&mut self) -> io::Result<Ending> {
        poll_fn(|cx| self.poll_talk(cx)).await
    }

    /// Takes nothing more, and says this behind everything else.
    pub(super) fn finish(&mut self, why: Wrong) {
        self.is_deaf = true;
        self.session.finish(Failure::from(why).into());
    }

    pub(super) async fn linger(&mut self) -> io::Result<()> {
        super::linger(&mut self.stream).await
    }

    fn poll_talk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Ending>> {
        loop {
            self.take_frames();
            let has_more = self.write_down(cx);
            match self.poll_send(cx)? {
                Poll::Ready(()) if self.is_over => return Poll::Ready(Ok(Ending::Said)),
                Poll::Ready(()) if has_more => continue,
                Poll::Ready(()) => {}
                Poll::Pending if self.poll_stalled(cx).is_ready() => {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                // Whoever does not read is not listened to.
                Poll::Pending if self.unsent() >= limits::UNSENT_BYTES_MAX => return Poll::Pending,
                Poll::Pending => {}
            }
            if self.is_deaf {
                return Poll::Pending;
            }
            let read = pin!(self.stream.read_buf(self.frames.room())).poll(cx)?;
            match read {
                // It has gone, or will say nothing more; what it waits for must not outlive it.
                Poll::Ready(0) => return Poll::Ready(Ok(Ending::Gone)),
                Poll::Ready(_) => {}
                Poll::Pending => {
                    self.rest();
                    return Poll::Pending;
                }
            }
        }
    }

    /// Asks for everything that has come whole.
    fn take_frames(&mut self) {
        let mut has_more = !self.is_deaf;
        while has_more {
            let mut turn = self.session.turn();
            let mut wrong = None;
            let mut left = limits::FRAMES_PER_TURN_MAX;
            while has_more && left > 0 {
                match self.frames.message() {
                    Ok(Some(frame)) => has_more = turn.take(frame),
                    Ok(None) => break,
                    Err(why) => {
                        wrong = Some(why);
                        has_more = false;
                    }
                }
                left -= 1;
            }
            turn.send();
            match wrong {
                // Whoever sent it must not go on believing that it is heard.
                Some(Unframed::TooLong(_)) => {
                    self.finish(Wrong::TooLarge(limits::MESSAGE_BYTES_MAX));
                }
                Some(why) => self.finish(Wrong::Unreadable(why.to_string())),
                None if !has_more => {
                    self.is_deaf = true;
                    self.session.hang_up();
                }
                None => has_more = left == 0,
            }
        }
    }

    /// Writes down what is to be said, as much as may wait to be sent. Whether there is more.
    fn write_down(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.is_over {
            for response in self.ready.drain(..) {
                framing::put(&response, &mut self.output);
            }
            if self.unsent() >= limits::UNSENT_BYTES_MAX {
                return true;
            }
            match self.session.poll_answers(cx, &mut self.ready) {
                Poll::Ready(Some(Ok(()))) => {}
                Poll::Ready(Some(Err(status))) => {
                    framing::put(&super::farewell(told(&status)), &mut self.output);
                    self.is_over = true;
                }
                Poll::Ready(None) => self.is_over = true,
                Poll::Pending => return false,
            }
        }
        false
    }

    fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Sends what is written down, in one piece if the system takes it.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent() > 0 {
            let unsent = self.output.get(self.sent..).unwrap_or_default();
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, unsent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
            self.stalled = None;
            // Room for what follows, although the end is never reached.
            if self.sent >= limits::UNSENT_BYTES_MAX {
                self.output.drain(..self.sent);
                self.sent = 0;
            }
        }
        self.output.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Ready, if the client has read nothing for too long.
    fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let patience = self.patience;
        let until = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        until.as_mut().poll(cx)
    }

    /// An idle connection keeps little room for what it may say or hear one day.
    fn rest(&mut self) {
        self.frames.rest();
        framing::rest(&mut self.output);
        if self.ready.capacity() > READY_IDLE_MAX {
            self.ready = VecDeque::new();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.session.end();
    }
}

/// The failure that a status was made from.
fn told(status: &Status) -> v1::Failure {
    let info = status.get_details_error_info();
    let is_set = |name: &str| {
        let found = info.as_ref().and_then(|info| info.metadata.get(name));
        found.is_some_and(|value| value == "true")
    };
    v1::Failure {
        indeterminate: is_set("indeterminate"),
        retryable: is_set("retryable"),
        message: status.message().to_owned(),
        code: info.map(|info| info.reason).unwrap_or_default(),
    }
}
