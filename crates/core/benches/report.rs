//! The core beside a bare ordered map, in one run: what a lock costs, and how that grows.
//!
//! `cargo bench -p fencepost-core --bench report` prints a table of medians and ends with exit
//! code 1 if a bar is missed. The systems take turns in each round, so noise hits both.

#![expect(clippy::print_stdout, reason = "the report goes to standard output")]

mod support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use fencepost_core::command::{LeaseRef, LeaseRenew, Renewal};
use fencepost_core::event::EventKind;
use fencepost_core::{Action, Command, Entry, Event, LockName, LogTime, Millis, State, Token};

use support::{
    LEASES, acquire, apply, grant, granted, hold, lease, name, release, state_without_history,
    tick, time,
};

const ROUNDS: usize = 7;
const SIZES: [u64; 3] = [1_000, 100_000, 1_000_000];

fn main() {
    let mut bars = Bars::default();
    cycles(&mut bars);
    handover(&mut bars);
    renewals();
    expiry(&mut bars);
    snapshots();
    std::process::exit(bars.verdict());
}

/// The bars that a run must clear.
#[derive(Default)]
struct Bars {
    missed: Vec<String>,
}

impl Bars {
    fn at_most(&mut self, what: &str, value: f64, bar: f64) {
        let verdict = if value <= bar { "ok" } else { "MISSED" };
        println!("  {what}: {value:.2} (at most {bar}) {verdict}");
        if value > bar {
            self.missed.push(format!("{what}: {value:.2}, at most {bar}"));
        }
    }

    fn verdict(&self) -> i32 {
        if self.missed.is_empty() {
            println!("\nall bars cleared");
            return 0;
        }
        println!("\nmissed:");
        for missed in &self.missed {
            println!("  {missed}");
        }
        1
    }
}

fn median(mut times: Vec<Duration>, each: u64) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e9 / each as f64
}

/// Uncontended acquire and release beside insert and remove of the same keys.
fn cycles(bars: &mut Bars) {
    println!("acquire + release beside a bare map's insert + remove, ns");
    println!("  {:>9}  {:>8}  {:>8}  {:>6}", "held", "locks", "map", "ratio");
    let mut medians = Vec::new();
    for size in SIZES {
        let (core, map) = cycle(size);
        println!("  {size:>9}  {core:>8.0}  {map:>8.0}  {:>6.2}", core / map);
        medians.push((core, map));
    }
    for (size, (core, map)) in SIZES.iter().zip(&medians) {
        bars.at_most(&format!("ratio at {size}"), core / map, 10.0);
    }
    let (first, last) = (medians[0], medians[SIZES.len() - 1]);
    let growth = (last.0 / first.0) / (last.1 / first.1);
    bars.at_most("growth from 1k to 1M, relative to the map's", growth, 1.5);
}

fn cycle(size: u64) -> (f64, f64) {
    const PAIRS: u64 = 50_000;
    let mut state = support::new_state();
    hold(&mut state, size);
    let mut map: BTreeMap<Vec<u8>, u64> =
        (0..size).map(|number| (name(number).to_vec(), number)).collect();
    let fresh: Vec<LockName> = (size..size + PAIRS).map(name).collect();
    let (mut core_times, mut map_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        core_times.push(time(|| {
            for (number, name) in (0..).zip(&fresh) {
                let id = 1 + number % LEASES;
                let outcome = apply(&mut state, acquire(name.clone(), id));
                let token = granted(&outcome);
                black_box(apply(&mut state, release(name.clone(), id, token)));
            }
        }));
        map_times.push(time(|| {
            for name in &fresh {
                black_box(map.insert(name.to_vec(), 1));
                black_box(map.remove(&**name));
            }
        }));
    }
    (median(core_times, PAIRS), median(map_times, PAIRS))
}

/// A bare map's remove and insert of the same keys, all over a map that holds them.
fn pair<K: Ord + Clone>(keys: impl Iterator<Item = K>) -> f64 {
    let keys: Vec<K> = keys.collect();
    let mut map: BTreeMap<K, u64> = keys.iter().cloned().zip(0..).collect();
    let stride = 1.max(keys.len() / 50_000);
    let chosen: Vec<&K> = keys.iter().step_by(stride).collect();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(time(|| {
            for key in &chosen {
                black_box(map.remove(*key));
                black_box(map.insert((*key).clone(), 1));
            }
        }));
    }
    median(times, chosen.len() as u64)
}

/// One lock passes along a long queue; whoever had it stands at the end again.
fn handover(bars: &mut Bars) {
    println!("\nhand-over in a queue (release, grant, join again), ns");
    println!("  {:>9}  {:>8}  {:>8}", "waiters", "locks", "map");
    let mut medians = Vec::new();
    for waiters in [100, 10_000, 100_000] {
        let ns = handover_among(waiters);
        let map = pair((1..=waiters).map(|id| format!("the/one/lock/that/everybody/wants/{id:x}")));
        println!("  {waiters:>9}  {ns:>8.0}  {map:>8.0}");
        medians.push(ns);
    }
    bars.at_most("growth from 100 to 100,000 waiters", medians[2] / medians[0], 2.0);
}

