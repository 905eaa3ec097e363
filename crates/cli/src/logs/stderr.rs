//! Standard error, written by a thread of its own.
//!
//! Owns: standard error of a server, from when logging begins, and of a verb that holds a lock. Guarantees: a line is taken or
//! dropped at once, however slowly standard error is read; dropped lines are counted, and a line
//! says how many there were as soon as one can be written again. Refuses: to hold more than
//! [`BYTES_MAX`] of lines.
//!
//! The crate `tracing-appender` has a lossy writer as well. It is not used because it bounds lines
//! and not bytes, does not say in the log that lines are missing, and prints to standard output
//! when it cannot flush at the end, which waits for ever if that is the same full pipe.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Bytes of lines that may wait while others are written.
const BYTES_MAX: usize = 1 << 20;
/// Bytes for which room is kept when nothing waits.
const BYTES_IDLE: usize = 16 << 10;

/// Puts lines in, and waits for nothing.
#[derive(Clone)]
pub(super) struct LossyWriter(Arc<Shared>);

struct Shared {
    queue: Mutex<Queue>,
    /// There is something to write.
    filled: Condvar,
    /// Everything is written.
    drained: Condvar,
    bytes_max: usize,
    /// The line that says how many are missing.
    gap_line: fn(u64) -> String,
    /// Counts the lines that were dropped.
    dropped: &'static AtomicU64,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    lines: u64,
    /// Lines that came after these, and were dropped.
    dropped: u64,
    is_writing: bool,
}

impl Queue {
    fn is_drained(&self) -> bool {
        self.bytes.is_empty() && self.dropped == 0 && !self.is_writing
    }

    fn put(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.lines += 1;
    }
}

/// What is written at once.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    lines: u64,
}

impl LossyWriter {
    /// Writes to `out`, on a thread that lives as long as the process.
    pub(super) fn start(
        out: impl Write + Send + 'static,
        gap_line: fn(u64) -> String,
        dropped: &'static AtomicU64,
    ) -> io::Result<LossyWriter> {
        LossyWriter::bounded(out, gap_line, dropped, BYTES_MAX)
    }

    fn bounded(
        mut out: impl Write + Send + 'static,
        gap_line: fn(u64) -> String,
        dropped: &'static AtomicU64,
        bytes_max: usize,
    ) -> io::Result<LossyWriter> {
        let (queue, filled, drained) = Default::default();
        let shared = Arc::new(Shared { queue, filled, drained, bytes_max, gap_line, dropped });
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("log-writer".to_owned()).spawn(move || {
            let mut batch = Batch::default();
            loop {
                theirs.take(&mut batch);
                let written = out.write_all(&batch.bytes).and_then(|()| out.flush());
                if written.is_err() {
                    // Some of them may have been written.
                    theirs.dropped.fetch_add(batch.lines, Ordering::Relaxed);
                }
            }
        })?;
        Ok(LossyWriter(shared))
    }

