//! The operator: adds, promotes, removes and replaces members, as a person with a runbook would.
//!
//! It asks one member at a time, goes where it is sent, and asks again whatever was not done for
//! sure. It never drops a change whose fate is unknown.

use std::collections::VecDeque;

use fencepost_node::io::{Change, ChangeError, Input, MemberId, RequestId};

use super::World;
use super::happening::{Happening, ToMember};
use super::member::Fate;
use super::start::person;
use crate::bug::WorldBug;
use crate::dice::Dice;
use crate::plan::{HEAL_AT, MS, SECOND};

/// How often it lets itself be sent to another member, before it waits.
const HOPS_MAX: u32 = 5;
/// How long it waits for an answer.
const PATIENCE: u64 = 3 * SECOND;

/// One step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Start a new member with an empty disk.
    Begin(MemberId),
    /// Add it as a learner.
    Add(MemberId),
    /// Let it vote.
    Promote(MemberId),
    /// Take a member out.
    Remove(MemberId),
    /// Put one in the place of another.
    Replace(MemberId, MemberId),
}

/// Several steps, one after the other.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) steps: VecDeque<Step>,
    /// Whether the cluster lacks a member until it is done. Others may be refused.
    pub(super) must: bool,
}

/// The operator.
pub(super) struct Operator {
    pub(super) dice: Dice,
    jobs: VecDeque<Job>,
    /// What was asked, and when.
    asked: Option<(RequestId, u64)>,
    /// Who is thought to lead.
    guess: Option<MemberId>,
    hops: u32,
    is_looking: bool,
    /// When a member last answered.
    last_answer: u64,
}

impl Operator {
    pub(super) fn new(dice: Dice) -> Operator {
        let (jobs, asked, guess) = (VecDeque::new(), None, None);
        Operator { dice, jobs, asked, guess, hops: 0, is_looking: false, last_answer: 0 }
    }

    /// Whether there is nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether there is nothing to do, and was not at that time either.
    pub(super) fn is_idle_since(&self, then: u64) -> bool {
        self.is_idle() && self.last_answer <= then
    }

    /// Forgets everything: the cluster is another one.
    pub(super) fn forget(&mut self) {
        self.jobs.clear();
        self.asked = None;
        self.guess = None;
    }
}

impl World {
    /// Gives the operator a job.
    pub(super) fn add_job(&mut self, steps: impl IntoIterator<Item = Step>, must: bool) {
        let job = Job { steps: steps.into_iter().collect(), must };
        self.trace.note(self.now, 80, &[job.steps.len() as u64], format_args!("operator: {job:?}"));
        self.operator.jobs.push_back(job);
        self.look_after(10 * MS);
    }

    /// A voter is lost: a new member takes its place, in one of the ways there are.
    pub(super) fn replace_lost(&mut self, old: MemberId) {
        if self.membership.1.standing(old).is_none() {
            return;
        }
        if self.has(WorldBug::NumberUsedAgain) {
            self.come_back_empty(old);
            return;
        }
        let new = self.new_member();
        let steps = match self.operator.dice.roll(3) {
            0 => vec![Step::Begin(new), Step::Add(new), Step::Promote(new), Step::Remove(old)],
            1 => vec![Step::Remove(old), Step::Begin(new), Step::Add(new), Step::Promote(new)],
            _ => vec![Step::Begin(new), Step::Add(new), Step::Replace(old, new)],
        };
        self.add_job(steps, true);
    }

    /// What nobody should do: the same number, with a disk that has forgotten its votes.
    fn come_back_empty(&mut self, id: MemberId) {
        let member = self.members.get_mut(&id).expect("it was just lost");
        member.disk = fencepost_node::disk::MemoryDisk::new();
        member.is_opened = false;
        member.is_damaged = false;
        member.fate = Fate::Lives;
        self.plan_in(100 * MS, Happening::Start(id));
    }

    fn look_after(&mut self, wait: u64) {
        if !self.operator.is_looking {
            self.operator.is_looking = true;
            self.plan_in(wait, Happening::Operate);
        }
    }

    /// The operator looks after its jobs.
    pub(super) fn operate(&mut self) {
        self.operator.is_looking = false;
        let Some(job) = self.operator.jobs.front() else { return };
        let Some(&step) = job.steps.front() else {
            self.operator.jobs.pop_front();
            return self.look_after(10 * MS);
        };
        let waits = self.operator.asked.is_some_and(|(_, since)| self.now < since + PATIENCE);
        if !waits {
            self.take_step(step);
        }
        let wait = self.operator.dice.between(100 * MS, 400 * MS);
        self.look_after(wait);
    }

