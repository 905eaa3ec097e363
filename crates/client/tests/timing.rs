//! When the session does what, to the millisecond: one session, and a service that answers at once
//! or not at all.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fencepost_client::Error;
use fencepost_client::core::{
    Config, Held, HoldId, Input, LinkId, LockSpec, Loss, Moment, OpId, Output, Session, Wait,
};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;
use support::store::Store;

const TTL: Duration = Duration::from_secs(3);

/// A session and a service, without anything between them.
struct Bench {
    session: Session,
    store: Store,
    now: u64,
    /// Whether the service answers.
    answers: bool,
    /// Everything that was sent, with its time in milliseconds.
    sent: Vec<(u64, pb::SessionRequest)>,
    held: BTreeMap<OpId, Held>,
    failed: BTreeMap<OpId, Error>,
    lost: BTreeMap<HoldId, (u64, Loss)>,
    link: u64,
}

impl Bench {
    fn new() -> Bench {
        let config = Config {
            client_id: "bench".to_owned(),
            endpoints: vec!["a".to_owned()],
            ..Config::default()
        };
        let mut bench = Bench {
            session: Session::new(config),
            store: Store::new(),
            now: 0,
            answers: true,
            sent: Vec::new(),
            held: BTreeMap::new(),
            failed: BTreeMap::new(),
            lost: BTreeMap::new(),
            link: 0,
        };
        bench.input(Input::Tick);
        bench
    }

    fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            self.store.advance(self.now * 1_000);
            self.session.handle(Moment::from_micros(self.now * 1_000), input);
            let outputs: Vec<Output> = self.session.outputs().collect();
            for output in outputs {
                self.output(output, &mut inputs);
            }
            for (stream, frame) in self.store.take_frames() {
                inputs.insert(0, Input::Frame(LinkId(stream), Box::new(frame)));
            }
        }
    }

    fn output(&mut self, output: Output, inputs: &mut Vec<Input>) {
        match output {
            Output::Connect(link, _) if self.answers => {
                self.link = link.0;
                self.store.open(link.0);
                inputs.insert(0, Input::LinkUp(link));
            }
            Output::Disconnect(link) => self.store.close(link.0),
            Output::Send(link, frame) => {
                self.sent.push((self.now, (*frame).clone()));
                if self.answers {
                    self.store.receive(link.0, *frame);
                }
            }
            Output::Acquired(op, held) => {
                self.held.insert(op, *held);
            }
            Output::Failed(op, error) => {
                self.failed.insert(op, error);
            }
            Output::Lost(hold, loss) => {
                self.lost.insert(hold, (self.now, loss));
            }
            _ => {}
        }
    }

    fn acquire(&mut self, op: u64, name: &str, wait: Wait) {
        let names = [name.to_owned()].into();
        let spec = LockSpec { names, ttl: TTL, wait, ..LockSpec::default() };
        self.input(Input::Acquire(OpId(op), Arc::new(spec)));
    }

    /// Lets time go by, a millisecond at a time.
    fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.now += 1;
            self.input(Input::Tick);
        }
    }

    /// The times at which something of this kind was sent.
    fn times(&self, kind: impl Fn(&Request) -> bool) -> Vec<u64> {
        let of_kind = |frame: &pb::SessionRequest| frame.request.as_ref().is_some_and(&kind);
        self.sent.iter().filter(|(_, frame)| of_kind(frame)).map(|&(at, _)| at).collect()
    }
}

fn is_renewal(request: &Request) -> bool {
    matches!(request, Request::Renew(_))
}

// Requirements: S0-136, S2-018, S4-011, S4-031.
#[test]
fn a_lease_is_renewed_every_third_of_its_ttl() {
    let mut bench = Bench::new();
    bench.acquire(1, "a", Wait::Forever);
    assert!(bench.held.contains_key(&OpId(1)));
    bench.run_until(5_500);
    assert_eq!(bench.times(is_renewal), [1_000, 2_000, 3_000, 4_000, 5_000]);
    assert!(bench.lost.is_empty());
}

