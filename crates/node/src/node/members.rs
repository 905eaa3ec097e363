//! Changes of members: what is allowed, and what they do when the log says so.
//!
//! Nobody is sent away, and nobody is told that a change is done, before it is settled: until then
//! those who remain could forget it in a crash, and wait for one that is gone.

use std::collections::BTreeSet;

use raft::INVALID_ID;
use raft::prelude::{
    ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState, Entry, Message, MessageType,
};

use super::Node;
use crate::io::{Change, ChangeError, MemberId, Output, PeerMessage, RequestId};
use crate::membership::{Member, SETTLING, Standing, decode_member, encode_member, is_sound};

/// A member that lacks more entries than this does not vote yet: a quorum that needs it would
/// have to wait for it.
const BEHIND_MAX: u64 = 256;

type Checked = Result<Option<ConfChangeV2>, ChangeError>;

impl Node {
    /// Puts a change into the log, or says why not.
    pub(super) fn change(&mut self, request: RequestId, change: Change, outputs: &mut Vec<Output>) {
        let refusal = match self.check_change(change) {
            Ok(Some(change)) => match self.raft.propose_conf_change(Vec::new(), change) {
                Ok(()) => {
                    self.changing = Some(request);
                    return;
                }
                Err(_) => Err(ChangeError::NotLeader { leader: self.role.leader }),
            },
            Ok(None) => Ok(()),
            Err(why) => Err(why),
        };
        outputs.push(Output::Changed(request, refusal));
    }

    /// What to put into the log; nothing if things are already as they are wanted.
    fn check_change(&mut self, change: Change) -> Checked {
        if !self.leads() || self.raft.raft.lead_transferee.is_some() {
            return Err(ChangeError::NotLeader { leader: self.role.leader });
        }
        // The engine would silently replace the change by an empty entry.
        if self.raft.raft.has_pending_conf() || !self.membership.is_settled {
            return Err(ChangeError::Pending);
        }
        // A newcomer may not support the level that is about to be applied.
        if self.is_raising() && matches!(change, Change::Add(_)) {
            return Err(ChangeError::Pending);
        }
        match change {
            Change::Add(member) => self.check_add(member),
            Change::Promote(id) => self.check_promote(id),
            Change::Remove(id) => self.check_remove(id),
            Change::Replace { old, new } => self.check_replace(old, new),
        }
    }

    fn check_add(&self, member: Member) -> Checked {
        if !is_sound(&member) {
            return Err(ChangeError::Malformed);
        }
        if self.membership.was_removed(member.id) {
            return Err(ChangeError::WasRemoved(member.id));
        }
        let others = self.membership.members.values().filter(|other| other.id != member.id);
        if others.clone().any(|other| other.name == member.name) {
            return Err(ChangeError::NameTaken(member.name));
        }
        if self.membership.members.get(&member.id) == Some(&member) {
            return Ok(None);
        }
        // A member that is there already has moved to another address. It keeps its standing.
        let kind = match self.membership.standing(member.id) {
            Some(Standing::Voter) => ConfChangeType::AddNode,
            _ => ConfChangeType::AddLearnerNode,
        };
        let mut context = Vec::new();
        encode_member(&member, &mut context);
        Ok(Some(ConfChangeV2 { context, ..change_of(&[(kind, member.id)]) }))
    }

    fn check_promote(&self, id: MemberId) -> Checked {
        match self.membership.standing(id) {
            None => return Err(ChangeError::UnknownMember(id)),
            Some(Standing::Voter) => return Ok(None),
            Some(Standing::Learner) => {}
        }
        self.check_caught_up(id)?;
        let mut voters = self.membership.voters();
        voters.insert(id);
        self.check_quorum(&voters)?;
        Ok(Some(change_of(&[(ConfChangeType::AddNode, id)])))
    }

