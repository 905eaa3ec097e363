//! Expected files that a test rewrites on request.
//!
//! A test that rewrites what it compares with cannot fail, so CI refuses the request.

use std::env;

/// The variable that asks for rewriting.
pub const UPDATE_EXPECT: &str = "UPDATE_EXPECT";

/// Whether tests rewrite the files that they compare with.
///
/// # Panics
///
/// If rewriting is requested in CI.
#[must_use]
pub fn update_expect() -> bool {
    refuse_in_ci(UPDATE_EXPECT);
    env::var_os(UPDATE_EXPECT).is_some()
}

/// Refuses a variable that asks for rewriting where `CI` is set.
///
/// # Panics
///
/// If both are set.
pub fn refuse_in_ci(variable: &str) {
    check(variable, env::var_os(variable).is_some(), crate::is_on("CI"));
}

fn check(variable: &str, is_requested: bool, is_ci: bool) {
    assert!(
        !(is_requested && is_ci),
        "{variable} is set in CI\n\
         a test that rewrites the file it compares with cannot fail\n\
         run `env -u {variable} cargo xtask test`"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_files_are_rewritten_outside_ci() {
        check(UPDATE_EXPECT, true, false);
        check(UPDATE_EXPECT, false, true);
        check(UPDATE_EXPECT, false, false);
    }

    #[test]
    #[should_panic(expected = "run `env -u UPDATE_EXPECT cargo xtask test`")]
    fn ci_refuses_to_rewrite_expected_files() {
        check(UPDATE_EXPECT, true, true);
    }
}
