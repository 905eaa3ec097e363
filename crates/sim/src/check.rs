//! What must hold whatever happens. One file for each invariant.
//!
//! Owns: the verdict. The world tells [`Checks::see`] everything that happens, and learns of the
//! first thing that must never happen. Refuses: to change anything in the world, and to be told
//! by a member what is right: the checkers keep a reference state and a book of their own. The
//! reference applies each entry once, when the first member applies it; what an entry means is
//! judged there, once, and members are only compared with it.

mod book;
mod calls;
mod entry;
mod oracle;

mod i01_log_agreement;
mod i02_state_hash;
mod i03_one_leader;
mod i04_leader_completeness;
mod i05_mutual_exclusion;
mod i06_tokens_grow;
mod i07_first_come;
mod i08_no_ghost;
mod i09_ends_by_log;
mod i10_leases_last;
mod i11_bounds;
mod i12_grants_last;
mod i13_renewals;
mod i14_beliefs;
mod i15_fenced_store;
mod i16_once;
mod i17_release;
mod i18_waits_end;
mod i27_linear;
mod i28_heals;
mod i29_dead_pass_on;
mod i30_converge;

use fencepost_core::codec::decode_command;
use fencepost_core::{LockName, Millis};

use crate::client::CallResult;
use crate::seen::{Seen, Time, Violation};

use book::Book;
use calls::{Asked, Call, Calls};
use i02_state_hash::StateHash;
use i03_one_leader::OneLeader;
use i04_leader_completeness::Completeness;
use i06_tokens_grow::TokensGrow;
use i14_beliefs::Beliefs;
use i15_fenced_store::{FencedStore, Write};
use i16_once::{Arrivals, Once};
use i27_linear::Histories;
use i28_heals::Heals;
use i29_dead_pass_on::Stamps;
use i30_converge::Converge;
use oracle::{Oracle, Stored};

/// What a look at one thing found.
type Check = Result<(), Violation>;

/// What the checkers must know about a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// Whether all clocks run at rates within the promised bound.
    pub clocks_in_bounds: bool,
    /// The bug that is planted in the members' state machines, if one is.
    pub core_mutant: Option<fencepost_core::Mutant>,
}

/// All checkers.
pub struct Checks {
    rules: Rules,
    oracle: Oracle,
    book: Book,
    calls: Calls,
    hashes: StateHash,
    leaders: OneLeader,
    completeness: Completeness,
    tokens: TokensGrow,
    beliefs: Beliefs,
    store: FencedStore,
    once: Once,
    arrivals: Arrivals,
    histories: Histories,
    heals: Heals,
    stamps: Stamps,
    converge: Converge,
}

impl Checks {
    /// Checkers that have seen nothing yet.
    #[must_use]
    pub fn new(rules: Rules) -> Checks {
        Checks {
            rules,
            oracle: Oracle::new(rules.core_mutant),
            book: Book::default(),
            calls: Calls::default(),
            hashes: StateHash::default(),
            leaders: OneLeader::default(),
            completeness: Completeness::default(),
            tokens: TokensGrow::default(),
            beliefs: Beliefs::default(),
            store: FencedStore::default(),
            once: Once::default(),
            arrivals: Arrivals::default(),
            histories: Histories::default(),
            heals: Heals::default(),
            stamps: Stamps::default(),
            converge: Converge::default(),
        }
    }

