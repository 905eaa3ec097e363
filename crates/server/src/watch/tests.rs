use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fencepost_core::command::{Action, Command, Compact, DeleteRange, Entry, Put};
use fencepost_core::history::Watch;
use fencepost_core::range::KeyRange;
use fencepost_core::{Key, LogTime, State, Value};

use super::*;
use crate::limits;
use crate::outbox::{Item, Outbox};

/// A state whose events are told to a hub, with as much delay as a test wants.
struct World {
    state: State,
    hub: Hub,
    queue: Queue,
    at: u64,
}

impl World {
    fn new() -> World {
        let (state, hub, queue) = (State::new(), Hub::default(), Queue::default());
        World { state, hub, queue, at: 0 }
    }

    fn act(&mut self, action: Action) {
        self.at += 1;
        let commands = vec![Command::from(action)];
        let effects = self.state.apply(Entry { at: LogTime(self.at), commands });
        let (revision, now) = (self.state.revision(), self.state.now());
        self.queue.happened(&effects.events, revision, now);
    }

    fn put(&mut self, key: &str, value: &str) {
        let (key, value) = (Key::from(key), Value::from(value));
        self.act(Action::Put(Put { key, value, ..Put::default() }));
    }

    fn fan_out(&mut self) {
        let said = self.queue.take_now();
        self.hub.hear_all(said, &self.queue);
    }
}

/// A reader of one watch, as a stream is.
struct Reader {
    number: u64,
    watch: Watch,
    outbox: Arc<Outbox>,
    buffered: Arc<Buffered>,
    cursor: Option<Cursor>,
    seen: Vec<(u64, u32, String)>,
    cut: Option<Revision>,
    compacted: Option<Revision>,
    is_present: bool,
}

impl Reader {
    fn new(watch: Watch) -> Reader {
        Reader {
            number: 1,
            watch,
            outbox: Arc::default(),
            buffered: Arc::default(),
            cursor: None,
            seen: Vec::new(),
            cut: None,
            compacted: None,
            is_present: false,
        }
    }

    fn all(from: u64) -> Reader {
        Reader::new(Watch::new(KeyRange::prefix(b""), Revision(from)))
    }

    /// One look at the history, as the loop makes it.
    fn look(&mut self, world: &World) {
        let found = look(&world.state, &self.watch, self.cursor);
        self.compacted = found.compacted;
        self.cursor = Some(found.cursor);
        self.is_present = found.is_present && found.compacted.is_none();
        self.note(&found.events);
        if self.is_present {
            world.queue.say(Said::Begin(Box::new(Live {
                number: self.number,
                watch: self.watch.clone(),
                cursor: found.cursor,
                progress: true,
                buffered: Arc::clone(&self.buffered),
                outbox: Arc::clone(&self.outbox),
            })));
        }
    }

    fn catch_up(&mut self, world: &World) {
        self.is_present = false;
        while !self.is_present && self.compacted.is_none() {
            self.look(world);
        }
    }

    fn note(&mut self, events: &[Arc<Event>]) {
        for event in events {
            let key = String::from_utf8_lossy(event.key()).into_owned();
            self.seen.push((event.revision.0, event.sub, key));
        }
    }

    /// Reads what is there. Says whether the watch must look at the history again.
    fn read(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let mut behind = false;
        while let Poll::Ready(Some(Ok(item))) = self.outbox.poll_pop(&mut cx) {
            match item {
                Item::Events(events) => {
                    self.note(&events.events);
                    events.events.iter().for_each(|event| events.buffered.remove(event));
                }
                Item::WatchCut(_, resume) => self.cut = Some(resume),
                Item::WatchBehind(_, cursor) => {
                    self.cursor = Some(cursor);
                    behind = true;
                }
                other => panic!("{other:?} was not expected"),
            }
        }
        behind
    }

    fn keys(&self) -> Vec<&str> {
        self.seen.iter().map(|(.., key)| &**key).collect()
    }
}

// Requirements: S0-121, S0-137, S2-015, S4-036.
#[test]
fn nothing_is_missed_and_nothing_comes_twice_wherever_the_watch_begins() {
    for before in 0..6 {
        for said_late in [false, true] {
            let mut world = World::new();
            for number in 0..before {
                world.put(&format!("k{number}"), "");
            }
            if !said_late {
                world.fan_out();
            }
            let mut reader = Reader::all(1);
            // The state is ahead of what the fan-out has heard, as it is within a turn.
            reader.catch_up(&world);
            for number in before..6 {
                world.put(&format!("k{number}"), "");
            }
            world.fan_out();
            assert!(!reader.read());
            assert_eq!(reader.keys(), ["k0", "k1", "k2", "k3", "k4", "k5"], "{before} {said_late}");
        }
    }
}

