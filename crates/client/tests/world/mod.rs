//! Many sessions, one service and a bad network, in one thread and in virtual time.
//!
//! Everything follows from a seed. True time is known only here: clients and the service each see
//! a clock of their own, which may run at another rate.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod check;
pub(crate) mod client;
pub(crate) mod faults;
pub(crate) mod network;

use std::collections::BTreeMap;

use fastrand::Rng;
use fencepost_proto::v1 as pb;

use crate::support::store::{Mistake, Store};
use check::Check;
use client::Client;

/// Microseconds of true time.
pub(crate) type Micros = u64;

pub(crate) const MILLI: Micros = 1_000;
pub(crate) const SECOND: Micros = 1_000_000;

/// What kind of world it is.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) clients: usize,
    pub(crate) workers: usize,
    pub(crate) locks: usize,
    pub(crate) length: Micros,
    /// Whether clocks may differ by more than is promised to be tolerated.
    pub(crate) clocks_out_of_bounds: bool,
    pub(crate) faults: bool,
    pub(crate) mistake: Mistake,
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<fencepost_client::core::Mutant>,
}

impl Options {
    pub(crate) fn seed(seed: u64) -> Options {
        Options {
            seed,
            clients: 4,
            workers: 3,
            locks: 2,
            length: 40 * SECOND,
            clocks_out_of_bounds: false,
            faults: true,
            mistake: Mistake::None,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

pub(crate) enum Event {
    /// A client's session wants to be woken.
    Wake(usize),
    /// A worker of a client does its next thing.
    Work(usize, usize),
    /// A stream that a client asked for is open, or could not be opened.
    Opened(usize, u64, bool),
    ToServer(u64, pb::SessionRequest),
    ToClient(u64, Box<pb::SessionResponse>),
    /// A stream has ended, and now the client knows.
    Ended(u64),
    ServerTick,
    Fault,
    Heal(faults::Fault),
}

pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) rng: Rng,
    pub(crate) now: Micros,
    events: BTreeMap<(Micros, u64), Event>,
    scheduled: u64,
    pub(crate) server: Store,
    /// True time at which the service's log time was last moved on.
    server_seen: Micros,
    /// How fast log time runs, in millionths.
    pub(crate) server_rate: u64,
    /// The service does nothing until then, and its time stands still.
    pub(crate) frozen_until: Micros,
    pub(crate) clients: Vec<Client>,
    pub(crate) network: network::Network,
    pub(crate) check: Check,
    pub(crate) faults_on: bool,
    pub(crate) log: Vec<String>,
}

impl World {
    pub(crate) fn new(options: Options) -> World {
        let mut rng = Rng::with_seed(options.seed);
        let mut server = Store::new();
        server.mistake = options.mistake;
        let server_rate = rng.u64(995_000..=1_000_000);
        let network = network::Network::new(&mut rng, options.faults);
        server.leader = Some(faults::draw_leader(&mut rng));
        let clients: Vec<Client> =
            (0..options.clients).map(|at| Client::new(at, &options, &mut rng)).collect();
        let mut world = World {
            check: Check::new(&options),
            faults_on: options.faults,
            options,
            rng,
            now: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            server,
            server_seen: 0,
            server_rate,
            frozen_until: 0,
            clients,
            network,
            log: Vec::new(),
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        self.at(0, Event::ServerTick);
        for client in 0..self.clients.len() {
            self.at(0, Event::Wake(client));
            for worker in 0..self.options.workers {
                let start = self.rng.u64(0..SECOND);
                self.at(start, Event::Work(client, worker));
            }
        }
        if self.options.faults {
            let first = self.rng.u64(SECOND..5 * SECOND);
            self.at(first, Event::Fault);
        }
    }

    pub(crate) fn at(&mut self, at: Micros, event: Event) {
        self.scheduled += 1;
        self.events.insert((at.max(self.now), self.scheduled), event);
    }

    pub(crate) fn after(&mut self, span: Micros, event: Event) {
        self.at(self.now + span, event);
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        self.log.push(format!("{:>10.3} {}", self.now as f64 / 1e6, line()));
    }

    /// Runs with faults, then heals everything and demands that the world comes to rest.
    pub(crate) fn run(&mut self) {
        let end = self.options.length;
        self.run_until(end);
        self.heal_all();
        self.check.only_progress = true;
        // Long enough for every lease to run out and every wait to end.
        self.run_until(end + 30 * SECOND);
        for client in &mut self.clients {
            client.is_retired = true;
        }
        self.run_until(end + 90 * SECOND);
        self.check_rest();
    }

    pub(crate) fn run_until(&mut self, end: Micros) {
        while let Some((&(at, _), _)) = self.events.first_key_value() {
            if at > end {
                break;
            }
            let ((at, _), event) = self.events.pop_first().expect("it was just seen");
            self.now = at;
            self.step(event);
        }
        self.now = end;
    }

    fn step(&mut self, event: Event) {
        self.move_log_time();
        match event {
            Event::Wake(client) => self.wake(client),
            Event::Work(client, worker) => self.work(client, worker),
            Event::Opened(client, stream, good) => self.opened(client, stream, good),
            Event::ToServer(stream, frame) => self.serve(stream, frame),
            Event::ToClient(stream, frame) => self.deliver(stream, frame),
            Event::Ended(stream) => self.stream_ended(stream),
            Event::ServerTick => self.after(10 * MILLI, Event::ServerTick),
            Event::Fault => self.fault(),
            Event::Heal(fault) => self.heal(fault),
        }
        self.send_frames();
        self.check_claims();
    }

    fn move_log_time(&mut self) {
        let from = self.server_seen.max(self.frozen_until.min(self.now));
        let passed = (self.now - from) * self.server_rate / 1_000_000;
        self.server_seen = self.now;
        if self.now >= self.frozen_until {
            let to = self.server.now + passed;
            self.server.advance(to);
        }
    }
}
