//! A scan in steps answers as one read of everything, whatever is applied between its steps.

use fencepost_core::command::{Action, Command, Compact, DeleteRange, Entry, LeaseGrant, Op, Put};
use fencepost_core::command::{LeaseRevoke, Txn};
use fencepost_core::range::{KeyRange, Order, RangeAnswer, RangeQuery, SortBy};
use fencepost_core::scan::{
    Progress, RESTARTS_MAX, STEP_UNITS, Scan, ScanError, Scanned, StepBudget,
};
use fencepost_core::{ClientId, Key, LeaseId, LogTime, Millis, Reason, Revision, State, Value};

/// Numbers that follow from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let place = self.below(of.len() as u64);
        of[usize::try_from(place).expect("a place in the list")]
    }

    fn units(&mut self) -> u32 {
        1 + u32::try_from(self.below(40)).expect("a small number")
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn key(&mut self) -> Key {
        Key::from(&*format!("k{:02}", self.below(40)))
    }

    fn range(&mut self) -> KeyRange {
        match self.below(5) {
            0 => KeyRange::One(self.key()),
            1 => KeyRange::Span(self.key(), self.key()),
            2 => KeyRange::From(self.key()),
            _ => KeyRange::From(Key::default()),
        }
    }

    fn query(&mut self, revision: Revision) -> RangeQuery {
        let mut bound = |is_set: bool| match is_set {
            true => Revision(self.below(revision.0 + 2)),
            false => Revision::NONE,
        };
        let (mod_min, create_max) =
            (bound(revision.0.is_multiple_of(5)), bound(revision.0 % 7 == 1));
        RangeQuery {
            range: self.range(),
            limit: self.pick(&[0, 0, 1, 3, 10]),
            order: self.pick(&[Order::Unsorted, Order::Ascending, Order::Descending]),
            sort_by: self.pick(&[
                SortBy::Key,
                SortBy::Version,
                SortBy::Create,
                SortBy::Mod,
                SortBy::Value,
            ]),
            mod_min,
            mod_max: Revision::NONE,
            create_min: Revision::NONE,
            create_max,
            keys_only: self.one_in(4),
            count_only: self.one_in(6),
        }
    }

    fn put(&mut self) -> Put {
        let value = Value::from(&*self.below(1_000).to_string());
        let lease = if self.one_in(5) { LeaseId(7) } else { LeaseId::NONE };
        Put { key: self.key(), value, lease, ..Put::default() }
    }

    fn delete(&mut self) -> DeleteRange {
        DeleteRange { range: self.range(), prev: false }
    }

    fn action(&mut self) -> Action {
        match self.below(20) {
            0..4 => {
                Action::DeleteRange(DeleteRange { range: KeyRange::One(self.key()), prev: false })
            }
            4 => Action::DeleteRange(self.delete()),
            // One transaction may change a key twice.
            5 => {
                let delete = Op::DeleteRange(self.delete());
                Action::Txn(Box::new(Txn {
                    success: vec![delete, Op::Put(self.put())],
                    ..Txn::default()
                }))
            }
            6 => Action::LeaseRevoke(LeaseRevoke { lease: LeaseId(7).into() }),
            7 => Action::LeaseGrant(LeaseGrant {
                id: LeaseId(7),
                ttl: Millis(5_000),
                client: ClientId::from("c"),
                ..LeaseGrant::default()
            }),
            _ => Action::Put(self.put()),
        }
    }
}

fn act(state: &mut State, action: Action) {
    let at = LogTime(state.now().0 + 1);
    state.apply(Entry { at, commands: vec![Command::from(action)] });
}

fn put(state: &mut State, key: &str, value: &str) {
    let (key, value) = (Key::from(key), Value::from(value));
    act(state, Action::Put(Put { key, value, ..Put::default() }));
}

fn everything() -> RangeQuery {
    RangeQuery::from(KeyRange::From(Key::default()))
}

/// Steps to the end with nothing between the steps.
fn run(scan: &mut Scan, state: &State, units: u32) -> Result<Scanned, ScanError> {
    loop {
        match scan.step(state, &mut StepBudget::new(units)) {
            Progress::More => {}
            Progress::Done(scanned) => return Ok(scanned),
            Progress::Failed(why) => return Err(why),
        }
    }
}

