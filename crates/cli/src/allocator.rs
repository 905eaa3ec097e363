//! Returns freed memory to the system.
//!
//! The allocator keeps pages that were freed for a second, in case they are wanted again, and looks
//! for those whose time is over when another page is freed. A server that falls idle after a flood of
//! connections frees no page any more, and would keep the memory of all of them.

use std::hint::black_box;
use std::time::Duration;

/// How often the allocator is made to look.
const INTERVAL: Duration = Duration::from_secs(5);
/// A block with pages of its own, so that freeing it frees them. They are not touched, so it takes no
/// memory.
const BLOCK_BYTES: usize = 8 << 20;

/// Lets the allocator look for pages that it can return, for as long as this runs.
pub(crate) async fn return_freed_memory() {
    let mut looks = tokio::time::interval(INTERVAL);
    loop {
        looks.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(BLOCK_BYTES)));
    }
}
