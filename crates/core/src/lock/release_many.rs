//! Gives several locks back at one revision, or none of them.

use alloc::vec::Vec;

use crate::command::ReleaseMany;
use crate::event::Cause;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn release_many(&mut self, release: &ReleaseMany) -> Result<Outcome, Reason> {
        let mut held = Vec::with_capacity(release.names.len());
        for name in &release.names {
            held.extend(self.held_key(name, release.lease, release.token)?);
        }
        if held.is_empty() {
            return Ok(Outcome::NotFound);
        }
        for key in held {
            self.remove(&key, Cause::Released);
        }
        Ok(Outcome::Released)
    }
}