#[test]
fn a_watch_from_now_on_tells_nothing_of_before() {
    let mut world = World::new();
    world.put("a", "");
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    world.put("b", "");
    world.fan_out();
    reader.read();
    assert_eq!(reader.keys(), ["b"]);
}

// Requirements: S0-121.
#[test]
fn a_watch_from_the_future_waits_for_it() {
    let mut world = World::new();
    let mut reader = Reader::all(4);
    reader.catch_up(&world);
    for key in ["a", "b", "c"] {
        world.put(key, "");
    }
    world.fan_out();
    reader.read();
    assert_eq!(reader.keys(), ["c"]);
}

#[test]
fn a_long_history_is_gone_through_in_bounded_looks() {
    let mut world = World::new();
    let count = 3 * limits::HISTORY_SCAN_MAX + 7;
    for number in 0..count {
        world.put(&format!("k{}", number % 10), "");
    }
    let mut reader = Reader::new(Watch::new(KeyRange::One(Key::from("k3")), Revision(1)));
    reader.look(&world);
    assert!(!reader.is_present);
    assert_eq!(reader.seen.len(), limits::HISTORY_SCAN_MAX / 10);
    // What happens meanwhile is found by the next look.
    world.put("k3", "");
    reader.catch_up(&world);
    world.fan_out();
    reader.read();
    let all: BTreeSet<_> = reader.seen.iter().collect();
    assert_eq!(all.len(), reader.seen.len());
    assert_eq!(reader.seen.len(), count / 10 + 1 + 1);
}

#[test]
fn a_history_that_is_gone_is_reported() {
    let mut world = World::new();
    for key in ["a", "b", "c"] {
        world.put(key, "");
    }
    world.act(Action::Compact(Compact { revision: Revision(3) }));
    let mut reader = Reader::all(2);
    reader.catch_up(&world);
    assert_eq!(reader.compacted, Some(Revision(3)));
    let mut reader = Reader::all(3);
    reader.catch_up(&world);
    assert_eq!(reader.keys(), ["b", "c"]);
}

#[test]
fn a_reader_that_is_too_slow_is_cut_off_and_told_where_to_go_on() {
    let mut world = World::new();
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    for number in 0..limits::WATCH_EVENTS_MAX + 5 {
        world.put(&format!("k{number}"), "");
        world.fan_out();
    }
    assert!(!reader.read());
    assert_eq!(reader.seen.len(), limits::WATCH_EVENTS_MAX);
    let last = reader.seen.last().expect("there are some").0;
    assert_eq!(reader.cut, Some(Revision(last + 1)));
    // It is gone from the fan-out: nothing more is kept for it.
    world.put("more", "");
    world.fan_out();
    reader.read();
    assert_eq!(reader.seen.len(), limits::WATCH_EVENTS_MAX);
}

#[test]
fn a_reader_that_is_too_slow_for_large_events_is_cut_off_by_their_bytes() {
    let mut world = World::new();
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    let large = "x".repeat(100 << 10);
    for _ in 0..20 {
        world.put("k", &large);
        world.fan_out();
    }
    reader.read();
    assert!(reader.cut.is_some());
    assert!(reader.seen.len() * (100 << 10) <= limits::WATCH_BYTES_MAX, "{}", reader.seen.len());
}

#[test]
fn after_a_gap_every_watch_goes_on_from_the_history() {
    let mut world = World::new();
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    world.put("a", "");
    world.fan_out();
    world.put("b", "");
    world.queue.take_now();
    // A snapshot took the place of the event of `b`.
    world.queue.say(Said::Gap);
    world.put("c", "");
    world.fan_out();
    assert!(reader.read());
    reader.catch_up(&world);
    world.put("d", "");
    world.fan_out();
    assert!(!reader.read());
    assert_eq!(reader.keys(), ["a", "b", "c", "d"]);
}

#[test]
fn after_a_gap_that_history_does_not_cover_it_is_reported() {
    let mut world = World::new();
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    for key in ["a", "b", "c"] {
        world.put(key, "");
    }
    world.queue.take_now();
    world.act(Action::Compact(Compact { revision: Revision(4) }));
    world.queue.say(Said::Gap);
    world.fan_out();
    // The watch was registered with what was thrown away, so it is asked where it stands.
    reader.is_present = false;
    reader.look(&world);
    assert_eq!(reader.compacted, Some(Revision(4)));
}

