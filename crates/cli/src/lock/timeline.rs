//! When work must stop: the arithmetic of a lock's last seconds.
//!
//! From the sending of the last confirmed renewal on, on the clock that goes on while the machine
//! sleeps:
//!
//! ```text
//! 0 ────────── window ───── + slack ──────── deadline - slack ──── deadline ──── TTL
//!              supervisor   watchdog         KILL at the latest    the service could
//!              sends TERM   sends TERM                             give the lock away
//! ```
//!
//! Guarantees: the grace between TERM and KILL fits whole before the deadline, whoever of the two
//! sends the signals; a grace that does not fit is refused before anything begins.

use std::fmt;
use std::time::Duration;

use fencepost_client::core::{Moment as Sent, believed_until};
use fencepost_client::{BootTime, Guard};

use crate::failure::Failure;

/// The grace if none is given, where the TTL allows for it.
const GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// The longest lease that a cluster can be made to allow.
const TTL_MAX: Duration = Duration::from_hours(24);
/// The least and the most that is set aside for signals to take effect.
const SLACK_MIN: Duration = Duration::from_millis(50);
const SLACK_MAX: Duration = Duration::from_secs(1);

/// A moment on the clock that goes on while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment(BootTime::now().since_boot())
    }

    /// So long after the machine was started.
    pub(crate) fn from_micros(micros: u64) -> Moment {
        Moment(Duration::from_micros(micros))
    }

    pub(crate) fn since_boot(self) -> Duration {
        self.0
    }

    /// The moment before which the service cannot give the guard's lock to anybody else.
    pub(crate) fn deadline(guard: &Guard) -> Moment {
        Moment(guard.deadline().since_boot())
    }

    pub(crate) fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }

    pub(crate) fn before(self, span: Duration) -> Moment {
        Moment(self.0.saturating_sub(span))
    }
}

/// In microseconds, as the watchdog is told.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_micros().fmt(f)
    }
}

/// How the time of one TTL is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    ttl: Duration,
    window: Duration,
    grace: Duration,
    slack: Duration,
}

impl Timeline {
    /// Divides the TTL. The window is half of it, and gives way to a long grace down to a quarter:
    /// with less, two lost renewals would be enough to lose the lock.
    pub(crate) fn plan(ttl: Duration, grace: Option<Duration>) -> Result<Timeline, Failure> {
        if ttl > TTL_MAX {
            return Err(too_long(ttl));
        }
        let slack = (ttl / 20).clamp(SLACK_MIN, SLACK_MAX);
        let is_given = grace.is_some();
        let grace = grace.unwrap_or(GRACE_DEFAULT.min(ttl / 6));
        let believed = Duration::from_micros(believed_until(Sent::default(), ttl).micros());
        let left =
            believed.checked_sub(grace.saturating_add(2 * slack)).filter(|&left| left >= ttl / 4);
        let Some(left) = left.filter(|left| !left.is_zero()) else {
            let most = believed.saturating_sub(2 * slack + ttl / 4);
            return Err(if is_given { does_not_fit(ttl, grace, most) } else { too_short(ttl) });
        };
        Ok(Timeline { ttl, window: left.min(ttl / 2), grace, slack })
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl
    }

    /// How long work goes on without a confirmed renewal.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// How long a process has between TERM and KILL.
    pub(crate) fn grace(&self) -> Duration {
        self.grace
    }

    /// When the watchdog steps in, if the supervisor has not. A little after the supervisor would
    /// have, so that work is not told twice.
    pub(crate) fn stop_at_latest(&self, deadline: Moment) -> Moment {
        self.kill_at_latest(deadline).before(self.grace)
    }

    /// When KILL must be sent, so that it has taken effect at the deadline.
    pub(crate) fn kill_at_latest(&self, deadline: Moment) -> Moment {
        deadline.before(self.slack)
    }

    /// How often the supervisor looks at the deadline: it moves on with every third of a TTL.
    pub(crate) fn tick(&self) -> Duration {
        (self.ttl / 50).clamp(Duration::from_millis(10), Duration::from_millis(500))
    }
}