    /// Looks at something that happened.
    ///
    /// # Errors
    ///
    /// The first invariant that it breaks.
    pub fn see(&mut self, at: Time, seen: &Seen<'_>) -> Result<(), Violation> {
        match *seen {
            Seen::Applied { member, index, term, kind, data } => {
                self.applied(at, member, index, (term, kind, data))
            }
            Seen::Stands { member, index, state, membership } => {
                self.hashes.stands(&self.oracle, member, index, state, membership)
            }
            Seen::Installed { member, .. } | Seen::Started { member, .. } => {
                self.hashes.replaced(member);
                Ok(())
            }
            Seen::Leads { member, term, node } => {
                self.leaders.leads(member, term)?;
                Completeness::leads(&self.oracle, member, term, node)
            }
            Seen::Called { client, call, request } => {
                let asked = self.calls.called(at, client, call, request);
                self.arrivals.called(client, call, &asked);
                self.heals.now(at)?;
                self.stamps.now(&self.oracle, self.heals.served, at)
            }
            Seen::Reached { client, call } => {
                self.arrivals.reached(client, call);
                Ok(())
            }
            Seen::Returned { client, call, result } => {
                self.arrivals.returned(client, call, result)?;
                let Some(call) = self.calls.returned(client, call) else { return Ok(()) };
                self.returned(at, &call, result)
            }
            Seen::Believes { client, belief, until } => {
                self.beliefs.believes(self.rules, &self.book, at, client, belief, until)
            }
            Seen::Entered { client } => self.beliefs.entered(at, client),
            Seen::Wrote { client, lock, token, accepted } => {
                let lock = &LockName::from(lock);
                let write = Write { client, lock, token, accepted };
                self.store.wrote(self.rules, &self.book, &self.beliefs, at, &write)
            }
            Seen::Restored { index, state } => {
                self.histories.check()?;
                self.oracle.restore(index, state);
                self.book.restore(state);
                self.calls.restore();
                self.hashes.restore();
                self.leaders.restore();
                self.once.restore();
                self.beliefs.restore(state.revision());
                self.converge.restore();
                Ok(())
            }
            Seen::Healed => {
                self.heals.healed(at);
                Ok(())
            }
            Seen::Over { nodes } => {
                self.heals.now(at)?;
                self.stamps.now(&self.oracle, self.heals.served, at)?;
                self.in_time(at)?;
                self.converge.over(&self.oracle, &mut self.hashes, at, nodes)?;
                self.histories.check()
            }
        }
    }

    fn applied(&mut self, at: Time, member: u64, index: u64, seen: (u64, i32, &[u8])) -> Check {
        if index < self.oracle.first() && self.oracle.head() > 0 {
            let what = format!("member {member} applies entry {index} of a lost cluster");
            return Err(broken("I1", what));
        }
        if let Some(known) = self.oracle.entry(index) {
            return i01_log_agreement::same(member, index, known, seen);
        }
        let (term, kind, data) = seen;
        let stored = Stored { term, kind, data: data.into(), led: self.leaders.highest() };
        let fresh = self.oracle.take(index, stored)?;
        self.converge.reached(at, index);
        self.stamps.applied(at);
        if let Some(fresh) = fresh {
            self.entry(at, index, &fresh)?;
        }
        self.hashes.reached(&self.oracle);
        self.heals.now(at)
    }

    fn returned(&mut self, at: Time, call: &Call, result: &CallResult) -> Check {
        self.heals.returned(at, call.at, result);
        match (&call.asked, result) {
            (Asked::Command(bytes, numbered), CallResult::Done(reply)) => {
                self.completeness.acknowledged(bytes, reply)?;
                let command = decode_command(bytes).expect("it was encoded by its sender");
                // The answer to a numbered command may be that of its first sending.
                let from = if *numbered { self.calls.first_sent(bytes) } else { None };
                let from = from.unwrap_or(call.at);
                self.histories.answered(from, at, bytes, &command.action, &reply.outcome);
                Ok(())
            }
            (Asked::Read, CallResult::View(view)) => {
                self.histories.read(call.at, at, view);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// While the cluster is well, what must end does so in time.
    fn in_time(&self, at: Time) -> Check {
        let Some(well) = self.heals.served else { return Ok(()) };
        i18_waits_end::in_time(&self.book, well, at)?;
        i29_dead_pass_on::in_time(&self.book, self.oracle.state.now(), well, at)
    }
}

/// Something that must never happen.
fn broken(invariant: &'static str, what: String) -> Violation {
    Violation { invariant, what }
}

/// The moment by which a length of log time that began at `since` is over, while the cluster is
/// well: clocks may be slow by a tenth, a change of leaders costs log time a second, and two
/// election timeouts pass before there is a new one.
fn with_slack(since: Time, length: Millis) -> Time {
    Time(since.0 + length.0 * 1_120 + 3_000_000)
}
