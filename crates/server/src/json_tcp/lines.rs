//! Lines, as they come from a connection.
//!
//! Guarantees: no more than [`limits::LINE_BYTES_MAX`] bytes and one read are kept. Of a line that is
//! longer, the rest is passed over up to a bound, so that the next line can be read.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::byte_budget::Charge;
use crate::limits;

/// What is read at once.
const READ_BYTES: usize = 4 << 10;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line that is too long. What was read of it is gone.
    TooLong,
    /// Nothing more.
    Over,
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// To begin a line.
    pub(super) idle: Duration,
    /// To end one.
    pub(super) line: Duration,
}

/// Lines, as they come.
#[derive(Debug)]
pub(super) struct Lines<R> {
    from: R,
    kept: Vec<u8>,
    /// How much of a line that is too long was passed over.
    skipped: Option<usize>,
    is_over: bool,
    patience: Patience,
    /// For what is kept.
    charge: Charge,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R, patience: Patience, charge: Charge) -> Lines<R> {
        Lines { from, kept: Vec::new(), skipped: None, is_over: false, patience, charge }
    }

    /// Whether the client has said that it will ask nothing more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The next line.
    ///
    /// # Errors
    ///
    /// The connection is broken, or the client has taken too long.
    pub(super) async fn next(&mut self) -> io::Result<Next> {
        let is_begun = !self.kept.is_empty() || self.skipped.is_some();
        if !is_begun && !self.is_over {
            tokio::time::timeout(self.patience.idle, self.fill()).await??;
        }
        tokio::time::timeout(self.patience.line, self.rest()).await?
    }

    async fn rest(&mut self) -> io::Result<Next> {
        loop {
            if let Some(next) = self.take() {
                return Ok(next);
            }
            self.fill().await?;
        }
    }

    /// The next line, if what was read decides it.
    fn take(&mut self) -> Option<Next> {
        let end = self.kept.iter().position(|&byte| byte == b'\n');
        if let Some(skipped) = self.skipped {
            self.kept.drain(..end.map_or(self.kept.len(), |end| end + 1));
            self.skipped = match end {
                Some(_) => None,
                None => Some(skipped),
            };
            if end.is_none() {
                let is_too_much = skipped > limits::LINE_SKIPPED_BYTES_MAX;
                return (is_too_much || self.is_over).then_some(Next::Over);
            }
            return self.take();
        }
        match end {
            Some(end) if end <= limits::LINE_BYTES_MAX => {
                let mut line: Vec<u8> = self.kept.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                Some(Next::Line(line))
            }
            // The end of it has come, and is passed over as well.
            Some(_) => self.too_long(),
            None if self.kept.len() > limits::LINE_BYTES_MAX => self.too_long(),
            None if !self.is_over => None,
            None if self.kept.is_empty() => Some(Next::Over),
            None => Some(Next::Line(std::mem::take(&mut self.kept))),
        }
    }

    fn too_long(&mut self) -> Option<Next> {
        self.skipped = Some(0);
        Some(Next::TooLong)
    }

    /// Reads once.
    async fn fill(&mut self) -> io::Result<()> {
        if self.kept.is_empty() {
            // A quiet connection keeps no room for what it may say one day.
            self.kept.shrink_to(READ_BYTES);
        }
        self.kept.reserve(READ_BYTES);
        let read = (&mut self.from).take(READ_BYTES as u64).read_buf(&mut self.kept).await?;
        self.is_over |= read == 0;
        if let Some(skipped) = &mut self.skipped {
            *skipped += read;
        }
        let charged = self.charge.resize_beyond_free(self.kept.len());
        charged.map_err(|failure| io::Error::other(failure.message))
    }

    /// Reads on for a little while, for nothing: a connection that is closed before may take the last
    /// answer with it.
    pub(super) async fn hear_out(&mut self) {
        crate::framed::hear_out(&mut self.from).await;
    }

    /// Waits until the client is gone, as far as that can be seen. What it says meanwhile is kept, up
    /// to the bound.
    pub(super) async fn gone(&mut self) {
        while !self.is_over && self.kept.len() <= limits::LINE_BYTES_MAX {
            if self.fill().await.is_err() {
                self.is_over = true;
            }
        }
        if !self.is_over {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::byte_budget::ByteBudget;

    const PATIENCE: Patience =
        Patience { idle: Duration::from_secs(60), line: Duration::from_secs(60) };

    fn lines<R: AsyncRead + Unpin>(from: R) -> Lines<R> {
        Lines::new(from, PATIENCE, Charge::new(&ByteBudget::for_server()))
    }

    async fn read(text: &[u8]) -> Vec<Next> {
        let mut lines = lines(text);
        let mut all = Vec::new();
        while all.last() != Some(&Next::Over) {
            all.push(lines.next().await.expect("memory cannot break"));
            let most = limits::LINE_BYTES_MAX + 2 * READ_BYTES;
            assert!(lines.kept.capacity() <= 2 * most, "{}", lines.kept.capacity());
        }
        all
    }

    fn line(text: &str) -> Next {
        Next::Line(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_end_in_both_ways_and_the_last_need_not() {
        let all = read(b"one\ntwo\r\n\nthree").await;
        assert_eq!(all, [line("one"), line("two"), line(""), line("three"), Next::Over]);
        assert_eq!(read(b"").await, [Next::Over]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_passed_over() {
        let just = "x".repeat(limits::LINE_BYTES_MAX);
        let all = read(format!("{just}\n{just}y\nnext\n").as_bytes()).await;
        assert_eq!(all, [line(&just), Next::TooLong, line("next"), Next::Over]);
        let cut = "x".repeat(limits::LINE_BYTES_MAX + limits::LINE_SKIPPED_BYTES_MAX);
        assert_eq!(read(cut.as_bytes()).await, [Next::TooLong, Next::Over]);
    }

    #[tokio::test]
    async fn a_line_without_end_is_not_read_for_ever() {
        let mut endless = lines(tokio::io::repeat(b'x'));
        assert_eq!(endless.next().await.expect("it reads"), Next::TooLong);
        assert_eq!(endless.next().await.expect("it reads"), Next::Over);
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends() {
        let (client, server) = tokio::io::duplex(64);
        let mut lines = lines(server);
        let late = lines.next().await.expect_err("nothing comes");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let mut client = client;
        tokio::io::AsyncWriteExt::write_all(&mut client, b"{").await.expect("it reads");
        let late = lines.next().await.expect_err("the rest does not come");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }
}