// Requirements: S2-017, S2-019, S2-020, S2-021.
#[test]
fn without_an_answer_it_is_tried_fast_and_given_up_at_the_safety_window() {
    let mut bench = Bench::new();
    bench.acquire(1, "a", Wait::Forever);
    bench.run_until(2_500);
    bench.answers = false;
    bench.run_until(2_999);
    assert!(bench.lost.is_empty());
    bench.run_until(4_000);
    let hold = bench.held[&OpId(1)].hold;
    // The last renewal that was confirmed was sent at 2,000; half the TTL later it is over.
    assert_eq!(bench.lost[&hold], (3_500, Loss::Unconfirmed));
    let tries = bench.times(is_renewal).iter().filter(|&&at| at >= 3_000).count();
    assert!(tries >= 2, "only {tries} tries");
    // The service ends the lease long after that.
    bench.store.advance(4_999_000);
    assert_eq!(bench.store.claims.len(), 1);
    bench.store.advance(5_001_000);
    assert!(bench.store.claims.is_empty());
}

#[test]
fn one_missed_heartbeat_is_survived() {
    let mut bench = Bench::new();
    bench.acquire(1, "a", Wait::Forever);
    bench.run_until(990);
    bench.answers = false;
    bench.run_until(1_200);
    bench.answers = true;
    bench.run_until(10_000);
    assert!(bench.lost.is_empty());
}

// Requirements: S0-136, S4-031.
#[test]
fn two_missed_heartbeats_are_survived() {
    let mut bench = Bench::new();
    bench.acquire(1, "a", Wait::Forever);
    bench.run_until(990);
    bench.answers = false;
    while bench.times(is_renewal).len() < 2 {
        bench.run_until(bench.now + 1);
        assert!(bench.now < 1_500, "the window is over before the second try");
    }
    bench.run_until(bench.now + 10);
    bench.answers = true;
    bench.run_until(10_000);
    assert!(bench.lost.is_empty());
}

#[test]
fn one_message_renews_many_leases() {
    let mut bench = Bench::new();
    for op in 1..=200 {
        bench.acquire(op, &format!("lock-{op}"), Wait::Forever);
    }
    assert_eq!(bench.held.len(), 200);
    bench.run_until(1_100);
    let renewals: Vec<usize> = bench
        .sent
        .iter()
        .filter_map(|(_, frame)| match &frame.request {
            Some(Request::Renew(many)) => Some(many.renewals.len()),
            _ => None,
        })
        .collect();
    assert_eq!(renewals, [200]);
}

#[test]
fn a_repeat_has_the_same_number_and_acts_once() {
    let mut bench = Bench::new();
    bench.answers = false;
    bench.acquire(1, "a", Wait::Forever);
    let links = bench.link;
    // The connection dies with everything that is on its way, and another one is made.
    bench.input(Input::LinkDown(LinkId(links), "gone".to_owned()));
    bench.answers = true;
    bench.run_until(3_000);
    assert!(bench.link > links);
    assert!(bench.held.contains_key(&OpId(1)));
    let grants: Vec<u64> = bench
        .sent
        .iter()
        .filter(|(_, frame)| matches!(frame.request, Some(Request::LeaseGrant(_))))
        .filter_map(|(_, frame)| frame.once.map(|once| once.seq))
        .collect();
    assert!(grants.len() >= 2);
    assert!(grants.iter().all(|&seq| seq == 1), "{grants:?}");
    assert_eq!(bench.store.leases.len(), 1);
}

#[test]
fn answers_that_have_arrived_are_acknowledged() {
    let mut bench = Bench::new();
    for op in 1..=3 {
        bench.acquire(op, "a", Wait::Forever);
        let hold = bench.held[&OpId(op)].hold;
        bench.input(Input::Release(hold, None));
    }
    let numbers: Vec<(u64, u64)> = bench
        .sent
        .iter()
        .filter(|(_, frame)| {
            matches!(frame.request, Some(Request::Acquire(_) | Request::Release(_)))
        })
        .filter_map(|(_, frame)| frame.once.map(|once| (once.seq, once.ack_upto)))
        .collect();
    assert_eq!(numbers, [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)]);
}

