//! Instructions of the commands that a busy cluster runs all day, counted by callgrind.
//!
//! `cargo xtask bench --instructions` runs this and compares with `instructions.snap`. Unlike a time,
//! a count of instructions is the same on a busy machine, so that a change of a few percent can be
//! seen before it lands.
//!
//! Guarantees: every case runs on a state of its own, prepared before [`measured`] is entered, and has
//! done what its name says; otherwise the run ends with a panic. One line on standard output tells of
//! each case: its name, how many locks are held beside it, and how often it was repeated. Callgrind is
//! told to count within [`measured`] only, and to write a file whenever it is left; so the files are in
//! the order of the lines.

#![expect(clippy::print_stdout, reason = "the list of cases goes to standard output")]

mod support;

use std::hint::black_box;

use fencepost_core::codec::{decode_entry, encode_entry};
use fencepost_core::command::{LeaseRef, LeaseRenew, Put, Renewal};
use fencepost_core::event::EventKind;
use fencepost_core::outcome::{Outcome, RenewResult, Renewed};
use fencepost_core::{Action, Command, Effects, Entry, Key, LogTime, Millis, Reply, State, Value};

use support::{LEASES, acquire, apply, grant, granted, hold, lease, name, release};

/// Locks that are held beside what is measured.
const SIZES: [u64; 2] = [1_000, 100_000];
/// Repetitions of one command: enough that a split of a tree's node does not show.
const REPEATS: u64 = 200;
/// Repetitions of what is much work by itself.
const REPEATS_FEW: u64 = 20;
/// Commands in a full entry.
const BATCH: u64 = 64;
/// Leases that are renewed by one command.
const RENEWALS: u64 = 100;
/// No lease of [`hold`] has this number, or one of the [`REPEATS`] after it.
const OTHERS: u64 = 1_000;

/// What callgrind counts, and nothing else.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn main() {
    for size in SIZES {
        let mut state = support::new_state();
        hold(&mut state, size);
        for number in 0..REPEATS {
            grant(&mut state, OTHERS + number, Millis::from_secs(3_600));
        }
        let case = Case { size, state };
        case.acquire_free();
        case.release();
        case.acquire_queued();
        case.release_to_a_waiter();
        case.renew(1);
        case.renew(RENEWALS);
        case.put();
        case.expire();
        case.decode_and_apply();
    }
}

/// A prepared state. Every case works on a copy.
struct Case {
    size: u64,
    state: State,
}

impl Case {
    /// Applies each entry by itself, and hands back what came of each.
    fn run(&self, what: &str, mut state: State, entries: Vec<Entry>) -> (State, Vec<Effects>) {
        let repeats = entries.len();
        let mut effects = Vec::with_capacity(repeats);
        let mut entries = entries.into_iter();
        measured(&mut || effects.extend(entries.by_ref().map(|entry| state.apply(entry))));
        println!("{what}\t{}\t{repeats}", self.size);
        (state, effects)
    }

    /// The same for one command to an entry, all of which must come to the same end.
    fn commands(
        &self,
        what: &str,
        state: State,
        actions: impl Iterator<Item = Action>,
        is_right: impl Fn(&Outcome) -> bool,
    ) -> Vec<Effects> {
        // Log time moves on, as it does between entries: a renewal that changes no deadline would be
        // too cheap.
        let begin = state.now().0 + 1;
        let entry = |(at, action)| Entry { at: LogTime(at), commands: vec![Command::from(action)] };
        let (_, effects) = self.run(what, state, (begin..).zip(actions).map(entry).collect());
        for reply in effects.iter().flat_map(|one| &one.replies) {
            assert!(is_right(&reply.outcome), "{what}: {:?}", reply.outcome);
        }
        effects
    }

    /// The number of a lock that is free.
    fn free(&self, number: u64) -> u64 {
        self.size + number
    }

    /// A copy in which further locks are held, and the releases of these.
    fn held(&self) -> (State, Vec<Action>) {
        let mut state = self.state.clone();
        let mut take = |number| {
            let (name, id) = (name(self.free(number)), 1 + number % LEASES);
            let token = granted(&apply(&mut state, acquire(name.clone(), id)));
            release(name, id, token)
        };
        let releases = (0..REPEATS).map(&mut take).collect();
        (state, releases)
    }

