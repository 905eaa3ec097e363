//! The session: all that a client knows and decides, without I/O and without a clock.
//!
//! Owns: leases and their renewal, what may be believed and until when, open requests and their
//! repeats, the local queues, the choice of an endpoint. Refuses: time, sockets, threads; they are
//! inputs and outputs, see [`Input`] and [`Output`].
//!
//! Guarantees: a hold is reported lost no later than its cutoff, which is never after its deadline;
//! an acquire that fails with anything but [`Error::Indeterminate`] leaves nothing behind; two
//! acquires of one session that exclude each other are granted in the order in which they came.
//!
//! This module is public for simulators. It is no part of the stable interface.
//!
//! [`Error::Indeterminate`]: crate::Error::Indeterminate

mod acquire;
mod answer;
mod body;
mod call;
mod config;
mod court;
mod end_acquire;
mod hold;
mod incarnation;
mod io;
mod lease;
mod line;
mod link;
mod mutant;
mod numbers;
mod release;
mod renew;
mod requests;
mod table;
mod time;
mod timers;
mod unsent;
mod user_lease;
mod verify;
mod watch;

pub use config::Config;
pub use io::{
    AdoptedLease, Call, Held, HoldId, Input, LeaseMade, LeaseNo, LeaseSpec, LinkId, LockSpec, Loss,
    Mode, OpId, Output, Place, Released, Validity, Wait, WatchId, WatchNews, WatchSpec,
};
#[cfg(feature = "mutants")]
pub use mutant::Mutant;
pub use time::{Moment, believed_until};
pub(crate) use time::{from_wire_ms, wire_ms};

use crate::error::Error;
use acquire::Attempt;
use call::Asked;
use hold::Hold;
use lease::Leases;
use line::Lines;
use link::Link;
use numbers::Numbers;
use renew::Renewals;
use requests::Requests;
pub(crate) use table::ByNumber;
use table::Table;
use timers::{Timer, Timers};
use watch::Watches;

/// One client's session with the service, over as many connections as it takes.
#[derive(Debug)]
pub struct Session {
    config: Config,
    now: Moment,
    rng: fastrand::Rng,
    timers: Timers,
    link: Link,
    requests: Requests,
    /// For requests that make or end a lease. A lease has numbers of its own.
    numbers: Numbers,
    leases: Leases,
    renewals: Renewals,
    attempts: Table<OpId, Attempt>,
    holds: Table<HoldId, Hold>,
    holds_made: u64,
    lines: Lines,
    /// What users wait for beside acquires.
    asked: Table<OpId, Asked>,
    watches: Watches,
    closing: bool,
    #[cfg(feature = "mutants")]
    planted: Option<Mutant>,
    out: Vec<Output>,
}

impl Session {
    /// A session that begins to connect with the first input.
    pub fn new(config: Config) -> Session {
        let rng = fastrand::Rng::with_seed(config.seed);
        Session {
            config,
            now: Moment::default(),
            rng,
            timers: Timers::default(),
            link: Link::default(),
            requests: Requests::default(),
            numbers: Numbers::default(),
            leases: Leases::default(),
            renewals: Renewals::default(),
            attempts: Table::default(),
            holds: Table::default(),
            holds_made: 0,
            lines: Lines::default(),
            asked: Table::default(),
            watches: Watches::default(),
            closing: false,
            #[cfg(feature = "mutants")]
            planted: None,
            out: Vec::new(),
        }
    }

    /// Takes in what happened at `now`, on a clock that never goes back.
    ///
    /// What was due by then happens first: an answer that arrives after a hold's cutoff, because
    /// this process was stopped, cannot bring the hold back.
    pub fn handle(&mut self, now: Moment, input: Input) {
        self.now = self.now.max(now);
        self.start_link();
        while let Some(timer) = self.timers.pop_due(self.now) {
            self.fire(timer);
        }
        self.take(input);
        self.flush();
        self.see_off();
    }

    /// What is to be done, in order. Taken after every input.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.out.drain(..)
    }

    /// When [`Input::Tick`] is wanted at the latest.
    pub fn next_wakeup(&self) -> Option<Moment> {
        self.timers.next()
    }

    /// Whether nothing is under way that others wait for: no lock is being given back.
    pub fn is_quiet(&self) -> bool {
        !self.requests.have_farewells()
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Link => self.look_after_link(),
            Timer::Sweep => self.sweep(),
            Timer::Renew => self.renew_due(),
            Timer::Lease(no) => self.lease_is_due(no),
            Timer::Watch(id) => self.watch_is_due(id),
            Timer::Op(op) => self.op_is_due(op),
        }
    }

    fn op_is_due(&mut self, op: OpId) {
        if self.attempts.contains(&op) {
            self.attempt_is_due(op);
        } else {
            self.asked_is_due(op);
        }
    }

    fn take(&mut self, input: Input) {
        if self.closing && self.refuse_when_closing(&input) {
            return;
        }
        match input {
            Input::Tick => {}
            Input::LinkUp(link) => self.greet(link),
            Input::LinkDown(link, why) => self.link_is_down(link, &why),
            Input::Frame(link, frame) => self.hear(link, frame),
            Input::Ready(op) => self.ask_ready(op),
            Input::Acquire(op, spec) => self.acquire(op, spec),
            Input::Abandon(op) => self.abandon(op),
            Input::Release(hold, op) => self.release(hold, op),
            Input::GrantLease(op, spec) => self.grant_user_lease(op, spec),
            Input::AdoptLease(op, lease) => self.adopt_lease(op, lease),
            Input::RenewLease(op, no) => self.renew_user_lease(op, no),
            Input::KeepAlive(no, keep) => self.keep_alive(no, keep),
            Input::RevokeLease(op, no) => self.revoke_user_lease(op, no),
            Input::ForgetLease(no) => self.forget_user_lease(no),
            Input::Call(op, call) => self.call(op, *call),
            Input::Watch(id, spec) => self.watch(id, spec),
            Input::Unwatch(id) => self.unwatch(id),
            Input::WatchFull(id) => self.watch_is_full(id),
            Input::WatchRoom(id) => self.watch_has_room(id),
            Input::Close => self.close(),
        }
    }

    /// Requests that come after the end. What gives something back is still taken.
    fn refuse_when_closing(&mut self, input: &Input) -> bool {
        let op = match input {
            Input::Ready(op)
            | Input::Acquire(op, _)
            | Input::GrantLease(op, _)
            | Input::AdoptLease(op, _)
            | Input::RenewLease(op, _)
            | Input::Call(op, _) => *op,
            _ => return false,
        };
        self.out.push(Output::Failed(op, Error::Closed));
        true
    }

    fn close(&mut self) {
        self.closing = true;
        for op in self.attempts.keys() {
            self.fail_attempt(op, Error::Closed);
        }
        for op in self.asked.keys() {
            self.stop_waiting(op);
            self.out.push(Output::Failed(op, Error::Closed));
        }
        self.end_watches(&Error::Closed);
        self.end_all_idle();
    }

    fn push(&mut self, output: Output) {
        self.out.push(output);
    }
}
