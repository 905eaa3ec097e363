//! Releases what was acquired by owner name, or ends the wait for it.

use crate::command::ReleaseAs;
use crate::event::Cause;
use crate::outcome::{Denial, Outcome};
use crate::record::contender_key;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn release_as(&mut self, release: &ReleaseAs) -> Outcome {
        self.end_dead_ahead(&release.name);
        let Some(lease) = self.owner_lease(&release.client, &release.name) else {
            return match self.state.locks.contains_key(&release.name) {
                true => Outcome::Denied(Denial::NotOwner),
                false => Outcome::NotFound,
            };
        };
        let key = contender_key(&release.name, lease);
        let held = self.state.keys.get(&key).is_some_and(|record| record.holds());
        self.remove(&key, if held { Cause::Released } else { Cause::Cancelled });
        Outcome::Released
    }
}
