//! The numbers by which repeats of a request are recognised, and which answers have arrived.

use std::collections::VecDeque;

/// How many numbers the service lets a caller have open.
const WINDOW: u64 = 1_024;

/// One caller's numbers: the client's, or those of one lease.
#[derive(Debug)]
pub(super) struct Numbers {
    next: u64,
    /// In order. At most as many as the window has room for.
    open: VecDeque<u64>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { next: 1, open: VecDeque::new() }
    }
}

impl Numbers {
    /// A fresh number, if the window has room for one.
    pub(super) fn take(&mut self) -> Option<u64> {
        if self.next >= self.ack_upto() + WINDOW {
            return None;
        }
        let seq = self.next;
        self.next += 1;
        self.open.push_back(seq);
        Some(seq)
    }

    /// The answer to `seq` has arrived, or will never be needed.
    pub(super) fn close(&mut self, seq: u64) {
        if let Ok(at) = self.open.binary_search(&seq) {
            self.open.remove(at);
        }
    }

    /// No answer is needed any more.
    pub(super) fn close_all(&mut self) {
        self.open.clear();
    }

    /// All answers below this have arrived.
    pub(super) fn ack_upto(&self) -> u64 {
        self.open.front().copied().unwrap_or(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgement_stops_at_the_first_open_number() {
        let mut numbers = Numbers::default();
        let taken: Vec<u64> = (0..3).filter_map(|_| numbers.take()).collect();
        assert_eq!(taken, [1, 2, 3]);
        numbers.close(2);
        assert_eq!(numbers.ack_upto(), 1);
        numbers.close(1);
        assert_eq!(numbers.ack_upto(), 3);
        numbers.close(3);
        assert_eq!(numbers.ack_upto(), 4);
    }

    #[test]
    fn the_window_is_never_left() {
        let mut numbers = Numbers::default();
        while numbers.take().is_some() {}
        assert_eq!(numbers.next, 1 + WINDOW);
        numbers.close(1);
        assert_eq!(numbers.take(), Some(1 + WINDOW));
        assert_eq!(numbers.take(), None);
    }
}
