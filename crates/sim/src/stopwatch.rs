//! Real time, which no run can see: only how fast runs go, and where fresh seeds come from.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Real time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts one.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "how fast runs go, and when to stop; no run sees it"
    )]
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// How long it has run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A first seed that nobody has used before.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "a fresh seed; it is printed, so the run can be repeated"
)]
pub fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Room for a million seeds in each second.
    since.as_secs() * 1_000_000
}
