//! What is said on a connection: answers become bytes, and bytes are sent.
//!
//! The connection's task does that when it is polled. Whoever has an answer at another time may do it
//! in its place, on its own thread, if the connection takes all of it at once: waking the task would
//! take longer.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use fencepost_proto::framing::{self, SERVER_PREFACE};
use fencepost_proto::v1;
use tokio::io::AsyncWrite as _;
use tokio::net::tcp::OwnedWriteHalf;
use tonic::Status;
use tonic_types::StatusExt as _;

use crate::limits;
use crate::outbox::Speak;
use crate::session::Session;

/// The voice of one connection, for its task and for whoever has an answer.
pub(super) struct Voice {
    session: Arc<Session>,
    mouth: Mutex<Mouth>,
}

/// What one connection says.
pub(super) struct Mouth {
    stream: OwnedWriteHalf,
    /// Bytes that are to be sent, and how many of them were.
    output: Vec<u8>,
    sent: usize,
    /// Whether something was sent since that was asked last.
    has_sent: bool,
    /// Nothing more is said after what is in `output`.
    is_over: bool,
}

impl Voice {
    /// A voice that answers the preface first.
    pub(super) fn new(session: Arc<Session>, stream: OwnedWriteHalf) -> Arc<Voice> {
        let mouth = Mutex::new(Mouth::new(stream, SERVER_PREFACE.to_vec()));
        let voice = Arc::new(Voice { session, mouth });
        let speaker = Arc::downgrade(&voice);
        voice.session.set_speaker(speaker);
        voice
    }

    pub(super) fn mouth(&self) -> MutexGuard<'_, Mouth> {
        // What was written down is whole, whoever has panicked.
        self.mouth.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Speak for Voice {
    fn speak(&self) -> bool {
        // If its task is at it, that is left to it.
        let Ok(mut mouth) = self.mouth.try_lock() else { return false };
        // It has not taken all of what was said before.
        if mouth.unsent() > 0 {
            return false;
        }
        let output = &mut mouth.output;
        while output.len() < limits::UNSENT_BYTES_MAX
            && self.session.next_answers(&mut |response| framing::put(&response, output))
        {}
        let is_said = mouth.try_send() && !mouth.is_full();
        mouth.rest();
        is_said && !self.session.is_finished()
    }
}

impl Mouth {
    fn new(stream: OwnedWriteHalf, output: Vec<u8>) -> Mouth {
        Mouth { stream, output, sent: 0, has_sent: false, is_over: false }
    }

    /// Writes down what is to be said, as much as may wait to be sent. Whether there is more.
    pub(super) fn write_down(&mut self, session: &Session, cx: &mut Context<'_>) -> bool {
        while !self.is_over {
            if self.is_full() {
                return true;
            }
            let output = &mut self.output;
            match session.poll_answers(cx, &mut |response| framing::put(&response, output)) {
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

    /// Whether so much waits to be sent that nothing more is taken.
    pub(super) fn is_full(&self) -> bool {
        self.unsent() >= limits::UNSENT_BYTES_MAX
    }

    /// Whether nothing more is said after what is written down.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether something was sent since this was asked last.
    pub(super) fn has_sent(&mut self) -> bool {
        std::mem::take(&mut self.has_sent)
    }

    /// Sends what is written down, in one piece if the system takes it.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.unsent() > 0 {
            let unsent = self.output.get(self.sent..).unwrap_or_default();
            let sent = ready!(Pin::new(&mut self.stream).poll_write(cx, unsent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.note_sent(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what the system takes at once. Whether that is all.
    fn try_send(&mut self) -> bool {
        let unsent = self.output.get(self.sent..).unwrap_or_default();
        // Whatever is wrong with the connection, its task finds out as well.
        if let Ok(sent) = self.stream.try_write(unsent) {
            self.note_sent(sent);
        }
        self.unsent() == 0
    }

    fn note_sent(&mut self, sent: usize) {
        self.sent += sent;
        self.has_sent |= sent > 0;
        if self.unsent() == 0 {
            self.output.clear();
            self.sent = 0;
        } else if self.sent >= limits::UNSENT_BYTES_MAX {
            // Room for what follows, although the end is never reached.
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    pub(super) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    /// An idle connection keeps little room for what it may say one day.
    pub(super) fn rest(&mut self) {
        framing::rest(&mut self.output);
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn what_the_system_does_not_take_at_once_is_kept_for_the_task() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let stream = TcpStream::connect(address).await.expect("it is there");
        let (mut theirs, _) = listener.accept().await.expect("somebody connects");
        // More than any system keeps for somebody who does not read.
        let said: Vec<u8> = (0..32 << 20_u32).map(|number: u32| number.to_le_bytes()[1]).collect();
        let (_ours, out) = stream.into_split();
        let mut mouth = Mouth::new(out, said.clone());
        mouth.stream.writable().await.expect("it is open");
        assert!(!mouth.try_send(), "a part of it waits");
        assert!(mouth.has_sent() && !mouth.has_sent());
        let hears = tokio::spawn(async move {
            let mut heard = Vec::new();
            theirs.read_to_end(&mut heard).await.map(|_| heard)
        });
        poll_fn(|cx| mouth.poll_send(cx)).await.expect("the client reads now");
        assert_eq!(mouth.unsent(), 0);
        drop(mouth);
        let heard = hears.await.expect("it ends").expect("the connection is sound");
        assert!(heard == said, "all of it, once, in order");
    }
}
