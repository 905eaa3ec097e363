//! Raises the feature level of the cluster when every member supports a higher one.
//!
//! Owns: the decision when to propose a higher level. Guarantees: no level is proposed that a
//! present member has not said to support in the life of its process; a member whose build cannot
//! apply the cluster's level stops. Refuses: to guess the level of a member that is away.

use super::Node;
use super::propose::Asker;
use crate::io::{Class, Output};
use crate::machine::{Machine, raise_feature_level};

/// A level that was proposed and may not be applied yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raise {
    term: u64,
    level: u32,
    /// When it was proposed.
    tick: u64,
}

/// After so many ticks a level is proposed again: the queue may have been full. Raising the level
/// twice does no harm.
const RAISE_AGAIN_TICKS: u64 = 100;

impl Node {
    /// The feature level of the cluster, as far as the log is applied.
    pub fn feature_level(&self) -> u32 {
        self.machine.feature_level()
    }

    /// Proposes the highest level that every member supports, if it is higher than the present one.
    pub(super) fn raise_level(&mut self, outputs: &mut Vec<Output>) {
        if self.config.feature_level <= self.feature_level() || !self.leads() {
            return;
        }
        // A member that is about to be added may support less.
        let raft = &self.raft.raft;
        let is_changing = raft.has_pending_conf() || !self.membership.is_settled;
        let is_leaving = raft.lead_transferee.is_some() || self.is_resigning;
        let is_recent = |raise: Raise| raise.tick + RAISE_AGAIN_TICKS > self.ticks;
        let waits = self.is_raising() && self.raise.is_some_and(is_recent);
        if is_changing || is_leaving || waits {
            return;
        }
        let Some(level) = self.common_level().filter(|&level| level > self.feature_level()) else {
            return;
        };
        self.raise = Some(Raise { term: raft.term, level, tick: self.ticks });
        self.enqueue(Asker::Itself, Class::Ordinary, raise_feature_level(level), outputs);
    }

    /// The term in which this leader has last proposed a level, for tests.
    pub fn raise_term(&self) -> Option<u64> {
        self.raise.map(|raise| raise.term)
    }

    /// The term of an entry of the log, for tests.
    pub fn log_term(&self, index: u64) -> Option<u64> {
        self.raft.raft.raft_log.term(index).ok()
    }

    /// Whether a level was proposed in this term and is not applied yet.
    pub(super) fn is_raising(&self) -> bool {
        let level = self.feature_level();
        self.raise.is_some_and(|raise| raise.term == self.raft.raft.term && raise.level > level)
    }

    /// The highest level that all members support: voters and learners, on both sides of a joint
    /// configuration. None if one of them is away or has not introduced itself.
    fn common_level(&self) -> Option<u32> {
        let conf = &self.membership.conf;
        let lists = [&conf.voters, &conf.voters_outgoing, &conf.learners, &conf.learners_next];
        let mut lowest = self.config.feature_level;
        for &id in lists.into_iter().flatten().filter(|&&id| id != self.config.id) {
            let info = self.peer_info(id).filter(|_| self.is_active(id))?;
            lowest = lowest.min(info.feature_level()?);
        }
        Some(lowest)
    }

    /// Why this build cannot go on with a state, if it cannot.
    pub(super) fn check_level(&self, machine: &Machine) -> Result<(), String> {
        level_supported(self.config.feature_level, machine)
    }

    /// Stops this member: the cluster's level is higher than this build's.
    pub(super) fn halt_level(&mut self, why: &str, outputs: &mut Vec<Output>) {
        outputs.push(Output::Halt(format!(
            "this node stops: {why}\n\
             the other members were upgraded, and the cluster cannot go back\n\
             start the build that the other members run"
        )));
        self.halted = true;
    }
}

/// Whether a build that supports `supported` can apply the level of this state.
pub(super) fn level_supported(supported: u32, machine: &Machine) -> Result<(), String> {
    let level = machine.feature_level();
    match level > supported {
        true => {
            Err(format!("the cluster has feature level {level}, this build supports {supported}"))
        }
        false => Ok(()),
    }
}
