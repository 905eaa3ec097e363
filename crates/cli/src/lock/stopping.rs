//! The end of a command, step by step, without a clock and without processes.
//!
//! Guarantees: processes are asked once and killed at the end of the grace, which never reaches
//! beyond the last moment that was given. Of a lock that is gone already there is no grace.

use std::time::Duration;

use fencepost_client::Loss;

use super::timeline::Moment;

/// A process that is still there so long after it was killed hangs in the kernel.
const UNKILLABLE_AFTER: Duration = Duration::from_secs(5);

/// Why processes are stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The lock was lost.
    Lost(Loss),
    /// The command has ended, and left others behind.
    Rest,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Ask,
    Kill,
    Wait,
}

/// Processes that are being stopped.
#[derive(Debug)]
pub(crate) struct Stopping {
    why: Why,
    kill_at: Moment,
    is_asked: bool,
    killed_at: Option<Moment>,
}

impl Stopping {
    /// The lock was lost. As long as nobody else can have it, there is a grace.
    pub(crate) fn of_loss(loss: Loss, now: Moment, grace: Duration, latest: Moment) -> Stopping {
        let is_gone = matches!(loss, Loss::LeaseGone | Loss::Taken { .. });
        let kill_at = if is_gone { now } else { now.after(grace).min(latest) };
        Stopping { why: Why::Lost(loss), kill_at, is_asked: false, killed_at: None }
    }

    /// The command has left others behind.
    pub(crate) fn of_rest(now: Moment, grace: Duration, latest: Moment) -> Stopping {
        let kill_at = now.after(grace).min(latest);
        Stopping { why: Why::Rest, kill_at, is_asked: false, killed_at: None }
    }

    pub(crate) fn why(&self) -> &Why {
        &self.why
    }

    pub(crate) fn is_loss(&self) -> bool {
        matches!(self.why, Why::Lost(_))
    }

    /// What to do now. It does not depend on who is left: to find that out takes time, and on a
    /// machine full of processes the moment to kill them would pass meanwhile.
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        if now >= self.kill_at {
            self.killed_at.get_or_insert(now);
            return Step::Kill;
        }
        if std::mem::replace(&mut self.is_asked, true) { Step::Wait } else { Step::Ask }
    }

    /// Whether those who are still left will not end.
    pub(crate) fn is_hopeless(&self, now: Moment) -> bool {
        self.killed_at.is_some_and(|at| now >= at.after(UNKILLABLE_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(500);

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1_000)
    }

    #[test]
    fn processes_are_asked_once_and_then_killed() {
        let mut stopping = Stopping::of_loss(Loss::Unconfirmed, at(100), GRACE, at(5_000));
        assert_eq!(stopping.step(at(100)), Step::Ask);
        assert_eq!(stopping.step(at(599)), Step::Wait);
        assert_eq!(stopping.step(at(600)), Step::Kill);
        assert_eq!(stopping.step(at(620)), Step::Kill);
    }

    #[test]
    fn the_grace_ends_at_the_last_moment() {
        let asked = Loss::Asked { reason: "maintenance".to_owned() };
        let mut stopping = Stopping::of_loss(asked, at(100), GRACE, at(300));
        assert_eq!(stopping.step(at(100)), Step::Ask);
        assert_eq!(stopping.step(at(300)), Step::Kill);
    }

    #[test]
    fn what_is_gone_already_leaves_no_grace() {
        for loss in [Loss::LeaseGone, Loss::Taken { cause: "forced".to_owned() }] {
            let mut stopping = Stopping::of_loss(loss, at(100), GRACE, at(5_000));
            assert_eq!(stopping.step(at(100)), Step::Kill);
        }
    }

    #[test]
    fn a_process_that_cannot_be_killed_is_given_up() {
        let mut stopping = Stopping::of_rest(at(100), GRACE, at(300));
        assert!(!stopping.is_hopeless(at(9_000)), "it was not killed yet");
        assert_eq!(stopping.step(at(300)), Step::Kill);
        assert_eq!(stopping.step(at(5_299)), Step::Kill);
        assert!(!stopping.is_hopeless(at(5_299)));
        assert!(stopping.is_hopeless(at(5_300)));
    }
}