// Requirements: S2-003, S2-007, S2-012.
#[test]
fn an_abandoned_acquire_is_cancelled_by_its_number() {
    let mut bench = Bench::new();
    let other = bench.store.grant_lease(0, 60_000, "other");
    assert!(other.is_ok());
    let ask = pb::SessionAcquire {
        locks: vec![pb::LockWanted { name: "a".to_owned(), ..Default::default() }],
        lease_id: 1,
        timeout_ms: -1,
        ..Default::default()
    };
    bench.store.acquire(&ask, 1, (99, 1)).expect("the lock is free");
    bench.acquire(1, "a", Wait::Forever);
    bench.run_until(500);
    assert_eq!(bench.store.claims.len(), 2);
    bench.input(Input::Abandon(OpId(1)));
    assert_eq!(bench.store.claims.len(), 1);
    let cancelled = bench.sent.iter().find_map(|(_, frame)| match &frame.request {
        Some(Request::Cancel(cancel)) => Some(cancel.seq),
        _ => None,
    });
    assert_eq!(cancelled, Some(1));
    assert!(bench.failed.is_empty(), "nobody is told");
}

#[test]
fn a_grant_with_little_left_is_renewed_before_it_is_reported() {
    let mut bench = Bench::new();
    let other = bench.store.grant_lease(0, 60_000, "other");
    assert!(other.is_ok());
    let ask = pb::SessionAcquire {
        locks: vec![pb::LockWanted { name: "a".to_owned(), ..Default::default() }],
        lease_id: 1,
        timeout_ms: -1,
        ..Default::default()
    };
    bench.store.acquire(&ask, 1, (99, 1)).expect("the lock is free");
    bench.acquire(1, "a", Wait::Forever);
    // The process stands still for most of its lease, and the lock is granted meanwhile.
    bench.now = 2_800;
    bench.store.end_lease(1, "revoked");
    bench.store.advance(2_800_000);
    bench.input(Input::Tick);
    bench.run_until(2_900);
    let held = &bench.held[&OpId(1)];
    let left = held.validity.deadline.since(Moment::from_micros(2_800_000));
    assert!(left >= TTL / 2, "only {left:?} left");
    assert!(!bench.times(is_renewal).is_empty());
}

#[test]
fn reentrant_acquires_that_came_before_the_grant_share_it() {
    let mut bench = Bench::new();
    bench.answers = false;
    let names = ["a".to_owned()].into();
    let spec = LockSpec { names, ttl: TTL, reentrant: true, ..LockSpec::default() };
    for op in 1..=3 {
        bench.input(Input::Acquire(OpId(op), Arc::new(spec.clone())));
    }
    bench.answers = true;
    bench.run_until(3_000);
    let tokens: Vec<i64> = bench.held.values().map(|held| held.token).collect();
    assert_eq!(tokens.len(), 3);
    assert!(tokens.iter().all(|token| *token == tokens[0]));
    let hold = bench.held[&OpId(1)].hold;
    for left in (0..3).rev() {
        bench.input(Input::Release(hold, None));
        assert_eq!(bench.store.claims.is_empty(), left == 0);
    }
}

#[test]
fn a_safety_window_beyond_the_ttl_is_the_ttl() {
    let mut bench = Bench::new();
    let names = ["a".to_owned()].into();
    let safety_window = Some(Duration::from_secs(600));
    let spec = LockSpec { names, ttl: TTL, safety_window, ..LockSpec::default() };
    bench.input(Input::Acquire(OpId(1), Arc::new(spec)));
    let held = bench.held[&OpId(1)].clone();
    assert_eq!(held.validity.cutoff, held.validity.deadline);
    bench.answers = false;
    bench.run_until(4_000);
    // One percent of three seconds and 50 ms before the service ends the lease.
    assert_eq!(bench.lost[&held.hold], (2_920, Loss::Unconfirmed));
}

#[test]
fn a_wait_ends_when_it_should() {
    let mut bench = Bench::new();
    bench.acquire(1, "a", Wait::Forever);
    bench.acquire(2, "a", Wait::AtMost(Duration::from_millis(700)));
    bench.run_until(699);
    assert!(bench.failed.is_empty());
    bench.run_until(701);
    assert_eq!(bench.failed[&OpId(2)], Error::Timeout);
}
