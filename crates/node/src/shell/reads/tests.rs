use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use fencepost_core::command::{Action, Command, Entry, Put};
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::scan::{Progress, Scan, Scanned};
use fencepost_core::{Key, LogTime, Revision, State, Value};

use super::super::mail::Mailbox;
use super::*;

const LINE: u64 = 3;

struct Answers(SyncSender<(RequestId, Delivery)>);

impl Mailbox for Answers {
    fn deliver(&self, deliveries: Vec<(RequestId, Delivery)>) {
        deliveries.into_iter().for_each(|delivery| self.0.send(delivery).expect("it is read"));
    }
}

/// The queries of a loop, and what is answered.
struct Bench {
    machine: Machine,
    reads: Reads,
    mail: Mail,
    answers: Receiver<(RequestId, Delivery)>,
}

impl Bench {
    fn new(keys: u64) -> Bench {
        let mut state = State::new();
        for from in (0..keys).step_by(1_000) {
            let puts = (from..from + 1_000).map(|number| put(&format!("k{number:06}")));
            state.apply(Entry { at: LogTime(0), commands: puts.collect() });
        }
        let mut bytes = Vec::new();
        state.encode(&mut bytes);
        let machine = Machine::decode(0, &bytes).expect("it was just encoded");
        let (sender, answers) = sync_channel(2 * WAITING_MAX);
        let mut mail = Mail::default();
        mail.register(LINE, Box::new(Answers(sender)));
        Bench { machine, reads: Reads::default(), mail, answers }
    }

    fn begin(&mut self) {
        self.reads.begin(&self.machine, &mut self.mail);
    }

    fn ask(&mut self, number: u64, query: Query) {
        self.reads.ask(request(number), query, &self.machine, &mut self.mail);
    }

    /// Takes a step of one query.
    fn step(&mut self) -> bool {
        self.reads.step(&self.machine, &mut self.mail)
    }

    /// What was answered since the last time.
    fn answered(&mut self) -> Vec<(u64, Result<Found, ProposeError>)> {
        self.mail.flush();
        let answers = self.answers.try_iter().map(|(request, delivery)| match delivery {
            Delivery::Found(found) => (request.number, found),
            other => panic!("no query has this answer: {other:?}"),
        });
        answers.collect()
    }

    fn numbers(&mut self) -> Vec<u64> {
        self.answered().into_iter().map(|(number, _)| number).collect()
    }
}

fn request(number: u64) -> RequestId {
    RequestId { line: LINE, number }
}

fn put(key: &str) -> Command {
    let (key, value) = (Key::from(key), Value::from("v"));
    Command::from(Action::Put(Put { key, value, ..Put::default() }))
}

fn small() -> Query {
    Query::once(|machine| machine.applied())
}

type Answered = Option<Result<Found, ProposeError>>;

/// A scan to its end.
struct Whole(Scan);

impl Steps for Whole {
    fn step(&mut self, machine: &Machine, budget: &mut StepBudget) -> Answered {
        match self.0.step(machine.state(), budget) {
            Progress::More => None,
            Progress::Done(scanned) => Some(Ok(Box::new(scanned))),
            Progress::Failed(why) => panic!("{why:?}"),
        }
    }
}

fn whole(scan: Scan) -> Query {
    Query::Steps(Box::new(Whole(scan)))
}

fn everything() -> RangeQuery {
    RangeQuery::from(KeyRange::From(Key::default()))
}

/// Takes a number of steps.
struct Countdown(u32);

impl Steps for Countdown {
    fn step(&mut self, _machine: &Machine, _budget: &mut StepBudget) -> Answered {
        self.0 -= 1;
        (self.0 == 0).then(|| -> Result<Found, ProposeError> { Ok(Box::new(())) })
    }
}

fn countdown(steps: u32) -> Query {
    Query::Steps(Box::new(Countdown(steps)))
}

