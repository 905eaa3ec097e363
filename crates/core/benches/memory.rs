//! What a held lock costs in memory, counted at the allocator.
//!
//! `cargo bench -p fencepost-core --bench memory` prints bytes per held lock, with names of 32
//! bytes under 64 leases, and ends with exit code 1 if a lock takes more than 400. The history
//! ring is left out of that figure and reported beside it: it is bounded, however many locks.

#![expect(clippy::print_stdout, reason = "the report goes to standard output")]

mod support;

use peak_alloc::PeakAlloc;

use support::{hold, state_without_history};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const BYTES_PER_LOCK_MAX: u64 = 400;

fn main() {
    println!("bytes per held lock");
    let mut worst = 0;
    for locks in [1_000, 100_000, 1_000_000] {
        let before = ALLOCATOR.current_usage();
        let mut state = state_without_history();
        hold(&mut state, locks);
        let each = (ALLOCATOR.current_usage() - before) as u64 / locks;
        println!("  {locks:>9} locks  {each:>6}");
        worst = worst.max(each);
        drop(state);
    }
    let before = ALLOCATOR.current_usage();
    let mut state = support::new_state();
    hold(&mut state, 100_000);
    let with_history = ALLOCATOR.current_usage() - before;
    println!(
        "history ring: {} events, {with_history} bytes with 100,000 locks",
        state.history().len()
    );
    println!("worst: {worst} (at most {BYTES_PER_LOCK_MAX})");
    std::process::exit(i32::from(worst > BYTES_PER_LOCK_MAX));
}