#[test]
fn a_flood_makes_a_gap_and_not_a_heap() {
    let mut world = World::new();
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    world.fan_out();
    for number in 0..=limits::FAN_OUT_MAX {
        world.put(&format!("k{}", number % 7), "");
    }
    let said = world.queue.take_now();
    assert!(said.len() < 3, "{}", said.len());
    said.into_iter().for_each(|one| world.hub.hear(one));
    assert!(reader.read());
}

#[test]
fn what_a_watch_leaves_out_it_does_not_hear() {
    let mut world = World::new();
    let watch = Watch::new(KeyRange::prefix(b"a"), Revision::NONE);
    let mut puts = Reader::new(Watch { no_delete: true, ..watch.clone() });
    puts.catch_up(&world);
    world.put("a1", "");
    world.put("b", "");
    let range = KeyRange::prefix(b"");
    world.act(Action::DeleteRange(DeleteRange { range, prev: false }));
    world.fan_out();
    puts.read();
    assert_eq!(puts.keys(), ["a1"]);
}

#[test]
fn progress_is_told_to_those_who_want_it() {
    let mut world = World::new();
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    world.put("a", "");
    world.queue.say(Said::Progress);
    world.fan_out();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(matches!(reader.outbox.poll_pop(&mut cx), Poll::Ready(Some(Ok(Item::Events(_))))));
    let told = reader.outbox.poll_pop(&mut cx);
    assert!(matches!(told, Poll::Ready(Some(Ok(Item::Progress(1, Revision(2)))))), "{told:?}");
}

/// A world in which one revision has removed many keys.
fn swept(keys: usize) -> World {
    let mut world = World::new();
    for number in 0..keys {
        world.put(&format!("k{number:05}"), "");
    }
    let range = KeyRange::prefix(b"k");
    world.act(Action::DeleteRange(DeleteRange { range, prev: false }));
    world
}

#[test]
fn a_revision_that_is_longer_than_a_look_is_told_whole() {
    let keys = 3 * limits::HISTORY_SCAN_MAX / 2;
    let world = swept(keys);
    let everything = KeyRange::prefix(b"");
    let watch = Watch { keys_only: true, ..Watch::new(everything, Revision(2)) };
    let mut reader = Reader::new(watch);
    reader.catch_up(&world);
    assert_eq!(reader.seen.len(), 2 * keys, "the rest of the revision was passed over");
}

#[test]
fn a_reader_that_is_cut_off_goes_on_at_a_revision_of_which_it_has_seen_nothing() {
    let mut world = swept(0);
    let mut reader = Reader::all(0);
    reader.catch_up(&world);
    world.fan_out();
    for number in 0..limits::WATCH_EVENTS_MAX - 10 {
        world.put(&format!("k{number:05}"), "");
    }
    let range = KeyRange::prefix(b"k");
    world.act(Action::DeleteRange(DeleteRange { range, prev: false }));
    world.fan_out();
    reader.read();
    let resume = reader.cut.expect("it is too slow");
    assert!(reader.seen.iter().all(|(revision, ..)| *revision < resume.0));
}

/// A wake-up costs more than most of what is done in a turn.
#[test]
fn nobody_is_woken_for_events_that_nobody_watches() {
    let mut world = World::new();
    world.put("a", "1");
    assert!(world.queue.take_now().is_empty());
    let outbox = Arc::<Outbox>::default();
    world.queue.say(Said::Mark(Arc::clone(&outbox)));
    world.fan_out();
    let mut cx = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(Ok(Item::Mark(revision)))) = outbox.poll_pop(&mut cx) else {
        panic!("whoever asks is told how far the state is");
    };
    assert_eq!(revision, world.state.revision());
}

fn of_prefix(number: u64, prefix: &str) -> Reader {
    let watch = Watch::new(KeyRange::prefix(prefix.as_bytes()), Revision::NONE);
    Reader { number, ..Reader::new(watch) }
}

#[test]
fn nobody_is_woken_for_keys_that_nobody_watches() {
    let mut world = World::new();
    let mut ranged = of_prefix(1, "a/");
    let mut single = Reader {
        number: 2,
        ..Reader::new(Watch::new(KeyRange::One(Key::from("one")), Revision::NONE))
    };
    ranged.catch_up(&world);
    single.catch_up(&world);
    world.fan_out();
    world.put("b/1", "");
    world.put("ones", "");
    assert!(world.queue.take_now().is_empty());
    world.put("a/1", "");
    world.put("one", "");
    world.fan_out();
    assert!(!ranged.read() && !single.read());
    assert_eq!((ranged.keys(), single.keys()), (vec!["a/1"], vec!["one"]));
}