    fn check_remove(&mut self, id: MemberId) -> Checked {
        let mut voters = self.membership.voters();
        match self.membership.standing(id) {
            None if self.membership.was_removed(id) => return Ok(None),
            None => return Err(ChangeError::UnknownMember(id)),
            Some(Standing::Learner) => {}
            Some(Standing::Voter) if voters.len() == 1 => return Err(ChangeError::LastVoter),
            Some(Standing::Voter) => {
                voters.remove(&id);
                self.check_quorum(&voters)?;
                self.hand_over_if_self(id)?;
            }
        }
        Ok(Some(change_of(&[(ConfChangeType::RemoveNode, id)])))
    }

    fn check_replace(&mut self, old: MemberId, new: MemberId) -> Checked {
        let mut voters = self.membership.voters();
        match self.membership.standing(new) {
            None => return Err(ChangeError::UnknownMember(new)),
            Some(Standing::Voter) if self.membership.was_removed(old) || old == new => {
                return Ok(None);
            }
            Some(_) => {}
        }
        if !voters.remove(&old) {
            return Err(ChangeError::UnknownMember(old));
        }
        if !voters.insert(new) {
            return self.check_remove(old);
        }
        self.check_caught_up(new)?;
        if old == self.config.id && voters.len() == 1 {
            return self.give_a_successor(new);
        }
        self.check_quorum(&voters)?;
        // On the way through the joint configuration, the present voters must agree too.
        self.check_quorum(&self.membership.voters())?;
        self.hand_over_if_self(old)?;
        let changes = [(ConfChangeType::AddNode, new), (ConfChangeType::RemoveNode, old)];
        Ok(Some(change_of(&changes)))
    }

    fn check_caught_up(&self, id: MemberId) -> Result<(), ChangeError> {
        let matched = self.raft.raft.prs().get(id).map_or(0, |progress| progress.matched);
        let behind = self.last_index().saturating_sub(matched);
        if matched == 0 || behind > BEHIND_MAX || !self.is_active(id) {
            return Err(ChangeError::NotCaughtUp { behind });
        }
        Ok(())
    }

    /// Whether a majority of these answers.
    fn check_quorum(&self, voters: &BTreeSet<MemberId>) -> Result<(), ChangeError> {
        let active = voters.iter().filter(|&&id| self.is_active(id)).count();
        if active < raft::majority(voters.len()) {
            return Err(ChangeError::QuorumAtRisk);
        }
        Ok(())
    }

    /// Whether a member was heard of within the longest election timeout.
    pub(super) fn is_active(&self, id: MemberId) -> bool {
        let recent = |&tick: &u64| tick + self.config.election_ticks.1 as u64 >= self.ticks;
        id == self.config.id || self.heard.get(&id).is_some_and(recent)
    }

    /// The only voter is to go and has nobody to hand over to: the new one votes first. What was
    /// asked for is not done by that, so it must be asked for again.
    fn give_a_successor(&mut self, new: MemberId) -> Checked {
        let promotion = change_of(&[(ConfChangeType::AddNode, new)]);
        drop(self.raft.propose_conf_change(Vec::new(), promotion));
        Err(ChangeError::HandingOver)
    }

    /// A leader that is to go hands over first: its successor takes it out.
    fn hand_over_if_self(&mut self, id: MemberId) -> Result<(), ChangeError> {
        if id != self.config.id {
            return Ok(());
        }
        self.hand_over();
        Err(ChangeError::HandingOver)
    }

    /// A change was applied by the engine.
    pub(super) fn members_changed(
        &mut self,
        entry: &Entry,
        change: &ConfChangeV2,
        conf: ConfState,
        outputs: &mut Vec<Output>,
    ) {
        if self.leads() && change.context == SETTLING {
            // Whoever misses this will ask.
            for &id in &self.membership.leaving {
                outputs.push(Output::Send(id, PeerMessage::YouWereRemoved));
            }
        }
        self.take_members(change, conf);
        self.machine.pass(entry.index);
        outputs.push(Output::Members(Box::new(self.membership.clone())));
        if self.membership.is_settled
            && let Some(request) = self.changing.take()
        {
            outputs.push(Output::Changed(request, Ok(())));
        }
        if self.leads() && self.membership.was_removed(self.config.id) {
            self.is_resigning = true;
        }
    }

