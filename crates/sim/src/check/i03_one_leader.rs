//! I3, election safety: at most one member leads in a term.

use std::collections::BTreeMap;

use super::{Check, broken};

/// Who has led in which term.
#[derive(Default)]
pub(super) struct OneLeader {
    leaders: BTreeMap<u64, u64>,
}

impl OneLeader {
    pub(super) fn leads(&mut self, member: u64, term: u64) -> Check {
        let first = *self.leaders.entry(term).or_insert(member);
        if first != member {
            let what = format!("members {first} and {member} both lead in term {term}");
            return Err(broken("I3", what));
        }
        Ok(())
    }

    /// The highest term in which anybody has led.
    pub(super) fn highest(&self) -> u64 {
        self.leaders.last_key_value().map_or(0, |(&term, _)| term)
    }

    pub(super) fn restore(&mut self) {
        self.leaders.clear();
    }
}
