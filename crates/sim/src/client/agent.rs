//! A client at work: a simulated SDK, and a user of it.
//!
//! Owns: what the client knows. Guarantees: it never says that it holds a lock for longer than
//! the rules of the SDK allow, whatever is lost, late or doubled on the way; what its user does
//! beside that may be as careless as the plan wants.

use std::collections::BTreeMap;

use fencepost_core::ClientId;
use fencepost_node::io::Micros;

use super::counter::Counter;
use super::hold::Hold;
use super::job::{Agenda, Job};
use super::ops::{Op, OpNumber};
use super::session::Session;
use super::{
    CallNumber, CallResult, ClientAction, ClientEvent, ClientNumber, Request, WorkloadPlan,
};
use crate::dice::Dice;

/// So much may pile up for a client that is frozen.
const MISSED_MAX: usize = 1_000;

/// A client.
pub struct Client {
    pub(super) number: ClientNumber,
    pub(super) name: ClientId,
    pub(super) dice: Dice,
    pub(super) plan: WorkloadPlan,
    /// Its own clock.
    pub(super) local: Micros,
    pub(super) out: Vec<ClientAction>,
    pub(super) agenda: Agenda,
    wake_asked: Option<Micros>,
    /// It does nothing before this.
    pub(super) frozen_until: Option<Micros>,
    missed: Vec<ClientEvent>,
    /// It will never do anything again.
    pub(super) is_dead: bool,
    pub(super) has_begun: bool,
    pub(super) limits_are_set: bool,
    pub(super) next_call: u64,
    pub(super) next_op: u64,
    pub(super) next_renewal: u64,
    pub(super) calls: BTreeMap<CallNumber, OpNumber>,
    pub(super) ops: BTreeMap<OpNumber, Op>,
    pub(super) counter: Counter,
    pub(super) session: Option<Session>,
    pub(super) holds: Vec<Hold>,
    /// A token of somebody else, for a release that must not succeed.
    pub(super) token_of_another: u64,
}

impl Client {
    /// A client that has not begun yet.
    pub fn new(number: ClientNumber, dice: Dice, plan: &WorkloadPlan) -> Client {
        Client {
            number,
            name: ClientId::from(&*format!("c{}", number.0)),
            dice,
            plan: plan.clone(),
            local: Micros(0),
            out: Vec::new(),
            agenda: Agenda::default(),
            wake_asked: None,
            frozen_until: None,
            missed: Vec::new(),
            is_dead: false,
            has_begun: false,
            limits_are_set: false,
            next_call: 0,
            next_op: 0,
            next_renewal: 0,
            calls: BTreeMap::new(),
            ops: BTreeMap::new(),
            counter: Counter::default(),
            session: None,
            holds: Vec::new(),
            token_of_another: 0,
        }
    }

    /// Something happened to it.
    pub fn handle(&mut self, local: Micros, event: ClientEvent) -> Vec<ClientAction> {
        if self.is_dead {
            return Vec::new();
        }
        self.local = self.local.max(local);
        if self.wake_asked.is_some_and(|asked| asked <= self.local) {
            self.wake_asked = None;
        }
        if self.frozen_until.is_some_and(|until| self.local < until) {
            if self.missed.len() < MISSED_MAX && !matches!(event, ClientEvent::Wake) {
                self.missed.push(event);
            }
        } else {
            self.thaw();
            self.take(event);
        }
        self.run_jobs();
        self.ask_to_be_woken();
        if self.is_dead {
            // What it had already decided to do is not done either.
            self.out.clear();
        }
        std::mem::take(&mut self.out)
    }

    /// Whether it lives, and takes in at once what happens to it.
    pub fn is_awake(&self) -> bool {
        !self.is_dead && self.frozen_until.is_none()
    }

    /// What came while it was frozen is found now, late.
    fn thaw(&mut self) {
        if self.frozen_until.take().is_none() {
            return;
        }
        for event in std::mem::take(&mut self.missed) {
            self.take(event);
        }
    }

    fn take(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Wake if !self.has_begun => {
                self.has_begun = true;
                let (first, second) = (self.dice.roll(300_000), self.dice.roll(300_000));
                self.agenda.add(Micros(self.local.0 + first), Job::Begin);
                self.agenda.add(Micros(self.local.0 + first + second), Job::Act);
                if let Some((from, _)) = self.plan.quiet {
                    self.agenda.add(Micros(self.local.0 + from), Job::Rest);
                }
                if self.number.0 == 0 {
                    self.agenda.add(Micros(self.local.0 + 500_000), Job::Probe);
                }
            }
            ClientEvent::Wake => {}
            ClientEvent::Answered(call, result) => self.answered(call, result),
            ClientEvent::Restored => self.lose_everything(),
            ClientEvent::Notified(event) => self.notified(&event),
            ClientEvent::Written(name, token, accepted) => self.written(&name, token, accepted),
        }
    }

    fn run_jobs(&mut self) {
        while self.frozen_until.is_none() && !self.is_dead {
            let Some(job) = self.agenda.take_due(self.local) else { return };
            self.run(job);
        }
    }

    fn run(&mut self, job: Job) {
        match job {
            Job::Act => self.act(),
            Job::Probe => self.probe(),
            Job::Rest => self.rest(),
            Job::Begin => self.begin_session(),
            Job::Renew => self.renew(),
            Job::RenewOwned(name, token) => self.renew_owned(&name, token),
            Job::TimeOut(call) => self.time_out(call),
            Job::Again(op) => self.send(op),
            Job::CancelWait(op) => self.cancel_wait(op),
            Job::Copy(request) => {
                self.begin(*request, super::ops::Purpose::Nothing);
            }
            Job::Guard(name, token) => self.guard(&name, token),
            Job::Write(name, token) => self.out.push(ClientAction::Write(name, token)),
            Job::EndHold(name, token) => self.end_hold(&name, token),
            Job::RemoveForeign(name, lease) => self.remove_foreign(&name, lease),
        }
    }

    fn ask_to_be_woken(&mut self) {
        let next = self.frozen_until.or_else(|| self.agenda.next());
        let Some(next) = next.map(|at| at.max(Micros(self.local.0 + 1))) else { return };
        if self.wake_asked.is_none_or(|asked| next < asked) {
            self.wake_asked = Some(next);
            self.out.push(ClientAction::WakeAt(next));
        }
    }

    fn answered(&mut self, call: CallNumber, result: CallResult) {
        let Some(number) = self.calls.remove(&call) else { return };
        let Some(op) = self.ops.get_mut(&number) else { return };
        op.call = None;
        match result {
            CallResult::Done(reply) => self.done(number, reply.outcome),
            CallResult::View(view) => self.viewed(number, &view),
            CallResult::Failed(_) => {
                if self.dice.chance(500_000) {
                    self.out.push(ClientAction::Reconnect);
                }
                self.not_answered(number);
            }
            CallResult::GaveUp => self.not_answered(number),
        }
    }

    /// Whether a request like this is of interest to nobody but the checkers.
    pub(super) fn ask(&mut self, request: Request) {
        self.begin(request, super::ops::Purpose::Nothing);
    }
}
