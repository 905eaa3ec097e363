//! The connection of a lease's client is gone. By default that changes nothing, and neither does it
//! if the lease was renewed over another connection since: the end of the old one may be noticed
//! long after the client has a new one.

use crate::command::Disconnect;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;
use crate::timer::Timer;

impl Step<'_> {
    pub(crate) fn disconnect(&mut self, disconnect: &Disconnect) -> Result<Outcome, Reason> {
        let now = self.state.now;
        let lease = self.live_lease(disconnect.lease)?;
        let Some(grace) = lease.revoke_grace else {
            return Ok(Outcome::Done);
        };
        if lease.renewal != disconnect.renewal {
            return Ok(Outcome::Done);
        }
        let until = now.after(grace);
        let before = lease.revoke_at.replace(until);
        let timer = Timer::Disconnected(disconnect.lease.id);
        if let Some(before) = before {
            self.state.timers.disarm(before, timer.clone());
        }
        self.state.timers.arm(until, timer);
        Ok(Outcome::Done)
    }
}
