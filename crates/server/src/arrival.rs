//! When a request was read, and whether it may have lain in its socket before that.
//!
//! A process that stood still (SIGSTOP, a suspended machine) finds in its sockets what was sent to it
//! meanwhile, also by clients that gave up long ago and had the same request done by another member.
//! Most requests do no harm then: they carry a token or a number. A release by owner name without a
//! token does, because it means whatever its owner holds at the moment.
//!
//! Owns: how long a process stood still, and what is known of the arrival of a request. Guarantees: a
//! request that was in its socket, or on its way through this process, while the process stood still
//! for longer than [`PAUSE_MAX`] is late; so is one whose client has closed the connection, after a
//! shorter pause. Refuses: to know more than the clock does. A machine that is paused and whose clock
//! stands still with it has not stood still as far as this can tell.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::MissedTickBehavior;

use crate::error::Wrong;
use crate::opening::Opening;

/// How often the process shows that it runs.
const BEAT: Duration = Duration::from_millis(100);
/// A pause, or a wait within this process, after which nobody may rely on a request any more: its
/// client may have repeated it elsewhere.
const PAUSE_MAX: u64 = 1_000;
/// The same, if the client has closed its connection.
const PAUSE_MAX_CLOSED: u64 = 300;
/// After a pause, what is read within this time may have come during it.
const SETTLED_AFTER: u64 = 1_000;
/// A socket that seems to be empty right after a pause may only not have been looked at.
const LOOKED_AFTER: u64 = 100;

/// Milliseconds on a clock that goes on while the machine sleeps. Never zero.
fn now() -> u64 {
    let read = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(read.tv_sec).unwrap_or(0);
    let millis = u64::try_from(read.tv_nsec).unwrap_or(0) / 1_000_000;
    (seconds * 1_000 + millis).max(1)
}

/// Notices when the process stood still.
#[derive(Debug)]
pub(crate) struct PauseDetector {
    /// When it was last seen to run.
    seen: AtomicU64,
    /// When the last pause of [`PAUSE_MAX`] ended; zero if there was none.
    long_ended: AtomicU64,
    /// When the last pause of [`PAUSE_MAX_CLOSED`] ended.
    short_ended: AtomicU64,
}

impl PauseDetector {
    pub(crate) fn new() -> PauseDetector {
        PauseDetector::at(now())
    }

    fn at(now: u64) -> PauseDetector {
        let (long_ended, short_ended) = (AtomicU64::new(0), AtomicU64::new(0));
        PauseDetector { seen: AtomicU64::new(now), long_ended, short_ended }
    }

    /// Shows that the process runs, until this is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            self.beat(now());
        }
    }

    fn beat(&self, now: u64) {
        let (long, short) = self.pauses(now);
        self.long_ended.store(long, Ordering::Relaxed);
        self.short_ended.store(short, Ordering::Relaxed);
        self.seen.store(now, Ordering::Release);
    }

    /// When the last long and the last short pause ended. One that was not noticed yet ends now.
    fn pauses(&self, now: u64) -> (u64, u64) {
        let gap = now.saturating_sub(self.seen.load(Ordering::Acquire));
        let ended = |least: u64, known: &AtomicU64| match gap >= least {
            true => now,
            false => known.load(Ordering::Relaxed),
        };
        (ended(PAUSE_MAX, &self.long_ended), ended(PAUSE_MAX_CLOSED, &self.short_ended))
    }
}

/// What is known of the bytes that were read from one connection.
#[derive(Debug, Default)]
struct Reads {
    /// Before the last bytes came, there was nothing to read at this time; zero if that was never
    /// seen. That there is nothing behind them says nothing about when they came.
    idle_at: AtomicU64,
    /// When the first of them was read.
    first_at: AtomicU64,
    /// When something was last read.
    last_at: AtomicU64,
    /// The client has closed its side.
    is_closed: AtomicBool,
}

/// A stream whose socket can be asked whether the other end has closed it.
pub(crate) trait Socket {
    fn socket(&self) -> &TcpStream;
}

impl Socket for Opening {
    fn socket(&self) -> &TcpStream {
        self.stream()
    }
}

impl Socket for OwnedReadHalf {
    fn socket(&self) -> &TcpStream {
        self.as_ref()
    }
}

/// A connection that notes when it is read from.
#[derive(Debug)]
pub(crate) struct Noted<S> {
    stream: S,
    pauses: Arc<PauseDetector>,
    reads: Arc<Reads>,
    /// Whether something was read since there was last nothing to read.
    is_busy: bool,
    /// When there was last nothing to read.
    idle_at: u64,
}

impl<S: Socket> Noted<S> {
    pub(crate) fn new(stream: S, pauses: &Arc<PauseDetector>) -> Noted<S> {
        Noted {
            stream,
            pauses: Arc::clone(pauses),
            reads: Arc::default(),
            is_busy: false,
            idle_at: 0,
        }
    }

    /// What is read from it from now on.
    pub(crate) fn arrivals(&self) -> Arrivals {
        Arrivals { pauses: Arc::clone(&self.pauses), reads: Arc::clone(&self.reads) }
    }