// Requirements: S0-115.
#[test]
fn a_key_is_watched_until_the_last_watch_of_it_has_ended() {
    let mut world = World::new();
    let mut readers = [of_prefix(1, "a/"), of_prefix(2, "a/")];
    for reader in &mut readers {
        reader.catch_up(&world);
    }
    world.fan_out();
    // It ends twice, as a reader does that was cut off meanwhile.
    world.queue.say(Said::End(1));
    world.queue.say(Said::End(1));
    world.fan_out();
    world.put("a/1", "");
    world.fan_out();
    readers[1].read();
    assert_eq!(readers[1].keys(), ["a/1"]);
    world.queue.say(Said::End(2));
    world.fan_out();
    world.put("a/2", "");
    assert!(world.queue.take_now().is_empty(), "somebody is woken for a watch that has ended");
}

#[test]
fn a_watch_whose_reader_is_gone_before_it_begins_is_forgotten() {
    let mut world = World::new();
    let mut reader = of_prefix(1, "a/");
    reader.catch_up(&world);
    reader.outbox.finish(None);
    world.fan_out();
    world.put("a/1", "");
    assert!(world.queue.take_now().is_empty());
}

#[test]
fn a_gap_does_not_send_the_watch_of_quiet_keys_back_to_what_is_forgotten() {
    for range in [KeyRange::prefix(b"quiet/"), KeyRange::One(Key::from("quiet/1"))] {
        let mut world = World::new();
        let mut reader = Reader::new(Watch::new(range, Revision::NONE));
        reader.catch_up(&world);
        world.fan_out();
        for _ in 0..5 {
            world.put("busy", "");
        }
        world.act(Action::Compact(Compact { revision: world.state.revision() }));
        world.queue.say(Said::Gap);
        world.fan_out();
        assert!(reader.read());
        reader.catch_up(&world);
        assert_eq!(reader.compacted, None);
        world.put("quiet/1", "");
        world.fan_out();
        reader.read();
        assert_eq!(reader.keys(), ["quiet/1"]);
    }
}

/// Watches of all kinds begin and end, the fan-out hears of events late or not at all, and each watch has told
/// exactly what happened to its keys.
// Requirements: S0-121.
#[test]
fn every_watch_tells_exactly_its_own_events() {
    for seed in 0..200_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut world = World::new();
        // More ranges than are looked at one by one, in some of the runs.
        let ranges = if seed % 4 == 0 { 3 * interest::RANGES_MAX as u64 } else { 6 };
        let mut live: Vec<(Reader, u64)> = Vec::new();
        let (mut happened, mut number) = (Vec::new(), 0);
        for _ in 0..300 {
            match draw(10) {
                0 | 1 => {
                    number += 1;
                    let key = format!("{:02}", draw(ranges));
                    let range = match draw(3) {
                        0 => KeyRange::One(Key::from(&*key)),
                        1 => KeyRange::prefix(&key.as_bytes()[..1]),
                        _ => KeyRange::prefix(key.as_bytes()),
                    };
                    let watch = Watch::new(range, Revision::NONE);
                    let mut reader = Reader { number, ..Reader::new(watch) };
                    reader.catch_up(&world);
                    live.push((reader, world.state.revision().0));
                }
                2 if !live.is_empty() => {
                    let at = usize::try_from(draw(live.len() as u64)).expect("it is small");
                    let (mut reader, since) = live.swap_remove(at);
                    settle(&mut world, &mut reader);
                    compare(&reader, since, &happened, seed);
                    reader.outbox.finish(None);
                    world.queue.say(Said::End(reader.number));
                }
                3 => lose_events(&mut world),
                4 | 5 => world.fan_out(),
                _ => {
                    let key = format!("{:02}", draw(ranges));
                    world.put(&key, "");
                    happened.push((world.state.revision().0, key));
                }
            }
        }
        for (reader, since) in &mut live {
            settle(&mut world, reader);
            compare(reader, *since, &happened, seed);
        }
    }
}

/// The events that wait are lost, and a gap stands for them.
fn lose_events(world: &mut World) {
    let mut said = world.queue.take_now();
    said.retain(|one| !matches!(one, Said::Events(..)));
    said.push_back(Said::Gap);
    world.hub.hear_all(said, &world.queue);
}

/// Until the watch has told all that has happened.
fn settle(world: &mut World, reader: &mut Reader) {
    world.fan_out();
    while reader.read() {
        reader.catch_up(world);
        world.fan_out();
    }
}

fn compare(reader: &Reader, since: u64, happened: &[(u64, String)], seed: u64) {
    let wanted = happened
        .iter()
        .filter(|(revision, key)| *revision > since && reader.watch.range.contains(key.as_bytes()))
        .map(|(_, key)| &**key);
    assert_eq!(reader.keys(), wanted.collect::<Vec<_>>(), "seed {seed}");
}
