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

#[cfg(all(test, target_os = "linux", feature = "mimalloc"))]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use super::*;

    const BLOCKS: usize = 16_000;
    const SMALL_BYTES: usize = 4_096;
    const BYTES: usize = BLOCKS * SMALL_BYTES;
    /// Longer than it takes on a machine that is busy with other things.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// How many bytes of memory this process has. Looking takes none from the allocator.
    fn resident_bytes() -> usize {
        let mut text = [0; 8_192];
        let mut file = File::open("/proc/self/status").expect("the system measures it");
        let len = file.read(&mut text).expect("it can be read");
        let text = std::str::from_utf8(&text[..len]).expect("it is text");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kib.expect("it is a number") << 10
    }

    #[tokio::test]
    async fn freed_memory_is_returned_without_other_work() {
        let before = resident_bytes();
        let blocks: Vec<Box<[u8]>> =
            (0..BLOCKS).map(|_| black_box(vec![1; SMALL_BYTES].into_boxed_slice())).collect();
        assert!(resident_bytes() > before + BYTES / 2, "it takes memory");
        drop(blocks);
        let returned = async {
            while resident_bytes() > before + BYTES / 4 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = return_freed_memory() => {}
            returned = tokio::time::timeout(PATIENCE, returned) => returned.expect("it is returned"),
        }
    }
}
