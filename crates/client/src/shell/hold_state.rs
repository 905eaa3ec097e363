//! What guards and the session share about one hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::boot_time::BootTime;
use crate::core::{Loss, Moment, Validity};

/// How long a hold is good for, readable from any thread without waiting.
#[derive(Debug)]
pub(crate) struct HoldState {
    cutoff: AtomicU64,
    deadline: AtomicU64,
    loss: OnceLock<Loss>,
    /// Made when somebody first wants to hear of the loss. Most holds end before anybody does.
    lost: Mutex<Option<CancellationToken>>,
}

impl HoldState {
    pub(crate) fn new(validity: Validity) -> HoldState {
        HoldState {
            cutoff: AtomicU64::new(validity.cutoff.micros()),
            deadline: AtomicU64::new(validity.deadline.micros()),
            loss: OnceLock::new(),
            lost: Mutex::new(None),
        }
    }

    /// Moves the end on. What was found to be lost stays lost.
    pub(crate) fn extend(&self, validity: Validity) {
        if self.loss.get().is_none() {
            self.deadline.fetch_max(validity.deadline.micros(), Ordering::AcqRel);
            self.cutoff.fetch_max(validity.cutoff.micros(), Ordering::AcqRel);
        }
    }

    /// The first loss counts.
    pub(crate) fn lose(&self, loss: Loss) {
        if self.loss.set(loss).is_ok() {
            let token = self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(token) = token {
                token.cancel();
            }
        }
    }

    /// Cancelled with the loss. Of this and the loss, whichever comes second sees the first: the one
    /// is set before the lock is taken, and looked at after it.
    fn token(&self) -> CancellationToken {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let token = lost.get_or_insert_with(CancellationToken::new).clone();
        drop(lost);
        if self.loss.get().is_some() {
            token.cancel();
        }
        token
    }

    /// Looks at the clock itself: even if the session's thread does not run, nothing is valid past
    /// its cutoff. A no is final.
    pub(crate) fn is_valid(&self) -> bool {
        if self.loss.get().is_some() {
            return false;
        }
        let now = BootTime::now().moment().micros();
        if now < self.cutoff.load(Ordering::Acquire) {
            return true;
        }
        self.lose(Loss::Unconfirmed);
        false
    }

    pub(crate) fn deadline(&self) -> BootTime {
        BootTime::of(Moment::from_micros(self.deadline.load(Ordering::Acquire)))
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss.get().cloned()
    }

    pub(crate) async fn lost(&self) -> Loss {
        self.token().cancelled().await;
        self.loss().unwrap_or(Loss::Unconfirmed)
    }

    /// A token that is cancelled with the loss. Cancelling it does nothing to the hold.
    pub(crate) fn cancel_token(&self) -> CancellationToken {
        self.token().child_token()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn validity(left: Duration) -> Validity {
        let end = BootTime::now().moment().after(left);
        Validity { deadline: end, cutoff: end }
    }

    #[test]
    fn past_its_cutoff_nothing_is_valid_and_the_no_is_final() {
        let hold = HoldState::new(Validity::default());
        let token = hold.cancel_token();
        assert!(!hold.is_valid());
        assert!(token.is_cancelled());
        hold.extend(validity(Duration::from_secs(60)));
        assert!(!hold.is_valid());
        assert_eq!(hold.loss(), Some(Loss::Unconfirmed));
    }

    #[test]
    fn a_loss_is_heard_of_whoever_comes_first() {
        for _ in 0..1_000 {
            let hold = HoldState::new(validity(Duration::from_secs(60)));
            let token = std::thread::scope(|scope| {
                let asks = scope.spawn(|| hold.cancel_token());
                hold.lose(Loss::LeaseGone);
                asks.join().expect("it does not panic")
            });
            assert!(token.is_cancelled());
        }
    }

    #[test]
    fn a_user_who_cancels_his_token_keeps_the_hold() {
        let hold = HoldState::new(validity(Duration::from_secs(60)));
        hold.cancel_token().cancel();
        assert!(hold.is_valid());
        hold.lose(Loss::LeaseGone);
        assert!(!hold.is_valid());
    }
}
