//! How long the session works before it lets others run.
//!
//! While the session is at work on the next requests, the service can be at work on the first ones, if
//! the connection gets to write them. With turns that are too long, one of them waits for the other;
//! turns that are too short cost more writes and wake-ups than they save.

use std::future::poll_fn;
use std::task::Poll;

/// What there is to do is done in about so many turns.
const TURNS: usize = 3;
/// But in turns of at least and at most so many things.
const LEN_MIN: usize = 20;
const LEN_MAX: usize = 256;

/// One turn after the other.
pub(super) struct Turn {
    len: usize,
    left: usize,
}

impl Turn {
    /// Turns for so many things.
    pub(super) fn of(all: usize) -> Turn {
        let len = (all / TURNS).clamp(LEN_MIN, LEN_MAX);
        Turn { len, left: len }
    }

    /// One thing was done. Says whether the turn is over, and begins the next.
    pub(super) fn is_over(&mut self) -> bool {
        self.left -= 1;
        let is_over = self.left == 0;
        if is_over {
            self.left = self.len;
        }
        is_over
    }
}

/// Lets every task run that can, once. The runtime's own way to yield looks at all sockets as well,
/// which is worth a call of the system only when there is nothing else to do.
pub(super) async fn let_others_run() {
    let mut has_let = false;
    poll_fn(|context| {
        if has_let {
            return Poll::Ready(());
        }
        has_let = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(all: usize) -> Vec<usize> {
        let mut turn = Turn::of(all);
        let ends: Vec<usize> = (1..=all).filter(|_| turn.is_over()).collect();
        let before = std::iter::once(0).chain(ends.iter().copied());
        ends.iter().zip(before).map(|(end, before)| end - before).collect()
    }

    #[test]
    fn turns_are_a_third_within_bounds() {
        assert_eq!(lengths(19), []);
        assert_eq!(lengths(50), [20, 20]);
        assert_eq!(lengths(300), [100; 3]);
        assert_eq!(lengths(1_500), [256; 5]);
    }
}