/// The service takes no shorter one, and there would be no time to end a command in.
fn too_short(ttl: Duration) -> Failure {
    Failure::usage(
        format!("a TTL of {} is too short", humantime::format_duration(ttl)),
        "the command must be ended before it is over, and that takes time",
        "choose a TTL of 500ms or more",
    )
}

fn too_long(ttl: Duration) -> Failure {
    Failure::usage(
        format!("a TTL of {} is too long", humantime::format_duration(ttl)),
        "no cluster grants a lease for more than a day",
        "choose a shorter --ttl: it is renewed for as long as the lock is held",
    )
}

fn does_not_fit(ttl: Duration, grace: Duration, most: Duration) -> Failure {
    let shown = humantime::format_duration;
    let whole = Duration::from_millis(u64::try_from(most.as_millis()).unwrap_or(u64::MAX));
    Failure::usage(
        format!("a grace of {} does not fit into a TTL of {}", shown(grace), shown(ttl)),
        format!(
            "the command must have ended before somebody else can get the lock, which leaves {} \
             at most between TERM and KILL",
            shown(whole)
        ),
        "choose a shorter --grace, or a longer --ttl",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn everything_fits_before_the_deadline_for_every_ttl() {
        for ttl in [500, 501, 750, 1_000, 3_000, 10_000, 30_000, 86_400_000].map(ms) {
            let plan = Timeline::plan(ttl, None).expect("the default fits");
            let deadline =
                Moment(Duration::from_micros(believed_until(Sent::default(), ttl).micros()));
            let supervisor = Moment(plan.window());
            assert!(plan.stop_at_latest(deadline) >= supervisor.after(plan.slack), "{ttl:?}");
            assert!(supervisor.after(plan.grace()) <= plan.kill_at_latest(deadline), "{ttl:?}");
            assert!(plan.kill_at_latest(deadline) < deadline, "{ttl:?}");
            assert!(!plan.grace().is_zero() && !plan.window().is_zero(), "{ttl:?}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_documentation() {
        let plan = Timeline::plan(ms(30_000), None).expect("fits");
        assert_eq!((plan.window(), plan.grace()), (ms(15_000), ms(5_000)));
        let plan = Timeline::plan(ms(3_000), None).expect("fits");
        assert_eq!((plan.window(), plan.grace()), (ms(1_500), ms(500)));
    }

    #[test]
    fn a_long_grace_shortens_the_window_and_one_that_is_too_long_is_refused() {
        // Believed in for 29.65 s, of which a second is for signals, twice.
        let plan = Timeline::plan(ms(30_000), Some(ms(20_000))).expect("fits");
        assert_eq!(plan.window(), ms(7_650));
        let plan = Timeline::plan(ms(30_000), Some(ms(20_150))).expect("just fits");
        assert_eq!(plan.window(), ms(7_500));
        let refused = Timeline::plan(ms(30_000), Some(ms(20_151))).expect_err("too long");
        let text = refused.to_string();
        assert!(text.contains("20s 150ms at most"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn no_grace_at_all_is_allowed() {
        let plan = Timeline::plan(ms(1_000), Some(Duration::ZERO)).expect("fits");
        assert_eq!(plan.window(), ms(500));
    }

    #[test]
    fn a_ttl_without_room_is_refused() {
        assert!(Timeline::plan(ms(50), None).is_err());
        assert!(Timeline::plan(Duration::ZERO, None).is_err());
    }

    #[test]
    fn ttl_beyond_a_day_is_called_too_long() {
        assert!(Timeline::plan(TTL_MAX, None).is_ok());
        for ttl in [TTL_MAX + ms(1), Duration::from_hours(99_999_999_999_999), Duration::MAX] {
            let text = Timeline::plan(ttl, None).expect_err("too long").to_string();
            assert!(text.contains("is too long"), "{text}");
        }
    }
}
