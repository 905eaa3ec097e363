//! Tells the checkers a story, entry by entry, with real bytes.

use std::collections::BTreeMap;

use fencepost_core::codec::encode_entry;
use fencepost_core::command::{
    Acquire, Action, Caller, Cancel, CancelTarget, Entry, LeaseGrant, LeaseRef, LeaseRenew, Mode,
    Once, Release, Renewal, Wait,
};
use fencepost_core::outcome::{Granted, Outcome};
use fencepost_core::{
    ClientId, Command, Epoch, LeaseId, LockName, LogTime, Millis, Mutant, Reply, Seq, State, Token,
};
use fencepost_node::io::Class;
use fencepost_sim::check::{Checks, Rules};
use fencepost_sim::client::{CallNumber, CallResult, ClientNumber, Request};
use fencepost_sim::seen::{Seen, Time, Violation};

/// What came of a telling.
pub(crate) type Told<T = ()> = Result<T, Violation>;

/// The checkers, and a state beside them that says what each entry would do.
pub(crate) struct Rig {
    pub(crate) checks: Checks,
    pub(crate) state: State,
    pub(crate) index: u64,
    /// True time in milliseconds. Log time is the same unless a test says otherwise.
    pub(crate) ms: u64,
    epochs: BTreeMap<i64, Epoch>,
    next_call: u64,
}

impl Rig {
    pub(crate) fn new(mutant: Option<Mutant>) -> Rig {
        let rules = Rules { clocks_in_bounds: true, core_mutant: mutant };
        let mut state = State::new();
        if let Some(mutant) = mutant {
            state.plant(mutant);
        }
        let checks = Checks::new(rules);
        Rig { checks, state, index: 1, ms: 0, epochs: BTreeMap::new(), next_call: 0 }
    }

    pub(crate) fn at(&self) -> Time {
        Time(self.ms * 1_000)
    }

    pub(crate) fn see(&mut self, seen: &Seen<'_>) -> Told {
        self.checks.see(self.at(), seen)
    }

    /// The first member applies an entry with these commands, after so many milliseconds.
    pub(crate) fn entry(&mut self, after: u64, commands: Vec<Command>) -> Told<Vec<Reply>> {
        self.ms += after;
        self.stamped(self.ms, commands)
    }

    /// The same, with a stamp of the test's choice.
    pub(crate) fn stamped(&mut self, stamp: u64, commands: Vec<Command>) -> Told<Vec<Reply>> {
        let entry = Entry { at: LogTime(stamp), commands };
        let mut data = Vec::new();
        encode_entry(&entry, &mut data);
        self.index += 1;
        let replies = self.state.apply(entry).replies;
        self.tell_applied(1, self.index, 1, &data)?;
        Ok(replies)
    }

    pub(crate) fn tell_applied(&mut self, member: u64, index: u64, term: u64, data: &[u8]) -> Told {
        self.see(&Seen::Applied { member, index, term, kind: 0, data })
    }

    /// One command in an entry of its own.
    pub(crate) fn run(&mut self, after: u64, command: impl Into<Command>) -> Told<Outcome> {
        let mut replies = self.entry(after, vec![command.into()])?;
        Ok(replies.pop().expect("one command has one answer").outcome)
    }

    /// A client calls, the command is applied at once, and the client is answered.
    pub(crate) fn call(&mut self, client: u32, command: Command) -> Told<Outcome> {
        let call = self.begin(client, &command)?;
        let reply = self.entry(1, vec![command])?.remove(0);
        self.answer(client, call, CallResult::Done(reply.clone()))?;
        Ok(reply.outcome)
    }

    /// A client calls, and its call reaches a member once.
    pub(crate) fn begin(&mut self, client: u32, command: &Command) -> Told<CallNumber> {
        let call = self.ask(client, &Request::Command(Class::Ordinary, command.clone()))?;
        self.see(&Seen::Reached { client: ClientNumber(client), call })?;
        Ok(call)
    }

    pub(crate) fn ask(&mut self, client: u32, request: &Request) -> Told<CallNumber> {
        self.ms += 1;
        self.next_call += 1;
        let call = CallNumber(self.next_call);
        self.see(&Seen::Called { client: ClientNumber(client), call, request })?;
        Ok(call)
    }

    /// A client is answered.
    pub(crate) fn answer(&mut self, client: u32, call: CallNumber, result: CallResult) -> Told {
        self.ms += 1;
        self.see(&Seen::Returned { client: ClientNumber(client), call, result: &result })
    }

    /// A lease for client `c<id>`.
    pub(crate) fn lease(&mut self, id: i64, ttl: u64) -> Told {
        let grant = LeaseGrant {
            id: LeaseId(id),
            ttl: Millis(ttl),
            client: ClientId::from(&*format!("c{id}")),
            ..LeaseGrant::default()
        };
        let outcome = self.run(0, Action::LeaseGrant(grant))?;
        let Outcome::LeaseGranted(Granted { epoch, .. }) = outcome else {
            panic!("no lease: {outcome:?}");
        };
        self.epochs.insert(id, epoch);
        Ok(())
    }

    pub(crate) fn lease_ref(&self, id: i64) -> LeaseRef {
        LeaseRef { id: LeaseId(id), epoch: self.epochs.get(&id).copied().unwrap_or_default() }
    }

    pub(crate) fn acquire(&self, name: &str, lease: i64, mode: Mode, wait: Wait) -> Action {
        let lease = self.lease_ref(lease);
        let name = LockName::from(name);
        Action::Acquire(Acquire { name, lease, mode, wait, ..Acquire::default() })
    }

    /// An exclusive acquire that waits as long as its lease lives.
    pub(crate) fn want(&self, name: &str, lease: i64) -> Action {
        self.acquire(name, lease, Mode::Exclusive, Wait::WhileLeased)
    }

    pub(crate) fn release(&self, name: &str, lease: i64, token: u64) -> Action {
        let lease = self.lease_ref(lease);
        Action::Release(Release { name: LockName::from(name), lease, token: Token(token) })
    }

    pub(crate) fn cancel(&self, lease: i64, seq: u64) -> Action {
        Action::Cancel(Cancel { lease: self.lease_ref(lease), target: CancelTarget::Seq(Seq(seq)) })
    }

    pub(crate) fn renew(&self, lease: LeaseRef, number: u64) -> Action {
        Action::LeaseRenew(LeaseRenew { renewals: vec![Renewal { lease, number }] })
    }

    /// The same command, numbered by its lease.
    pub(crate) fn numbered(lease: i64, seq: u64, action: Action) -> Command {
        let by = Caller::Lease(LeaseId(lease));
        let once = Once { by, seq: Seq(seq), ack_upto: Seq(1) };
        Command { once: Some(once), ..Command::from(action) }
    }
}

/// Demands that a story breaks this invariant.
#[track_caller]
pub(crate) fn breaks<T: std::fmt::Debug>(invariant: &str, told: Told<T>) {
    let violation = told.expect_err("nothing was found");
    assert_eq!(violation.invariant, invariant, "{}", violation.what);
}

/// The token of a grant.
#[track_caller]
pub(crate) fn token(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Acquired(grant) | Outcome::Renewed(grant) => grant.token.0,
        Outcome::AcquiredMany(grant) => grant.token.0,
        other => panic!("no grant: {other:?}"),
    }
}
