//! What the session itself costs: clients of one process take and give back locks that nobody else
//! wants, and the service answers at once.
//!
//! Only the session is counted, with the making of its outputs; what goes in is made beforehand. So
//! the figures are those of the thread that all clients share, without its connection.

use std::alloc::System;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fencepost_client::core::{
    Config, HoldId, Input, LinkId, LockSpec, Moment, OpId, Output, Session,
};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Logical clients that share the session.
const CLIENTS: [u64; 2] = [64, 256];
/// How many names each client uses in turn.
const NAMES: u64 = 16;
const ROUNDS_WARM: u64 = 200;
const ROUNDS: u64 = 4_000;

/// What was counted.
#[derive(Default)]
struct Cost {
    time: Duration,
    allocations: usize,
}

/// A session with the service at its other end.
struct Bench {
    session: Session,
    now: u64,
    ops: u64,
    revision: i64,
    leases: i64,
    outputs: Vec<Output>,
    cost: Cost,
}

impl Bench {
    fn new() -> Bench {
        let endpoints = vec!["a".to_owned()];
        let config = Config { client_id: "bench".to_owned(), endpoints, ..Config::default() };
        let mut bench = Bench {
            session: Session::new(config),
            now: 1,
            ops: 0,
            revision: 1,
            leases: 0,
            outputs: Vec::new(),
            cost: Cost::default(),
        };
        bench.handle(vec![Input::Tick]);
        bench.handle(vec![Input::LinkUp(LinkId(1))]);
        bench.answer();
        bench
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
    fn handle(&mut self, inputs: Vec<Input>) {
        self.now += 100;
        let region = Region::new(ALLOCATOR);
        let begun = Instant::now();
        for input in inputs {
            self.session.handle(Moment::from_micros(self.now), input);
            self.outputs.extend(self.session.outputs());
        }
        self.cost.time += begun.elapsed();
        self.cost.allocations += region.change().allocations;
    }

    /// The service answers everything that was sent, until nothing more is. Returns what is held.
    fn answer(&mut self) -> Vec<HoldId> {
        let mut held = Vec::new();
        loop {
            let outputs = std::mem::take(&mut self.outputs);
            let mut frames = Vec::new();
            for output in outputs {
                match output {
                    Output::Send(link, frame) => {
                        frames.push(Input::Frame(link, self.serve(*frame)))
                    }
                    Output::Acquired(_, got) => held.push(got.hold),
                    Output::Failed(op, error) => panic!("{op:?}: {error}"),
                    other => drop(black_box(other)),
                }
            }
            if frames.is_empty() {
                return held;
            }
            self.handle(frames);
        }
    }

    fn serve(&mut self, frame: pb::SessionRequest) -> Box<pb::SessionResponse> {
        let response = match frame.request {
            Some(Request::Hello(_)) => {
                Response::Welcome(pb::SessionWelcome { version: 1, requests_max: 16_384 })
            }
            Some(Request::LeaseGrant(grant)) => {
                self.leases += 1;
                let (id, ttl_ms) = (self.leases, grant.ttl_ms);
                let granted = pb::LeaseGrantResponse { id, ttl_ms, epoch: 1, ..Default::default() };
                Response::LeaseGranted(granted)
            }
            Some(Request::Acquire(acquire)) => {
                self.revision += 1;
                let key = |lock: &pb::LockWanted| format!("{}/{:x}", lock.name, acquire.lease_id);
                Response::Acquired(pb::SessionAcquired {
                    state: pb::session_acquired::State::Acquired.into(),
                    keys: acquire.locks.iter().map(key).collect(),
                    fencing_token: self.revision,
                    remaining_ms: 30_000,
                    ..Default::default()
                })
            }
            Some(Request::Release(_)) => {
                self.revision += 1;
                Response::Released(pb::UnlockResponse { header: None, released: true })
            }
            Some(Request::Renew(many)) => {
                let renewed = many.renewals.into_iter().map(|one| pb::LeaseKeepAliveResponse {
                    id: one.id,
                    number: one.number,
                    ttl_ms: 30_000,
                    ..Default::default()
                });
                Response::Renewed(pb::RenewedMany { renewed: renewed.collect() })
            }
            other => panic!("{other:?} was not expected"),
        };
        Box::new(pb::SessionResponse {
            request_id: frame.request_id,
            header: Some(self.header()),
            response: Some(response),
            ..Default::default()
        })
    }

    fn header(&self) -> pb::Header {
        let (member_id, leader_id) = (1, 1);
        let leader_address = "127.0.0.1:7420".to_owned();
        let revision = self.revision;
        pb::Header {
            cluster_id: 1,
            member_id,
            leader_id,
            leader_address,
            revision,
            ..Default::default()
        }
    }

    fn next_op(&mut self) -> OpId {
        self.ops += 1;
        OpId(self.ops)
    }

    /// Every client takes a lock and gives it back.
    fn round(&mut self, clients: u64, round: u64) {
        let mut acquires = Vec::new();
        for client in 0..clients {
            let names = [format!("w1/{client}/{}", round % NAMES)].into();
            let spec = LockSpec { names, ttl: Duration::from_secs(30), ..LockSpec::default() };
            acquires.push(Input::Acquire(self.next_op(), Arc::new(spec)));
        }
        self.handle(acquires);
        let held = self.answer();
        assert_eq!(held.len() as u64, clients, "every client has its lock");
        let release = |hold| Input::Release(hold, Some(self.next_op()));
        let releases = held.into_iter().map(release).collect();
        self.handle(releases);
        self.answer();
    }
}

fn main() -> io::Result<()> {
    for clients in CLIENTS {
        let mut bench = Bench::new();
        for round in 0..ROUNDS_WARM {
            bench.round(clients, round);
        }
        bench.cost = Cost::default();
        for round in 0..ROUNDS {
            bench.round(clients, round);
        }
        let cycles = u32::try_from(clients * ROUNDS).expect("a short run");
        let allocations = bench.cost.allocations as f64 / f64::from(cycles);
        let nanos = (bench.cost.time / cycles).as_nanos();
        writeln!(
            io::stdout(),
            "{clients:>4} clients: {nanos:>6} ns and {allocations:>6.2} allocations per cycle"
        )?;
    }
    Ok(())
}