    /// A leader that has taken itself out tells how far the log is committed, asks the best of the
    /// others to follow it, and leads no more. It stays until its successor tells it to go: those
    /// who do not know yet that they do not need it can still have its vote.
    pub(super) fn resign(&mut self, outputs: &mut Vec<Output>) {
        self.raft.ping();
        let term = self.raft.raft.term;
        if let Some(to) = self.successor() {
            let mut now = Message { to, from: self.config.id, term, ..Message::default() };
            now.set_msg_type(MessageType::MsgTimeoutNow);
            self.send(vec![now], outputs);
        }
        self.raft.raft.become_follower(term, INVALID_ID);
        self.is_resigning = false;
        self.drain(outputs);
    }

    pub(super) fn take_members(&mut self, change: &ConfChangeV2, conf: ConfState) {
        self.raft.mut_store().set_conf_state(conf.clone());
        match change.context == SETTLING {
            true => self.membership.settle(),
            false => self.membership.change(conf, decode_member(&change.context)),
        }
    }

    /// Leadership is lost: a change that is in the log may still come to pass.
    pub(super) fn abandon_change(&mut self, outputs: &mut Vec<Output>) {
        if let Some(request) = self.changing.take() {
            outputs.push(Output::Changed(request, Err(ChangeError::Indeterminate)));
        }
    }

    /// The engine leaves a joint configuration by itself, but not if leadership changed just
    /// before. It would stay in it for ever.
    pub(super) fn leave_joint(&mut self) {
        let idle = !self.raft.raft.has_pending_conf();
        if self.leads() && self.membership.is_joint() && idle {
            // If it is refused, the next tick tries again.
            drop(self.raft.propose_conf_change(Vec::new(), ConfChangeV2::default()));
        }
    }

    /// Writes the entry that settles the last change, as soon as that is applied.
    pub(super) fn settle(&mut self) {
        let changing = self.raft.raft.has_pending_conf() || self.membership.is_joint();
        if self.membership.is_settled || changing || !self.leads() {
            return;
        }
        // To say that a voter votes changes nothing. The engine takes no change that is empty.
        let nothing = change_of(&[(ConfChangeType::AddNode, self.config.id)]);
        let settling = ConfChangeV2 { context: SETTLING.to_vec(), ..nothing };
        // If it is refused, the next input tries again.
        drop(self.raft.propose_conf_change(Vec::new(), settling));
    }

    /// A node that cannot stand for election says nothing by itself. If the others are silent too,
    /// it may be that it was taken out while it was away: it asks them.
    pub(super) fn ask_if_member(&self, outputs: &mut Vec<Output>) {
        let patience = self.config.election_ticks.1 as u64;
        let is_quiet = !self.members_heard_since(self.ticks.saturating_sub(patience));
        if self.raft.raft.promotable() || !is_quiet || !self.ticks.is_multiple_of(patience) {
            return;
        }
        for &to in self.membership.members.keys().filter(|&&id| id != self.config.id) {
            outputs.push(Output::Send(to, PeerMessage::AmIAMember));
        }
    }

    fn members_heard_since(&self, tick: u64) -> bool {
        self.heard.values().any(|&heard| heard > tick)
    }

    /// Tells a stranger that was a member once that it is none any more. Says whether it was one.
    pub(super) fn turn_away_removed(&self, from: MemberId, outputs: &mut Vec<Output>) -> bool {
        let was = self.membership.removed.contains(&from);
        if was {
            outputs.push(Output::Send(from, PeerMessage::YouWereRemoved));
        }
        was
    }

    /// This node is no member any more.
    pub(super) fn leave(&mut self, outputs: &mut Vec<Output>) {
        self.abandon_batches(outputs);
        self.abandon_change(outputs);
        outputs.push(Output::Removed);
        self.halted = true;
    }
}

fn change_of(changes: &[(ConfChangeType, MemberId)]) -> ConfChangeV2 {
    let changes = changes.iter().map(|&(kind, node_id)| {
        let mut change = ConfChangeSingle { node_id, ..ConfChangeSingle::default() };
        change.set_change_type(kind);
        change
    });
    ConfChangeV2 { changes: changes.collect(), ..ConfChangeV2::default() }
}
