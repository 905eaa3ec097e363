//! Staying awake for answers, where that pays.
//!
//! To wake a thread that sleeps takes 20 to 60 µs on a small virtual machine, if its core has nothing else to
//! do, and 13 of them are taken from whoever sends the answers, who could work on others meanwhile. If many
//! wait, all of them wait for that, and the server then waits for all of them. So the session's thread looks
//! out for their answers for a moment before it sleeps, and gives way to whoever else wants its core.

use std::time::Duration;

use crate::boot_time::BootTime;

/// So many must wait for it to be worth staying awake.
const MANY: usize = 20;
/// How long to look out. In vain it costs as much once, and then not again before something has come as
/// soon as this.
const AWAKE: Duration = Duration::from_micros(200);

/// How the thread waits.
#[derive(Default)]
pub(super) struct Lookout {
    /// Whether the last wait was over so soon that it was worth staying awake for, or would have been.
    pays: bool,
}

impl Lookout {
    /// How long to stay awake while so many wait for answers.
    pub(super) fn awake(&self, waiting: usize) -> Duration {
        if self.pays && waiting >= MANY { AWAKE } else { Duration::ZERO }
    }

    /// The wait took so long.
    pub(super) fn learn(&mut self, waited: Duration) {
        self.pays = waited <= AWAKE;
    }
}

/// Lets everybody else run, on this thread and on others, until something is there or the time is over by
/// this clock.
pub(super) async fn look_out(
    clock: impl Fn() -> BootTime,
    (since, awake): (BootTime, Duration),
    mut is_there: impl FnMut() -> bool,
) {
    while clock().since(since) < awake && !is_there() {
        std::thread::yield_now();
        // Looks at the connections as well.
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::core::Moment;

    #[test]
    fn it_stays_awake_for_many_and_only_while_that_pays() {
        let mut lookout = Lookout::default();
        assert_eq!(lookout.awake(MANY), Duration::ZERO, "nothing speaks for it yet");
        lookout.learn(AWAKE);
        assert_eq!(lookout.awake(MANY), AWAKE);
        assert_eq!(lookout.awake(MANY - 1), Duration::ZERO, "they are too few");
        lookout.learn(AWAKE + Duration::from_micros(1));
        assert_eq!(lookout.awake(MANY), Duration::ZERO, "once in vain is enough");
    }

    #[tokio::test]
    async fn whoever_looks_out_lets_others_run_and_sees_what_they_bring() {
        let (bring, mut brought) = tokio::sync::mpsc::channel(1);
        let other = tokio::spawn(async move { bring.send("an answer").await });
        // The clock stands still: only the answer ends it.
        let began = BootTime::now();
        look_out(|| began, (began, AWAKE), || !brought.is_empty()).await;
        assert_eq!(brought.try_recv(), Ok("an answer"));
        other.await.expect("it ends").expect("somebody listens");
    }

    #[tokio::test]
    async fn it_looks_out_for_as_long_as_it_is_told_to() {
        // A quarter of the time passes from one look to the next.
        let micros = Cell::new(0);
        let clock = || {
            let now = micros.get();
            micros.set(now + 50);
            BootTime::of(Moment::from_micros(now))
        };
        let (began, mut looks) = (clock(), 0);
        let look = || {
            looks += 1;
            false
        };
        look_out(clock, (began, AWAKE), look).await;
        assert_eq!(looks, 3, "the fourth is too late");
        let none = (clock(), Duration::ZERO);
        look_out(clock, none, || unreachable!("there is no time to look")).await;
    }
}
