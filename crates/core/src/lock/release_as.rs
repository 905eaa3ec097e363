//! Releases what was acquired by owner name, or ends the wait for it.

use crate::command::ReleaseAs;
use crate::event::Cause;
use crate::outcome::Outcome;
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn release_as(&mut self, release: &ReleaseAs) -> Outcome {
        let (key, _) = match self.owned_place(&release.client, &release.name) {
            Ok(place) => place,
            Err(refused) => return refused,
        };
        let held = self.state.keys.get(&key).is_some_and(|record| record.holds());
        self.remove(&key, if held { Cause::Released } else { Cause::Cancelled });
        Outcome::Released
    }
}
