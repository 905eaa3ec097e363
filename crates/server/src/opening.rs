//! A connection over HTTP as its bytes come and go: the first words must come in time, and what is
//! sent must be taken in time.
//!
//! Before a connection has said enough to know which protocol it speaks, no timer of that protocol
//! runs, and HTTP/1 has none for a client that stops reading. Guarantees: a client that says too
//! little for too long, or takes nothing for too long, is cut off. Refuses: to look at what is said.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::ws::PartialMessage;

/// As much as the preface of HTTP/2, by which it is told from HTTP/1.
const OPENING_BYTES: usize = 24;

/// A connection whose first words must come in time.
pub(crate) struct Opening {
    stream: TcpStream,
    /// How much is missing, and until when; nothing, if enough was said.
    missing: Option<(usize, Pin<Box<Sleep>>)>,
    /// Is told of bytes that belong to a WebSocket.
    partial: Arc<PartialMessage>,
    /// How long the client may take nothing, and until when that is if it does not.
    write_patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Opening {
    pub(crate) fn new(
        stream: TcpStream,
        until: Pin<Box<Sleep>>,
        partial: Arc<PartialMessage>,
        write_patience: Duration,
    ) -> Opening {
        let missing = Some((OPENING_BYTES, until));
        Opening { stream, missing, partial, write_patience, stalled: None }
    }

    /// Lets a write that makes no progress in time fail.
    fn poll_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let patience = self.write_patience;
        let begin = || Box::pin(tokio::time::sleep(patience));
        let stalled = self.stalled.get_or_insert_with(begin).as_mut().poll(cx);
        stalled.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }
}

impl AsyncRead for Opening {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        self.partial.read(read)?;
        let Some((missing, until)) = &mut self.missing else { return polled };
        if *missing <= read {
            self.missing = None;
            return polled;
        }
        *missing -= read;
        if polled.is_pending() && until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl AsyncWrite for Opening {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.poll_stalled(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.poll_stalled(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
