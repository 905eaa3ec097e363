//! One connection that has said its preface: one task that reads, asks, answers and writes.

use std::future::poll_fn;
use std::io;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fencepost_proto::framing::{Frames, Unframed};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::Sleep;

use super::voice::{Mouth, Voice};
use crate::byte_budget::{ByteBudget, Charge};
use crate::error::{Failure, Wrong};
use crate::limits;
use crate::serve::Tuning;
use crate::session::Session;

/// How a talk has ended.
pub(super) enum Ending {
    /// Everything was said that there was to say.
    Said,
    /// The client has gone.
    Gone,
}

/// One connection. Its session ends with it.
pub(super) struct Connection {
    stream: OwnedReadHalf,
    frames: Frames,
    session: Ends,
    voice: Arc<Voice>,
    /// How long the client may read nothing, and until when that is if it does not.
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    /// What the part of a frame that has come is charged, and until when the rest must come.
    charge: Charge,
    frame_patience: Duration,
    frame_deadline: Option<Pin<Box<Sleep>>>,
    /// Nothing more is taken from the client.
    is_deaf: bool,
}

impl Connection {
    /// The answer to the preface goes out with the first answer, or before it.
    pub(super) fn new(
        stream: TcpStream,
        frames: Frames,
        session: Arc<Session>,
        budget: &Arc<ByteBudget>,
        tuning: &Tuning,
    ) -> Connection {
        let (stream, out) = stream.into_split();
        let voice = Voice::new(Arc::clone(&session), out);
        Connection {
            stream,
            frames,
            session: Ends(session),
            voice,
            patience: tuning.answer_patience,
            stalled: None,
            charge: Charge::new(&ByteBudget::for_connection(budget)),
            frame_patience: tuning.body_patience,
            frame_deadline: None,
            is_deaf: false,
        }
    }

    pub(super) fn session(&self) -> Arc<Session> {
        Arc::clone(&self.session.0)
    }

    /// Talks until everything is said, or the client is gone.
    pub(super) async fn talk(&mut self) -> io::Result<Ending> {
        let voice = Arc::clone(&self.voice);
        poll_fn(|cx| self.poll_talk(cx, &mut voice.mouth())).await
    }

    /// Takes nothing more, and says this behind everything else.
    pub(super) fn finish(&mut self, why: Failure) {
        self.is_deaf = true;
        self.session.finish(why.into());
    }

    /// Ends the connection. What the client still sends is read for a little while.
    pub(super) async fn linger(&mut self) -> io::Result<()> {
        let voice = Arc::clone(&self.voice);
        poll_fn(|cx| voice.mouth().poll_close(cx)).await?;
        super::hear_out(&mut self.stream).await;
        Ok(())
    }

    fn poll_talk(&mut self, cx: &mut Context<'_>, mouth: &mut Mouth) -> Poll<io::Result<Ending>> {
        self.session.awake();
        loop {
            self.take_frames();
            self.keep_part();
            let has_more = mouth.write_down(&self.session, cx);
            match mouth.poll_send(cx)? {
                Poll::Ready(()) if mouth.is_over() => return Poll::Ready(Ok(Ending::Said)),
                Poll::Ready(()) if has_more => continue,
                Poll::Ready(()) => self.stalled = None,
                Poll::Pending if self.poll_stalled(cx, mouth.has_sent()).is_ready() => {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                // Whoever does not read is not listened to.
                Poll::Pending if mouth.is_full() => return Poll::Pending,
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
                Poll::Pending if self.poll_late(cx).is_ready() => {
                    self.finish(Wrong::Unfinished.into());
                }
                Poll::Pending => {
                    self.frames.rest();
                    mouth.rest();
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
            if left < limits::FRAMES_PER_TURN_MAX {
                // The time of the next frame begins with its own first byte.
                self.frame_deadline = None;
            }
            match wrong {
                // Whoever sent it must not go on believing that it is heard.
                Some(Unframed::TooLong(_)) => {
                    self.finish(Wrong::TooLarge(limits::MESSAGE_BYTES_MAX).into());
                }
                Some(why) => self.finish(Wrong::Unreadable(why.to_string()).into()),
                None if !has_more => {
                    self.is_deaf = true;
                    self.session.hang_up();
                }
                None => has_more = left == 0,
            }
        }
    }

    /// Counts the part of a frame that has come.
    fn keep_part(&mut self) {
        if !self.is_deaf
            && let Err(failure) = self.charge.resize_beyond_free(self.frames.unread_bytes())
        {
            self.finish(failure);
        }
    }

    /// Ready, if the rest of a frame has not come in time.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.frames.unread_bytes() == 0 {
            self.frame_deadline = None;
            return Poll::Pending;
        }
        let patience = self.frame_patience;
        let begin = || Box::pin(tokio::time::sleep(patience));
        self.frame_deadline.get_or_insert_with(begin).as_mut().poll(cx)
    }

    /// Ready, if the client has read nothing for too long. It has, since the last time, if something was
    /// sent.
    fn poll_stalled(&mut self, cx: &mut Context<'_>, has_sent: bool) -> Poll<()> {
        let patience = self.patience;
        self.stalled.take_if(|_| has_sent);
        let until = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        until.as_mut().poll(cx)
    }
}

/// A session that ends when its connection does.
struct Ends(Arc<Session>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Deref for Ends {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}
