//! Forgets history before a revision.

use crate::command::Compact;
use crate::ids::Revision;
use crate::outcome::{Outcome, Reason};
use crate::step::Step;

impl Step<'_> {
    pub(crate) fn compact(&mut self, compact: &Compact) -> Result<Outcome, Reason> {
        let compacted = self.state.history.compacted();
        if compact.revision <= compacted || compact.revision == Revision::NONE {
            return Err(Reason::Compacted(compacted));
        }
        if compact.revision > self.state.revision {
            return Err(Reason::RevisionFuture(self.state.revision));
        }
        match self.state.feature_level {
            ..2 => self.state.history.compact(compact.revision),
            _ => self.state.history.hide(compact.revision),
        }
        Ok(Outcome::Done)
    }
}