    fn acquire_free(&self) {
        let take = |number| acquire(name(self.free(number)), 1 + number % LEASES);
        let is_right = |outcome: &Outcome| matches!(outcome, Outcome::Acquired(_));
        self.commands("acquire-free", self.state.clone(), (0..REPEATS).map(take), is_right);
    }

    fn release(&self) {
        let (state, releases) = self.held();
        let is_right = |outcome: &Outcome| matches!(outcome, Outcome::Released);
        self.commands("release", state, releases.into_iter(), is_right);
    }

    fn acquire_queued(&self) {
        let (state, _) = self.held();
        let wait = |number| acquire(name(self.free(number)), OTHERS + number);
        let is_right = |outcome: &Outcome| matches!(outcome, Outcome::Queued(_));
        self.commands("acquire-queued", state, (0..REPEATS).map(wait), is_right);
    }

    fn release_to_a_waiter(&self) {
        let (mut state, releases) = self.held();
        for number in 0..REPEATS {
            apply(&mut state, acquire(name(self.free(number)), OTHERS + number));
        }
        let is_right = |outcome: &Outcome| matches!(outcome, Outcome::Released);
        let effects = self.commands("release-to-a-waiter", state, releases.into_iter(), is_right);
        let events = effects.iter().flat_map(|one| &one.events);
        let grants = events.filter(|event| matches!(event.kind, EventKind::Granted(_)));
        assert_eq!(grants.count() as u64, REPEATS, "each waiter has the lock now");
    }

    fn renew(&self, leases: u64) {
        let renewals = move |number: u64| {
            let one = move |at: u64| {
                let lease = LeaseRef::from(lease(OTHERS + (number * leases + at) % REPEATS));
                Renewal { lease, number }
            };
            Action::LeaseRenew(LeaseRenew { renewals: (0..leases).map(one).collect() })
        };
        let is_alive = |one: &Renewed| matches!(one.result, RenewResult::Alive { .. });
        let is_right = |outcome: &Outcome| match outcome {
            Outcome::LeasesRenewed(all) => all.iter().all(is_alive),
            _ => false,
        };
        let what = format!("renew-{leases}");
        self.commands(&what, self.state.clone(), (0..REPEATS).map(renewals), is_right);
    }

    fn put(&self) {
        let put = |number: u64| {
            let key = Key::from(format!("config/{number:010}").as_str());
            let value = Value::from(&[7; 100][..]);
            Action::Put(Put { key, value, ..Put::default() })
        };
        let is_right = |outcome: &Outcome| matches!(outcome, Outcome::Put(_));
        self.commands("put", self.state.clone(), (0..REPEATS).map(put), is_right);
    }

    /// Leases that end one after the other, each with a lock.
    fn expire(&self) {
        let mut state = self.state.clone();
        let ttl = |number: u64| Millis(10_000 + number);
        for number in 0..REPEATS {
            let id = 2 * OTHERS + number;
            grant(&mut state, id, ttl(number));
            granted(&apply(&mut state, acquire(name(self.free(number)), id)));
        }
        let begin = state.now();
        let due = |number| Entry { at: LogTime(begin.0 + ttl(number).0), commands: Vec::new() };
        let (state, _) = self.run("expire", state, (0..REPEATS).map(due).collect());
        for number in 0..REPEATS {
            let id = lease(2 * OTHERS + number);
            assert!(state.lease(id).is_none(), "{id:?} must have ended");
        }
    }

    fn decode_and_apply(&self) {
        let mut state = self.state.clone();
        let at = state.now();
        let entry = |batch: u64| {
            let take = |at: u64| acquire(name(self.free(batch * BATCH + at)), 1 + at % LEASES);
            let commands = (0..BATCH).map(take).map(Command::from).collect();
            let mut bytes = Vec::new();
            encode_entry(&Entry { at, commands }, &mut bytes);
            bytes
        };
        let entries: Vec<Vec<u8>> = (0..REPEATS_FEW).map(entry).collect();
        let mut effects = Vec::with_capacity(entries.len());
        measured(&mut || {
            for bytes in &entries {
                let entry = decode_entry(black_box(bytes)).expect("it was just encoded");
                effects.push(state.apply(entry));
            }
        });
        println!("decode-and-apply-64\t{}\t{}", self.size, entries.len());
        let replies: Vec<&Reply> = effects.iter().flat_map(|one| &one.replies).collect();
        assert_eq!(replies.len() as u64, BATCH * REPEATS_FEW);
        for reply in replies {
            granted(&reply.outcome);
        }
    }
}