fn hash_of(state: &State) -> [u8; 32] {
    run(&mut Scan::hash(Revision::NONE), state, u32::MAX).expect("the present has a hash").hash()
}

#[test]
fn scan_with_writes_between_its_steps_is_exact_at_its_last_step() {
    let (mut steps, mut scans) = (0, 0);
    for seed in 0..3_000 {
        let mut dice = Dice(seed);
        let mut state = State::new();
        for _ in 0..dice.below(120) {
            act(&mut state, dice.action());
        }
        let query = dice.query(state.revision());
        let is_hash = dice.one_in(5);
        let mut scan = match is_hash {
            true => Scan::hash(Revision::NONE),
            false => Scan::range(query.clone(), Revision::NONE, u64::MAX),
        };
        let units = dice.units();
        let found = loop {
            steps += 1;
            match scan.step(&state, &mut StepBudget::new(units)) {
                Progress::Done(found) => break found,
                Progress::More => {}
                Progress::Failed(why) => panic!("seed {seed}: {why:?}"),
            }
            // Fewer writes than a step can catch up with.
            if dice.one_in(2) {
                act(&mut state, dice.action());
            }
        };
        scans += 1;
        assert_eq!(found.revision(), state.revision(), "seed {seed}");
        if is_hash {
            assert_eq!(found.hash(), hash_of(&state), "seed {seed}");
        } else {
            assert_eq!(found.into_answer(), state.range(&query), "seed {seed}: {query:?}");
        }
    }
    assert!(steps > 3 * scans, "{steps} steps in {scans} scans");
}

#[test]
fn scan_of_an_earlier_revision_is_what_a_read_was_then() {
    for seed in 0..1_500 {
        let mut dice = Dice(seed);
        let mut state = State::new();
        let query = dice.query(Revision(50));
        let mut seen: Vec<(Revision, RangeAnswer, [u8; 32])> = Vec::new();
        for _ in 0..40 + dice.below(60) {
            act(&mut state, dice.action());
            seen.push((state.revision(), state.range(&query), hash_of(&state)));
        }
        let places: Vec<usize> = (0..seen.len()).collect();
        let (at, answer, hash) = seen.swap_remove(dice.pick(&places));
        let is_hash = dice.one_in(4);
        let mut scan = match is_hash {
            true => Scan::hash(at),
            false => Scan::range(query.clone(), at, u64::MAX),
        };
        let units = dice.units();
        let found = loop {
            match scan.step(&state, &mut StepBudget::new(units)) {
                Progress::Done(found) => break found,
                Progress::More => {}
                Progress::Failed(why) => panic!("seed {seed}: {why:?}"),
            }
            if dice.one_in(2) {
                act(&mut state, dice.action());
            }
        };
        if is_hash {
            assert_eq!(found.hash(), hash, "seed {seed}");
        } else {
            assert_eq!(found.into_answer(), answer, "seed {seed}: {query:?} at {at:?}");
        }
    }
}

#[test]
fn revisions_that_cannot_be_read_are_refused() {
    let mut state = State::new();
    for number in 0..9 {
        put(&mut state, "k", &number.to_string());
    }
    let now = state.revision();
    act(&mut state, Action::Compact(Compact { revision: now }));
    let refused = |at| run(&mut Scan::range(everything(), at, u64::MAX), &state, 1).err();
    let future = Reason::RevisionFuture(now);
    assert_eq!(refused(now.next()), Some(ScanError::Refused(future)));
    let compacted = Reason::Compacted(now);
    assert_eq!(refused(Revision(now.0 - 1)), Some(ScanError::Refused(compacted)));
    assert_eq!(refused(now), None);
}

