//! The benchmark: Fencepost beside the systems people use today, in one run.
//!
//! Owns: the load, the clients of all systems, the bars, and the pages that tell of them.
//! Refuses: assertions of correctness, beyond those that a figure needs to mean anything. Nothing
//! depends on this crate.
//! Guarantees: all systems get the same load from the same process in the same run, in turns, so
//! that ratios mean something on a busy machine.
//!
//! Without the feature `peers` only the arithmetic is here.

pub mod bars;
pub mod figures;
pub mod latency;
pub mod report;
pub mod table;

#[cfg(feature = "peers")]
pub mod client;
#[cfg(feature = "peers")]
pub mod clock;
#[cfg(feature = "peers")]
pub mod machine;
#[cfg(feature = "peers")]
pub mod plot;
#[cfg(feature = "peers")]
pub mod profile;
#[cfg(feature = "peers")]
pub mod run;
#[cfg(feature = "peers")]
pub mod server;
#[cfg(feature = "peers")]
pub mod work;
