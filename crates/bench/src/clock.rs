//! The one clock of the benchmark.

use std::time::{Duration, Instant};

/// Now.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Lets so much time pass: a warm-up, a window, a pause before memory is read.
pub async fn pass(span: Duration) {
    tokio::time::sleep(span).await;
}
