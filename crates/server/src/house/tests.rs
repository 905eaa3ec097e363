//! How many waiters are looked at for their place.

use fencepost_core::{Key, Revision};
use tokio::sync::oneshot;

use super::*;
use crate::test_house::TestHouse;

// Requirements: S0-065.
#[tokio::test(flavor = "multi_thread")]
async fn places_are_told_to_a_bounded_number_at_once() {
    const WAITERS: usize = 40;
    let test = TestHouse::with_a_held_lock().await;
    let key = |number: usize| Key::from(format!("a/{number:02}").as_str());
    let mut waiting = Vec::new();
    for number in 0..WAITERS {
        let (tell, verdict) = oneshot::channel();
        let ticket = test.house.pending().register(key(number), Postbox::Call(tell));
        assert_eq!(test.house.pending().queued(&ticket, Revision(0)), None, "it waits");
        waiting.push(verdict);
    }
    let most = limits::PLACES_PER_LOOK;
    let last = test.house.tell_places(None).await;
    assert_eq!(last, Some(key(most - 1)));
    // The next look goes on behind them, and round.
    assert_eq!(test.house.tell_places(last).await, Some(key(2 * most - 1 - WAITERS)));
}