    /// Takes a line, or drops it if there is no room.
    pub(super) fn push(&self, line: &[u8]) {
        let mut queue = self.0.queue();
        // After a dropped line the next ones are dropped too, until the gap is noted, so that the
        // note stands where the lines are missing.
        if queue.dropped > 0 || queue.bytes.len() + line.len() > self.0.bytes_max {
            queue.dropped += 1;
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.put(line);
        drop(queue);
        self.0.filled.notify_one();
    }

    /// Takes a line even if there is no room for it. For the few lines that come once in the life of a
    /// process.
    pub(super) fn push_always(&self, line: &[u8]) {
        let mut queue = self.0.queue();
        let dropped = std::mem::take(&mut queue.dropped);
        if dropped > 0 {
            queue.put((self.0.gap_line)(dropped).as_bytes());
        }
        queue.put(line);
        drop(queue);
        self.0.filled.notify_one();
    }

    /// Waits until everything is written, for `timeout` at most: a pipe that stays full must not keep
    /// the process from ending.
    pub(super) fn flush(&self, timeout: Duration) {
        let queue = self.0.queue();
        let waited = self.0.drained.wait_timeout_while(queue, timeout, |queue| !queue.is_drained());
        drop(waited);
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing panics while it is held, so it is never left half changed.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines, and takes all of them. The batch before is written.
    fn take(&self, batch: &mut Batch) {
        batch.bytes.clear();
        batch.bytes.shrink_to(BYTES_IDLE);
        let mut queue = self.queue();
        queue.is_writing = false;
        if queue.is_drained() {
            self.drained.notify_all();
        }
        let is_idle = |queue: &mut Queue| queue.is_drained();
        let waited = self.filled.wait_while(queue, is_idle);
        queue = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut batch.bytes, &mut queue.bytes);
        batch.lines = std::mem::take(&mut queue.lines);
        let dropped = std::mem::take(&mut queue.dropped);
        queue.is_writing = true;
        drop(queue);
        if dropped > 0 {
            batch.bytes.extend_from_slice((self.gap_line)(dropped).as_bytes());
        }
    }
}

/// Takes one line with each write, which is how `tracing` formats them.
impl Write for LossyWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LossyWriter {
    type Writer = LossyWriter;

    fn make_writer(&'a self) -> LossyWriter {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Longer than anything here takes.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Reads what was written only when the test does. Each write waits for that.
    struct Pipe(SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gap_line(lines: u64) -> String {
        format!("{lines} missing\n")
    }

    fn counter() -> &'static AtomicU64 {
        Box::leak(Box::default())
    }

    fn read(pipe: &Receiver<Vec<u8>>) -> String {
        let bytes = pipe.recv_timeout(TIMEOUT).expect("something is written");
        String::from_utf8(bytes).expect("it is text")
    }

    /// A writer with room for so many bytes, whose thread waits for the pipe with `first`.
    fn stalled(bytes_max: usize) -> (LossyWriter, Receiver<Vec<u8>>, &'static AtomicU64) {
        let (sender, pipe) = sync_channel(0);
        let dropped = counter();
        let writer = LossyWriter::bounded(Pipe(sender), gap_line, dropped, bytes_max);
        let writer = writer.expect("there is a thread");
        writer.push(b"first\n");
        while !writer.0.queue().is_writing {
            thread::yield_now();
        }
        (writer, pipe, dropped)
    }

    #[test]
    fn full_log_pipe_drops_lines_and_says_how_many() {
        let (writer, pipe, dropped) = stalled(16);
        for line in ["1234567\n", "1234567\n", "too much\n", "x\n"] {
            writer.push(line.as_bytes());
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        assert_eq!(read(&pipe), "first\n");
        assert_eq!(read(&pipe), "1234567\n1234567\n2 missing\n");
        writer.push(b"again\n");
        assert_eq!(read(&pipe), "again\n");
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn important_line_is_taken_without_room() {
        let (writer, pipe, _) = stalled(8);
        for line in ["1234567\n", "dropped\n"] {
            writer.push(line.as_bytes());
        }
        writer.push_always(b"fatal\n");
        assert_eq!(read(&pipe), "first\n");
        assert_eq!(read(&pipe), "1234567\n1 missing\nfatal\n");
    }

    #[test]
    fn flush_waits_for_what_is_written_and_no_longer() {
        let (writer, pipe, _) = stalled(16);
        // Nothing is read: this returns all the same.
        writer.flush(Duration::ZERO);
        let theirs = writer.clone();
        let flush = thread::spawn(move || theirs.flush(TIMEOUT));
        assert_eq!(read(&pipe), "first\n");
        flush.join().expect("everything is written");
        assert!(writer.0.queue().is_drained());
    }

    #[test]
    fn lines_for_a_closed_pipe_are_counted_as_dropped() {
        let (writer, pipe, dropped) = stalled(16);
        drop(pipe);
        writer.push(b"second\n");
        writer.flush(TIMEOUT);
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
    }
}