#[test]
fn range_and_hash_of_200000_keys_let_others_in_between_their_steps() {
    let mut bench = Bench::new(200_000);
    let scan = Scan::range(everything(), Revision::NONE, u64::MAX);
    for (number, scan) in [(1, scan), (2, Scan::hash(Revision::NONE))] {
        bench.begin();
        bench.ask(number, whole(scan));
        let mut iterations = 0;
        let scanned = loop {
            iterations += 1;
            bench.begin();
            bench.ask(100 + iterations, small());
            let (answered, _) = bench.answered().pop().expect("a small query fits");
            assert_eq!(answered, 100 + iterations);
            assert!(bench.step(), "the scan is still under way");
            if let Some((answered, found)) = bench.answered().pop() {
                assert_eq!(answered, number);
                break found.expect("it is answered").downcast::<Scanned>().expect("of a scan");
            }
            // Writes go on as well.
            let data = crate::machine::pack(LogTime(0), &[encoded(put("k000001"))]);
            let index = bench.machine.applied() + 1;
            bench.machine.apply(index, &data).expect("it can be read");
        };
        assert!(iterations >= 97, "{iterations} iterations");
        assert_eq!(scanned.revision(), bench.machine.state().revision());
        assert_eq!(scanned.count(), 200_000);
        if number == 1 {
            assert_eq!(scanned.into_answer(), bench.machine.state().range(&everything()));
        }
        assert!(!bench.reads.are_open());
    }
}

fn encoded(command: Command) -> Vec<u8> {
    crate::machine::Order::from(command).into_bytes()
}

#[test]
fn queries_beyond_the_budget_of_an_iteration_wait_in_order() {
    let mut bench = Bench::new(0);
    bench.begin();
    let each = u64::from(STEP_UNITS / QUERY_UNITS);
    for number in 0..2 * each + 5 {
        bench.ask(number, small());
    }
    assert_eq!(bench.numbers(), (0..each).collect::<Vec<u64>>());
    assert!(bench.reads.are_open());
    bench.begin();
    bench.ask(9_999, small());
    assert_eq!(bench.numbers(), (each..2 * each).collect::<Vec<u64>>());
    bench.begin();
    let rest = (2 * each..2 * each + 5).chain([9_999]);
    assert_eq!(bench.numbers(), rest.collect::<Vec<u64>>());
    assert!(!bench.reads.are_open());
}

#[test]
fn costly_query_ends_the_budget_of_an_iteration() {
    let mut bench = Bench::new(0);
    bench.begin();
    bench.ask(1, Query::measured(|_, budget| budget.spend(STEP_UNITS)));
    bench.ask(2, small());
    assert_eq!(bench.numbers(), [1]);
    bench.begin();
    assert_eq!(bench.numbers(), [2]);
}

#[test]
fn queries_in_steps_take_turns() {
    let mut bench = Bench::new(0);
    bench.begin();
    bench.ask(1, countdown(10));
    bench.ask(2, countdown(3));
    bench.ask(3, countdown(1));
    assert_eq!(bench.numbers(), [3]);
    let mut order = Vec::new();
    while bench.step() {
        order.extend(bench.numbers());
    }
    assert_eq!(order, [2, 1]);
}

#[test]
fn no_more_queries_are_under_way_than_there_is_room_for() {
    let mut bench = Bench::new(0);
    for number in 0..=UNDER_WAY_MAX as u64 {
        bench.begin();
        bench.ask(number, countdown(2));
    }
    let refused = bench.answered();
    assert_eq!(refused.len(), 1);
    assert!(matches!(refused[0], (64, Err(ProposeError::Overloaded))), "{refused:?}");
    bench.reads.close_line(LINE);
    assert!(!bench.reads.are_open());
}

#[test]
fn no_more_queries_wait_than_there_is_room_for() {
    let mut bench = Bench::new(0);
    bench.begin();
    bench.ask(0, Query::measured(|_, budget| budget.spend(STEP_UNITS)));
    for number in 0..=WAITING_MAX as u64 {
        bench.ask(1 + number, small());
    }
    let refused = bench.answered().pop();
    assert!(matches!(refused, Some((16_385, Err(ProposeError::Overloaded)))), "{refused:?}");
}