    fn take_step(&mut self, step: Step) {
        let change = match step {
            Step::Begin(new) => {
                self.start(new);
                return self.step_done();
            }
            Step::Add(new) => {
                self.upgrade_newcomer(new);
                Change::Add(person(new))
            }
            Step::Promote(new) => Change::Promote(new),
            Step::Remove(old) => Change::Remove(old),
            Step::Replace(old, new) => Change::Replace { old, new },
        };
        let awake = self.awake();
        if awake.is_empty() {
            return;
        }
        let known = self.operator.guess.filter(|guess| awake.contains(guess));
        let target = known.unwrap_or_else(|| *self.operator.dice.pick(&awake));
        let request = self.next_request();
        self.operator.asked = Some((request, self.now));
        let what = format_args!("operator asks n{target}: {change:?}");
        self.trace.note(self.now, 81, &[target, request.number], what);
        let told = ToMember::Told(self.members[&target].life, Input::Change(request, change));
        self.plan_in(MS, Happening::Member(target, told));
    }

    /// Switches off a member that was taken out, when everybody else says that it is gone: until
    /// a joint configuration is left, the old voters are still needed.
    pub(super) fn switch_off(&mut self, id: MemberId) {
        let knows = |other: &MemberId| {
            let node = self.members.get(other).and_then(|member| member.node());
            node.is_some_and(|node| !node.membership().contains(id))
        };
        if self.voters().iter().all(knows) {
            self.retire(id);
        } else {
            self.plan_in(300 * MS, Happening::Retire(id));
        }
    }

    fn step_done(&mut self) {
        self.operator.asked = None;
        self.operator.hops = 0;
        let Some(job) = self.operator.jobs.front_mut() else { return };
        let gone = match job.steps.pop_front() {
            Some(Step::Remove(old) | Step::Replace(old, _)) => Some(old),
            _ => None,
        };
        if job.steps.is_empty() {
            self.operator.jobs.pop_front();
        }
        if let Some(gone) = gone {
            // Whoever was taken out is switched off, sooner or later.
            let heals = self.now >= HEAL_AT;
            let after = self.operator.dice.roll(if heals { 500 * MS } else { 10 * SECOND });
            self.plan_in(after, Happening::Retire(gone));
        }
    }

    /// A member has answered the operator.
    pub(super) fn changed(&mut self, request: RequestId, result: Result<(), ChangeError>) {
        let done = u64::from(result.is_ok());
        let what = format_args!("operator is told of {}: {result:?}", request.number);
        self.trace.note(self.now, 82, &[request.number, done], what);
        if self.operator.asked.is_none_or(|(asked, _)| asked != request) {
            return;
        }
        self.operator.asked = None;
        self.operator.last_answer = self.now;
        match result {
            Ok(()) => self.step_done(),
            Err(ChangeError::NotLeader { leader: Some(leader) })
                if self.operator.hops < HOPS_MAX =>
            {
                self.operator.hops += 1;
                self.operator.guess = Some(leader);
            }
            Err(
                ChangeError::NotLeader { .. }
                | ChangeError::HandingOver
                | ChangeError::Indeterminate,
            ) => {
                self.operator.hops = 0;
                self.operator.guess = None;
            }
            Err(ChangeError::Pending | ChangeError::NotCaughtUp { .. }) => {}
            Err(refusal) => self.refused_change(&refusal),
        }
    }

    /// The leader will not do it. What the cluster does not need is dropped; the rest may be
    /// possible later.
    fn refused_change(&mut self, refusal: &ChangeError) {
        let may_pass = matches!(refusal, ChangeError::QuorumAtRisk);
        let Some(job) = self.operator.jobs.front() else { return };
        if let (ChangeError::UnknownMember(gone), Some(Step::Replace(old, _))) =
            (refusal, job.steps.front())
            && gone == old
            && self.membership.1.removed.contains(old)
        {
            // An earlier request, whose answer was lost, has come to pass.
            return self.step_done();
        }
        if job.must && !may_pass {
            let what = format!("{:?} was refused: {refusal}", job.steps.front());
            self.watch.broken("members", what);
        } else if !job.must {
            self.operator.jobs.pop_front();
        }
    }
}
