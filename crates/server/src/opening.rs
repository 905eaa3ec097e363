//! A connection whose first words must come in time.
//!
//! Before a connection has said enough to know which protocol it speaks, no timer of that protocol
//! runs. Guarantees: whoever says too little for too long is cut off. Refuses: to look at what is
//! said.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// As much as the preface of HTTP/2, by which it is told from HTTP/1.
const OPENING_BYTES: usize = 24;

/// A connection whose first words must come in time.
pub(crate) struct Opening {
    stream: TcpStream,
    /// How much is missing, and until when; nothing, if enough was said.
    missing: Option<(usize, Pin<Box<Sleep>>)>,
}

impl Opening {
    pub(crate) fn new(stream: TcpStream, until: Pin<Box<Sleep>>) -> Opening {
        Opening { stream, missing: Some((OPENING_BYTES, until)) }
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
        let Some((missing, until)) = &mut self.missing else { return polled };
        let read = buf.filled().len() - before;
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
        Pin::new(&mut self.stream).poll_write(cx, buf)
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
