//! Changes of members: what is allowed, and what they do when the log says so.

use std::collections::{BTreeSet, VecDeque};

use raft::prelude::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState, Entry};

use super::Node;
use crate::io::{Change, ChangeError, MemberId, Output, PeerMessage, RequestId};
use crate::membership::{Member, Standing, decode_member, encode_member, is_sound};

/// A member that lacks more entries than this does not vote yet: a quorum that needs it would
/// have to wait for it.
const BEHIND_MAX: u64 = 256;

/// A change that is in the log and not applied yet.
#[derive(Debug)]
pub(super) struct Changing {
    index: u64,
    term: u64,
    request: RequestId,
    /// What came of it, and the batch that makes it durable here.
    done: Option<(u64, Result<(), ChangeError>)>,
}

pub(super) type Changes = VecDeque<Changing>;

type Checked = Result<Option<ConfChangeV2>, ChangeError>;

impl Node {
    /// Puts a change into the log, or says why not.
    pub(super) fn change(&mut self, request: RequestId, change: Change, outputs: &mut Vec<Output>) {
        let refusal = match self.check_change(change) {
            Ok(Some(change)) => match self.raft.propose_conf_change(Vec::new(), change) {
                Ok(()) => {
                    let (index, term) = (self.last_index(), self.raft.raft.term);
                    self.changes.push_back(Changing { index, term, request, done: None });
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
        if self.raft.raft.has_pending_conf() || self.membership.is_joint() {
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
        if self.membership.removed.contains(&member.id) {
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
            None if self.membership.removed.contains(&id) => return Ok(None),
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
        if self.membership.standing(new).is_none() {
            return Err(ChangeError::UnknownMember(new));
        }
        if !voters.remove(&old) {
            return Err(ChangeError::UnknownMember(old));
        }
        if old == new {
            return Ok(None);
        }
        if !voters.insert(new) {
            return self.check_remove(old);
        }
        self.check_caught_up(new)?;
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
        if behind > BEHIND_MAX || !self.is_active(id) {
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
        self.take_members(change, conf);
        self.machine.pass(entry.index);
        outputs.push(Output::Members(Box::new(self.membership.clone())));
        let number = self.taking;
        for changing in self.changes.iter_mut().filter(|one| one.index <= entry.index) {
            let same = (changing.index, changing.term) == (entry.index, entry.term);
            let result = if same { Ok(()) } else { Err(ChangeError::Indeterminate) };
            changing.done.get_or_insert((number, result));
        }
        if !self.membership.removed.contains(&self.config.id) {
            return;
        }
        if self.leads() {
            self.leaving = Some(self.ticks);
        } else {
            self.leave(outputs);
        }
    }

    /// Answers the changes that this node's own disk knows of. A member that was taken out may be
    /// switched off as soon as that is answered: this node must not forget it then.
    pub(super) fn answer_changes(&mut self, bound: u64, outputs: &mut Vec<Output>) {
        let is_durable = |changing: &mut Changing| {
            changing.done.as_ref().is_some_and(|(number, _)| *number < bound)
        };
        while let Some(changing) = self.changes.pop_front_if(is_durable) {
            let result = changing.done.map_or(Ok(()), |(_, result)| result);
            outputs.push(Output::Changed(changing.request, result));
        }
    }

    /// A leader that has taken itself out stays for one election timeout and repeats how far the
    /// log is committed. The others may not know yet that they do not need it any more, and could
    /// wait for it for ever.
    pub(super) fn tick_leaving(&mut self, since: u64, outputs: &mut Vec<Output>) {
        self.ticks += 1;
        self.raft.ping();
        if since + self.config.election_ticks.1 as u64 <= self.ticks {
            self.drain(outputs);
            self.leave(outputs);
        }
    }

    pub(super) fn take_members(&mut self, change: &ConfChangeV2, conf: ConfState) {
        self.raft.mut_store().set_conf_state(conf.clone());
        self.membership.change(conf, decode_member(&change.context));
    }

    /// Leadership is lost: a change that is in the log may still come to pass.
    pub(super) fn abandon_changes(&mut self, outputs: &mut Vec<Output>) {
        for changing in std::mem::take(&mut self.changes) {
            let result =
                changing.done.map_or(Err(ChangeError::Indeterminate), |(_, result)| result);
            outputs.push(Output::Changed(changing.request, result));
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
        self.abandon_changes(outputs);
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
