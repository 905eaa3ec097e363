//! The world of one run: virtual time, and everything that happens in it.
//!
//! Owns: the agenda, the members with their disks and clocks, the network, the clients' seats, the
//! operator, and the faults. Guarantees: one thread, one order, and no source of chance but the
//! seed, so that a run can be repeated to the last byte. Refuses: to judge. It tells the checkers
//! what happens, and stops at the first thing that they object to.

mod agenda;
mod backup;
mod calls;
mod clients;
mod clock;
mod cluster;
mod disk_work;
mod dispatch;
mod faults;
mod happening;
mod heal;
mod member;
mod network;
mod news;
mod operator;
mod outputs;
mod shown;
mod start;
mod stop;
mod store;
mod watch;

use std::collections::BTreeMap;

use fencepost_core::LeaseId;
use fencepost_node::io::{MemberId, RequestId};
use fencepost_node::membership::Membership;

use crate::bug::{Bug, WorldBug};
use crate::check::{Checks, Rules};
use crate::client::ClientNumber;
use crate::dice::Dice;
use crate::fault::FaultCounts;
use crate::plan::{END_AT, HEAL_AT, Plan, REST_AT, purpose};
use crate::seen::Violation;
use crate::trace::Trace;

use agenda::Agenda;
use backup::Backup;
use clients::Seat;
use faults::{Copied, Stale};
use happening::Happening;
use member::Members;
use network::Network;
use operator::Operator;
use store::FencedStore;
use watch::Watch;

/// The streams of chance of the world's parts.
struct Streams {
    disk: Dice,
    faults: Dice,
    clocks: Dice,
    clients: Dice,
}

/// The world of one run.
pub struct World {
    plan: Plan,
    bug: Option<Bug>,
    now: u64,
    agenda: Agenda,
    members: Members,
    last_member: MemberId,
    last_request: u64,
    /// Who the members are, as the one knows who has applied most, and how far that is.
    membership: (u64, Membership),
    network: Network,
    seats: Vec<Seat>,
    /// Who owns which lease.
    owners: BTreeMap<LeaseId, ClientNumber>,
    store: FencedStore,
    operator: Operator,
    backup: Option<Backup>,
    saving: Option<RequestId>,
    /// The incarnation of the cluster: how often it was restored.
    incarnation: u64,
    /// The clients rest.
    rests: bool,
    /// The next member that votes loses power.
    a_voter_is_doomed: bool,
    /// A disk that is being set back to an older copy.
    stale: Option<Stale>,
    /// A data directory that was copied.
    copied: Option<Copied>,
    /// When a member was first seen to have feature level 2.
    raised_at: Option<u64>,
    /// When a leader of each term first proposed a level.
    raises: BTreeMap<u64, u64>,
    dice: Streams,
    faults: FaultCounts,
    watch: Watch,
    trace: Trace,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What must not have happened, if something did.
    pub violation: Option<Violation>,
    /// The faults that were done.
    pub faults: FaultCounts,
    /// Microseconds of virtual time.
    pub virtual_micros: u64,
    /// The mark of everything that happened.
    pub mark: [u8; 32],
}

impl World {
    /// The world of a seed, with a bug in it if one is to be caught.
    #[must_use]
    pub fn new(seed: u64, bug: Option<Bug>, trace: Trace) -> World {
        let plan = Plan::draw(seed);
        let dice = |purpose| Dice::new(seed, purpose);
        let core_mutant = match bug {
            Some(Bug::Core(mutant)) => Some(mutant),
            _ => None,
        };
        let rules = Rules { clocks_in_bounds: plan.clocks.in_bounds, core_mutant };
        World {
            bug,
            now: 0,
            agenda: Agenda::default(),
            members: Members::new(),
            last_member: 0,
            last_request: 0,
            membership: (0, Membership::default()),
            network: Network::new(plan.network, dice(purpose::NETWORK)),
            seats: Vec::new(),
            owners: BTreeMap::new(),
            store: FencedStore::default(),
            operator: Operator::new(dice(purpose::OPERATOR)),
            backup: None,
            saving: None,
            incarnation: 0,
            rests: false,
            a_voter_is_doomed: false,
            stale: None,
            copied: None,
            raised_at: None,
            raises: BTreeMap::new(),
            dice: Streams {
                disk: dice(purpose::DISK),
                faults: dice(purpose::FAULTS),
                clocks: dice(purpose::CLOCKS),
                clients: dice(purpose::CLIENTS),
            },
            faults: FaultCounts::default(),
            watch: Watch::new(Checks::new(rules)),
            trace,
            plan,
        }
    }

    /// Runs to the end, or to the first violation.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        self.begin_run();
        while self.watch.violation.is_none()
            && let Some((at, what)) = self.agenda.next_before(END_AT)
        {
            self.now = at;
            self.happen(what);
        }
        if self.watch.violation.is_none() {
            self.now = END_AT;
            self.end_run();
        }
        Outcome {
            violation: self.watch.violation,
            faults: self.faults,
            virtual_micros: self.now,
            mark: self.trace.mark(),
        }
    }

    fn begin_run(&mut self) {
        self.trace.note(0, 0, &[self.plan.seed], format_args!("{:?}", self.plan));
        self.found();
        self.seat_clients();
        self.plan_faults();
        self.agenda.plan(HEAL_AT, Happening::Heal);
        self.agenda.plan(REST_AT, Happening::Rest);
    }

    /// Plans something for so many microseconds from now.
    fn plan_in(&mut self, after: u64, what: Happening) {
        self.agenda.plan(self.now + after, what);
    }

    fn has(&self, bug: WorldBug) -> bool {
        self.bug == Some(Bug::World(bug))
    }
}
