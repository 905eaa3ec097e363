//! Waiting for what a member says next: awake, if that pays.
//!
//! To wake a thread that sleeps takes 20 to 60 µs on a small virtual machine, because a core with nothing to
//! do has to be woken first. Where a lock goes from hand to hand, or few clients ask one thing at a time, a
//! follower hears of an entry every few hundred microseconds, and each entry waits for its waking. So whoever
//! has just written something looks out for the next for a moment, but only if the one before came as
//! quickly: a member that is asked for little sleeps as ever. It gives way to whoever else wants its core.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::edge;
use super::question::fill;
use crate::peer::FrameBuffer;

/// How long to look out. In vain it costs as much once, and then not again before something has come as
/// soon as this.
const AWAKE: Duration = Duration::from_micros(200);

/// Looks out on one connection.
#[derive(Default)]
pub(super) struct Lookout {
    /// Whether the last wait was over so soon that it was worth staying awake for, or would have been.
    pays: bool,
}

impl Lookout {
    /// Waits until something has come, and takes it into the buffer.
    pub(super) fn wait(&mut self, buffer: &mut FrameBuffer, stream: &TcpStream) -> io::Result<()> {
        let since = edge::now();
        let filled = fill(buffer, &mut Awake { stream, until: self.until(since) });
        self.learn(edge::now().saturating_duration_since(since));
        filled
    }

    fn until(&self, since: Instant) -> Instant {
        if self.pays { since + AWAKE } else { since }
    }

    /// The wait took so long.
    fn learn(&mut self, waited: Duration) {
        self.pays = waited <= AWAKE;
    }
}

/// A connection whose reader does not sleep before this moment.
struct Awake<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for Awake<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while edge::now() < self.until {
            match recv(self.stream, &mut *into, RecvFlags::DONTWAIT) {
                Ok((read, _)) => return Ok(read),
                Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.stream.read(into)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn it_stays_awake_only_while_that_pays() {
        let mut lookout = Lookout::default();
        let now = edge::now();
        assert_eq!(lookout.until(now), now, "nothing speaks for it yet");
        lookout.learn(AWAKE);
        assert_eq!(lookout.until(now), now + AWAKE);
        lookout.learn(AWAKE + Duration::from_micros(1));
        assert_eq!(lookout.until(now), now, "once in vain is enough");
    }

    /// Both ends of a connection.
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let stream = TcpStream::connect(address).expect("it is there");
        (stream, listener.accept().expect("somebody connects").0)
    }

    /// What is read by whoever stays awake for so long, after `act` was done with the other end.
    fn read(awake: Duration, act: impl FnOnce(TcpStream) + Send) -> io::Result<Vec<u8>> {
        let (stream, theirs) = connected();
        let mut into = [0; 16];
        let read = std::thread::scope(|scope| {
            scope.spawn(|| act(theirs));
            Awake { stream: &stream, until: edge::now() + awake }.read(&mut into)
        })?;
        Ok(into[..read].to_vec())
    }

    #[test]
    fn what_comes_is_heard_by_whoever_is_awake_and_by_whoever_sleeps() {
        for awake in [Duration::ZERO, AWAKE, Duration::from_secs(3_600)] {
            let heard = read(awake, |mut theirs| theirs.write_all(b"entry").expect("it is open"));
            assert_eq!(heard.expect("it is open"), b"entry");
            let heard = read(awake, drop);
            assert_eq!(heard.expect("the end is no error"), b"", "nothing more will come");
        }
    }
}