fn handover_among(waiters: u64) -> f64 {
    const HANDOVERS: u64 = 100_000;
    let mut state = support::new_state();
    let lock = LockName::from("the/one/lock/that/everybody/wants");
    for id in 1..=waiters + 1 {
        grant(&mut state, id, Millis::from_secs(3_600));
        apply(&mut state, acquire(lock.clone(), id));
    }
    let mut next = 1;
    let mut token = state.lock(&lock, 0).holders[0].token;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(time(|| {
            for _ in 0..HANDOVERS {
                let release = Command::from(release(lock.clone(), next, token));
                let effects = state.apply(Entry { at: state.now(), commands: vec![release] });
                token = effects.events.iter().find_map(token_granted).expect("somebody waits");
                black_box(apply(&mut state, acquire(lock.clone(), next)));
                next = 1 + next % (waiters + 1);
            }
        }));
    }
    median(times, HANDOVERS)
}

fn token_granted(event: &Arc<Event>) -> Option<Token> {
    match &event.kind {
        EventKind::Granted(holding) => Some(holding.token),
        _ => None,
    }
}

/// Ten thousand renewals in one command, among more and more leases.
fn renewals() {
    println!("\nrenewal in a batch of 10,000, ns each");
    println!("  {:>9}  {:>8}  {:>8}", "leases", "renewals", "map");
    for leases in [10_000, 100_000, 1_000_000] {
        let mut state = state_without_history();
        for id in 1..=leases {
            grant(&mut state, id, Millis::from_secs(3_600));
        }
        let stride = leases / 10_000;
        let renewals: Vec<Renewal> = (0..10_000)
            .map(|at| Renewal { lease: LeaseRef::from(lease(1 + at * stride)), number: at })
            .collect();
        let mut times = Vec::new();
        for round in 1..=ROUNDS as u64 {
            tick(&mut state, LogTime(round));
            let renew = LeaseRenew { renewals: renewals.clone() };
            times.push(time(|| drop(apply(&mut state, Action::LeaseRenew(renew)))));
        }
        let (ns, map) = (median(times, 10_000), pair(1..=leases));
        println!("  {leases:>9}  {ns:>8.0}  {map:>8.0}");
    }
}

/// Many leases due at once, over as many entries as it takes. Locks have scattered names, so
/// ending them is held against removing the same keys from a bare map, in the same order.
fn expiry(bars: &mut Bars) {
    println!("\nexpiry of leases that are all due at once, ns each");
    println!("  {:>9}  {:>12}  {:>14}  {:>12}", "leases", "bare leases", "one lock each", "map");
    let mut medians = Vec::new();
    for leases in [10_000, 100_000, 1_000_000] {
        let (bare, held, map) = (expire(leases, false), expire(leases, true), removal(leases));
        println!("  {leases:>9}  {bare:>12.0}  {held:>14.0}  {map:>12.0}");
        medians.push((bare, held, map));
    }
    let (first, last) = (medians[0], medians[2]);
    bars.at_most("growth per lease from 10k to 1M", last.0 / first.0, 2.0);
    let growth = (last.1 / first.1) / (last.2 / first.2);
    bars.at_most("the same with a lock each, relative to the map's", growth, 1.5);
}

fn removal(keys: u64) -> f64 {
    let names: Vec<LockName> = (1..=keys).map(name).collect();
    let mut times = Vec::new();
    for _ in 0..3 {
        let mut map: BTreeMap<Vec<u8>, u64> =
            names.iter().zip(0..).map(|(name, number)| (name.to_vec(), number)).collect();
        times.push(time(|| {
            for name in &names {
                black_box(map.remove(&**name));
            }
        }));
    }
    median(times, keys)
}

fn expire(leases: u64, with_lock: bool) -> f64 {
    let rounds = if leases > 100_000 { 3 } else { ROUNDS };
    let mut times = Vec::new();
    for _ in 0..rounds {
        let mut state = support::new_state();
        for id in 1..=leases {
            grant(&mut state, id, Millis::from_secs(30));
            if with_lock {
                apply(&mut state, acquire(name(id), id));
            }
        }
        let due = LogTime(30_000);
        times.push(time(|| {
            while state.next_deadline().is_some_and(|next| next <= due) {
                tick(&mut state, due);
            }
        }));
        assert!(!state.has_leases(), "all leases must have ended");
    }
    median(times, leases)
}

/// Writing and reading the whole state.
fn snapshots() {
    println!("\nsnapshot, ns for each lock");
    println!("  {:>9}  {:>8}  {:>8}  {:>10}  {:>8}", "locks", "encode", "decode", "bytes", "map");
    for locks in SIZES {
        let mut state = state_without_history();
        hold(&mut state, locks);
        let (mut encodes, mut decodes, mut len) = (Vec::new(), Vec::new(), 0);
        for _ in 0..3 {
            let mut bytes = Vec::new();
            encodes.push(time(|| state.encode(&mut bytes)));
            decodes.push(time(|| {
                black_box(State::decode(&bytes).expect("a state decodes from its own bytes"));
            }));
            len = bytes.len() as u64;
        }
        let (encode, decode) = (median(encodes, locks), median(decodes, locks));
        let (bytes, map) = (len / locks, pair((0..locks).map(|number| name(number).to_vec())));
        println!("  {locks:>9}  {encode:>8.0}  {decode:>8.0}  {bytes:>10}  {map:>8.0}");
    }
}