/// Compaction takes away the events that the next step needs.
#[test]
fn compaction_between_steps_starts_a_scan_over_a_few_times() {
    let mut state = State::new();
    for number in 0..10 {
        put(&mut state, &format!("k{number}"), "v");
    }
    let compact = |state: &mut State| {
        put(state, "k0", "new");
        put(state, "k0", "newer");
        let revision = state.revision();
        act(state, Action::Compact(Compact { revision }));
    };
    let budget = || StepBudget::new(24);
    let mut scan = Scan::range(everything(), Revision::NONE, u64::MAX);
    assert!(matches!(scan.step(&state, &mut budget()), Progress::More));
    compact(&mut state);
    let found = run(&mut scan, &state, 24).expect("nothing is in its way any more");
    assert_eq!(found.into_answer(), state.range(&everything()));

    let mut scan = Scan::range(everything(), Revision::NONE, u64::MAX);
    assert!(matches!(scan.step(&state, &mut budget()), Progress::More));
    for _ in 0..RESTARTS_MAX {
        compact(&mut state);
        assert!(matches!(scan.step(&state, &mut budget()), Progress::More));
    }
    compact(&mut state);
    assert!(matches!(scan.step(&state, &mut budget()), Progress::Failed(ScanError::Outrun)));

    let at = state.revision();
    let mut past = Scan::range(everything(), at, u64::MAX);
    assert!(matches!(past.step(&state, &mut budget()), Progress::More));
    compact(&mut state);
    let compacted = ScanError::Refused(Reason::Compacted(state.compact_revision()));
    assert_eq!(run(&mut past, &state, 24).err(), Some(compacted));
}

#[test]
fn one_step_visits_a_bounded_number_of_keys() {
    let mut state = State::new();
    let keys = 200_000;
    for from in (0..keys).step_by(1_000) {
        let puts = (from..from + 1_000).map(|number| {
            let (key, value) = (Key::from(&*format!("k{number:06}")), Value::from("v"));
            Command::from(Action::Put(Put { key, value, ..Put::default() }))
        });
        state.apply(Entry { at: LogTime(0), commands: puts.collect() });
    }
    let steps_of = |mut scan: Scan| {
        let mut steps = 1;
        loop {
            match scan.step(&state, &mut StepBudget::default()) {
                Progress::More => steps += 1,
                Progress::Done(found) => return (steps, found),
                Progress::Failed(why) => panic!("{why:?}"),
            }
        }
    };
    let (steps, found) = steps_of(Scan::range(everything(), Revision::NONE, u64::MAX));
    assert_eq!((found.kept(), found.count()), (keys, keys));
    assert!(steps >= 97, "{steps} steps");
    let (steps, found) = steps_of(Scan::count(KeyRange::From(Key::default())));
    assert_eq!(found.count(), keys);
    assert_eq!(steps, keys.div_ceil(u64::from(STEP_UNITS)));
    let (steps, _) = steps_of(Scan::hash(Revision::NONE));
    assert!(steps >= 97, "{steps} steps");
    // A limit needs the first keys, and counts the rest.
    let first = RangeQuery { limit: 5, ..everything() };
    let (steps, found) = steps_of(Scan::range(first.clone(), Revision::NONE, u64::MAX));
    assert_eq!(found.kept(), 6);
    assert_eq!(steps, keys.div_ceil(u64::from(STEP_UNITS)));
    assert_eq!(found.into_answer(), state.range(&first));
}

#[test]
fn answer_beyond_its_bytes_is_refused() {
    let mut state = State::new();
    for number in 0..10 {
        put(&mut state, &format!("k{number}"), &"v".repeat(1_000));
    }
    let scan = |query: RangeQuery| {
        run(&mut Scan::range(query, Revision::NONE, 5_000), &state, 100).map(|found| found.kept())
    };
    assert_eq!(scan(everything()), Err(ScanError::TooLarge(5_000)));
    assert_eq!(scan(RangeQuery { limit: 3, ..everything() }), Ok(4));
    assert_eq!(scan(RangeQuery { keys_only: true, ..everything() }), Ok(10));
    assert_eq!(scan(RangeQuery { count_only: true, ..everything() }), Ok(0));
    // The limit decides after the sort, so values do not count before it.
    let newest =
        RangeQuery { limit: 1, order: Order::Descending, sort_by: SortBy::Mod, ..everything() };
    assert_eq!(scan(newest), Ok(10));
}