    fn note(&mut self, read: Option<usize>) {
        let now = now();
        let Some(len) = read else {
            (self.is_busy, self.idle_at) = (false, now);
            return;
        };
        let (_, short) = self.pauses.pauses(now);
        // The end of the stream may lie behind what is read now.
        if len == 0 || (self.idle_at < short + LOOKED_AFTER && has_hung_up(self.stream.socket())) {
            self.reads.is_closed.store(true, Ordering::Relaxed);
        }
        if len > 0 {
            if !std::mem::replace(&mut self.is_busy, true) {
                self.reads.idle_at.store(self.idle_at, Ordering::Relaxed);
                self.reads.first_at.store(now, Ordering::Relaxed);
            }
            self.reads.last_at.store(now, Ordering::Relaxed);
        }
    }
}

/// Whether the other end has closed the connection, whatever is still to be read.
fn has_hung_up(socket: &TcpStream) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = poll(&mut fds, Some(&at_once));
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    polled.is_ok() && fds[0].revents().intersects(gone)
}

impl<S: AsyncRead + Socket + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.note(polled.is_ready().then(|| buf.filled().len() - before));
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
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

/// The arrivals of the requests on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    pauses: Arc<PauseDetector>,
    reads: Arc<Reads>,
}

impl Arrivals {
    /// The arrival of a request that was read just now.
    pub(crate) fn next(&self) -> Arrival {
        let known = |at: &AtomicU64| at.load(Ordering::Relaxed);
        Arrival {
            idle_at: known(&self.reads.idle_at),
            first_at: known(&self.reads.first_at),
            last_at: known(&self.reads.last_at),
            connection: self.clone(),
        }
    }
}

/// What is known of the arrival of one request.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    connection: Arrivals,
    /// It came after this.
    idle_at: u64,
    /// Whatever came since that was read from then on.
    first_at: u64,
    /// The connection was last read from at this time.
    last_at: u64,
}

impl Arrival {
    /// The rest of it, its body, has come as well.
    pub(crate) fn whole(mut self) -> Arrival {
        self.last_at = self.connection.reads.last_at.load(Ordering::Relaxed);
        self
    }

    /// Refuses a request that may be so old that its client has had it done elsewhere.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        if self.is_late(now()) { Err(Wrong::Late) } else { Ok(()) }
    }

    fn is_late(&self, now: u64) -> bool {
        let (long, short) = self.connection.pauses.pauses(now);
        // What was read before a pause ended, or in the time in which sockets are emptied after it,
        // unless there was a moment in between in which this socket was empty.
        let is_of_pause = |ended: u64| {
            ended > 0
                && self.idle_at < ended + LOOKED_AFTER
                && self.first_at < ended + SETTLED_AFTER
        };
        let waited = now.saturating_sub(self.last_at);
        let is_closed = self.connection.reads.is_closed.load(Ordering::Relaxed);
        waited > PAUSE_MAX
            || is_of_pause(long)
            || is_closed && (waited > PAUSE_MAX_CLOSED || is_of_pause(short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection that was read from at these times.
    fn arrival(pauses: &Arc<PauseDetector>, idle_at: u64, first_at: u64, last_at: u64) -> Arrival {
        let connection = Arrivals { pauses: Arc::clone(pauses), reads: Arc::default() };
        Arrival { connection, idle_at, first_at, last_at }
    }

    fn beats(pauses: &PauseDetector, from: u64, to: u64) {
        (from..=to).step_by(100).for_each(|at| pauses.beat(at));
    }

    #[test]
    fn a_request_that_lay_in_its_socket_during_a_pause_is_late() {
        let pauses = Arc::new(PauseDetector::at(1_000));
        beats(&pauses, 1_000, 5_000);
        let before = arrival(&pauses, 4_900, 4_990, 4_990);
        assert!(!before.is_late(5_050));
        // From 5,000 to 9,000 the process stands still. Nobody has noticed yet.
        let during = arrival(&pauses, 4_990, 9_000, 9_000);
        assert!(before.is_late(9_000) && during.is_late(9_000));
        beats(&pauses, 9_000, 9_900);
        assert!(during.is_late(9_900));
        // A new connection may have come during the pause. One that was seen empty since is not of it.
        assert!(arrival(&pauses, 0, 9_500, 9_500).is_late(9_500));
        assert!(!arrival(&pauses, 9_400, 9_500, 9_500).is_late(9_500));
        beats(&pauses, 10_000, 20_000);
        assert!(!arrival(&pauses, 4_990, 19_990, 19_990).is_late(20_000));
    }

    #[test]
    fn a_request_that_waited_in_this_process_is_late() {
        let pauses = Arc::new(PauseDetector::at(1_000));
        beats(&pauses, 1_000, 9_000);
        let request = arrival(&pauses, 990, 1_000, 1_000);
        assert!(!request.is_late(1_000 + PAUSE_MAX));
        assert!(request.is_late(1_001 + PAUSE_MAX));
        request.connection.reads.is_closed.store(true, Ordering::Relaxed);
        assert!(!request.is_late(1_000 + PAUSE_MAX_CLOSED));
        assert!(request.is_late(1_001 + PAUSE_MAX_CLOSED));
    }

    #[test]
    fn a_short_pause_matters_if_the_client_has_gone() {
        let pauses = Arc::new(PauseDetector::at(1_000));
        beats(&pauses, 1_000, 5_000);
        beats(&pauses, 5_500, 5_600);
        let request = arrival(&pauses, 4_990, 5_510, 5_510);
        assert!(!request.is_late(5_600));
        request.connection.reads.is_closed.store(true, Ordering::Relaxed);
        assert!(request.is_late(5_600));
    }
}
