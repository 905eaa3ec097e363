//! Every planted bug of the session is caught by the checks of the simulation.

#[path = "support/mod.rs"]
mod support;
#[path = "world/mod.rs"]
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use fencepost_client::core::Mutant;
use world::{Options, World};

/// A bug that so many worlds do not show counts as a survivor.
const WORLDS_MAX: u64 = 300;

#[test]
fn every_planted_bug_is_caught() {
    // The findings are expected; their texts would only hide a survivor's name.
    std::panic::set_hook(Box::new(|_| {}));
    let mut survivors = Vec::new();
    for mutant in Mutant::ALL {
        let caught = (0..WORLDS_MAX).any(|seed| {
            let options = Options { mutant: Some(mutant), ..Options::seed(seed) };
            let mut world = World::new(options);
            catch_unwind(AssertUnwindSafe(|| world.run())).is_err()
        });
        if !caught {
            survivors.push(mutant);
        }
    }
    let _ = std::panic::take_hook();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
