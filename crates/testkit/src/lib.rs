//! What the tests of all crates share.
//!
//! Owns: how a test reports that it cannot run here ([`skip`]), whether a test rewrites the file that it
//! compares with ([`update_expect`]), ports for servers that are started again ([`free_port`]), and
//! processes for tests that look at their process ([`is_alone`]).
//! Guarantees: a skip carries the name of its test, so that `cargo xtask test` can list it and does not
//! count it as passed. Nothing is rewritten in CI.
//! Refuses: being used outside of tests. Nothing that ships depends on this crate.

#![warn(missing_docs)]

mod port;
mod process;
mod skip;
mod update;

pub use port::free_port;
pub use process::is_alone;
pub use skip::{REQUIRE_TOOLS, SKIPPED_FILE, Skipped, skip, tools_are_required};
pub use update::{UPDATE_EXPECT, refuse_in_ci, update_expect};

use std::env;

/// Whether a variable that switches something on is set. Empty, `0` and `false` mean no.
fn is_on(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !["", "0", "false"].iter().any(|no| value == *no))
}
