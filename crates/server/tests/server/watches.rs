//! Watches, on streams of their own and on sessions.

use fencepost_core::codec::encode_command;
use fencepost_core::command::Compact;
use fencepost_core::{Action, Command, Revision};
use fencepost_node::io::Class;
use fencepost_proto::v1;
use fencepost_proto::v1::event::Type;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::support::{Locks, Talk, World, acquired, lease, soon, unlock, world};

struct Watch {
    sender: mpsc::Sender<v1::WatchRequest>,
    answers: Streaming<v1::WatchResponse>,
}

impl Watch {
    async fn open(locks: &mut Locks) -> Watch {
        let (sender, frames) = mpsc::channel(4_096);
        let answers = locks.watch(ReceiverStream::new(frames)).await.expect("it is opened");
        Watch { sender, answers: answers.into_inner() }
    }

    async fn say(&self, request: v1::WatchRequest) {
        self.sender.send(request).await.expect("the stream is open");
    }

    async fn hear(&mut self) -> v1::WatchResponse {
        let heard = soon(self.answers.message()).await.expect("the stream goes on");
        heard.expect("the stream goes on")
    }

    async fn created(&mut self, request: v1::WatchRequest) {
        let watch_id = request.watch_id;
        self.say(request).await;
        let told = self.hear().await;
        assert!(told.created && told.watch_id == watch_id, "{told:?}");
    }

    /// So many events of whatever watch, with the watch that each was for.
    async fn events(&mut self, count: usize) -> Vec<(i64, v1::Event)> {
        let mut events = Vec::new();
        while events.len() < count {
            let told = self.hear().await;
            assert!(!told.canceled, "{told:?}");
            let watch_id = told.watch_id;
            events.extend(told.events.into_iter().map(|event| (watch_id, event)));
        }
        events
    }
}

fn prefix(key: &str, watch_id: i64, start_revision: i64) -> v1::WatchRequest {
    let key = key.into();
    v1::WatchRequest { key, prefix: true, watch_id, start_revision, ..Default::default() }
}

async fn put(locks: &mut Locks, key: &str, value: &str) -> i64 {
    let (key, value) = (key.into(), value.to_owned().into());
    let told = locks.put(v1::PutRequest { key, value, ..Default::default() }).await;
    told.expect("it is written").into_inner().header.expect("it has one").revision
}

fn keys(events: &[(i64, v1::Event)]) -> Vec<&str> {
    events.iter().map(|(_, event)| &*event.kv.as_ref().expect("it has a key").key).collect()
}

// Requirements: S0-034, S0-053, S0-055, S0-058, S0-059, S0-115, S0-119, S0-122, S0-131, S4-036.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_tells_what_happens_and_a_second_one_what_has_happened() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut watch = Watch::open(&mut locks).await;
    watch.created(prefix("k", 7, 0)).await;
    let first = put(&mut locks, "k1", "v").await;
    put(&mut locks, "other", "").await;
    let delete = v1::DeleteRangeRequest { key: "k1".into(), ..Default::default() };
    locks.delete_range(delete).await.expect("it is there");
    let events = watch.events(2).await;
    assert_eq!(keys(&events), ["k1", "k1"]);
    assert_eq!(events[0].1.r#type(), Type::Put);
    assert_eq!((events[0].0, events[0].1.revision), (7, first));
    assert_eq!(&events[0].1.kv.as_ref().expect("it has one").value[..], b"v");
    assert_eq!((events[1].1.r#type(), events[1].1.prev_kv.is_some()), (Type::Delete, false));
    // From the past, with what stood there before; and without writes.
    watch.created(v1::WatchRequest { prev_kv: true, ..prefix("k", 8, first) }).await;
    let events = watch.events(2).await;
    assert!(events.iter().all(|(id, _)| *id == 8));
    assert_eq!(&events[1].1.prev_kv.as_ref().expect("it was asked for").value[..], b"v");
    watch.created(v1::WatchRequest { no_put: true, ..prefix("k", 9, first) }).await;
    assert_eq!(watch.events(1).await[0].1.r#type(), Type::Delete);
    watch.created(v1::WatchRequest { no_delete: true, ..prefix("k", 10, first) }).await;
    assert_eq!(watch.events(1).await[0].1.r#type(), Type::Put);
    // An id that is in use, one that is not, and the end of one.
    watch.say(prefix("k", 7, 0)).await;
    let told = watch.hear().await;
    assert!(told.canceled && told.cancel_reason.starts_with("watch_exists"), "{told:?}");
    for (watch_id, why) in [(99, "watch_unknown"), (7, "canceled by the client")] {
        watch.say(v1::WatchRequest { cancel: true, watch_id, ..Default::default() }).await;
        let told = watch.hear().await;
        assert!(told.canceled && told.watch_id == watch_id, "{told:?}");
        assert!(told.cancel_reason.starts_with(why), "{told:?}");
    }
    for watch_id in [8, 9, 10] {
        watch.say(v1::WatchRequest { cancel: true, watch_id, ..Default::default() }).await;
        assert_eq!(watch.hear().await.watch_id, watch_id);
    }
    put(&mut locks, "k2", "").await;
    drop(watch.sender);
    assert_eq!(soon(watch.answers.message()).await.expect("it ends well"), None);
}

// Requirements: S0-054, S0-056, S0-057, S0-119, S0-120.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_answer_has_header_id_events_and_oldest_revision() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let first = put(&mut locks, "k", "one").await;
    let second = put(&mut locks, "k", "two").await;
    let third = put(&mut locks, "k", "three").await;
    let member = world.cluster.nodes()[0].handle().status().id;
    for prev_kv in [false, true] {
        let mut watch = Watch::open(&mut locks).await;
        watch.created(v1::WatchRequest { prev_kv, ..prefix("k", 5, second) }).await;
        let told = watch.hear().await;
        let header = told.header.expect("every answer has one");
        assert_eq!((header.member_id, header.revision), (member, third));
        assert_eq!((told.watch_id, told.compact_revision, told.canceled), (5, 0, false));
        let events = told.events.iter().map(|event| {
            let prev = event.prev_kv.as_ref().map(|kv| kv.value.to_vec());
            (event.revision, prev)
        });
        let before = |value: &str| prev_kv.then(|| value.as_bytes().to_vec());
        assert_eq!(
            events.collect::<Vec<_>>(),
            [(second, before("one")), (third, before("two"))],
            "from {second} on, and not from {first}"
        );
    }
    compact(&world, third);
    let mut watch = Watch::open(&mut locks).await;
    watch.say(prefix("k", 6, first)).await;
    let told = watch.hear().await;
    assert_eq!((told.watch_id, told.compact_revision, told.canceled), (6, third, true));
    assert_eq!(told.header.expect("every answer has one").revision, third);
    // Only a refusal has the oldest revision.
    watch.created(prefix("k", 7, third)).await;
    let told = watch.hear().await;
    assert_eq!((told.watch_id, told.compact_revision, told.events.len()), (7, 0, 1));
}

/// Forgets everything that happened before this revision.
fn compact(world: &World, revision: i64) {
    let revision = Revision(revision.unsigned_abs());
    let mut bytes = Vec::new();
    encode_command(&Command::from(Action::Compact(Compact { revision })), &mut bytes);
    let handle = world.cluster.nodes()[0].handle();
    handle.propose_and_wait(Class::Ordinary, bytes).expect("it is done");
}

// Requirements: S2-015.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_was_broken_off_goes_on_without_a_gap() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut next = put(&mut locks, "k", "").await;
    let mut seen = Vec::new();
    for round in 0..5 {
        let mut watch = Watch::open(&mut locks).await;
        watch.created(prefix("k", 1, next)).await;
        for number in 0..20 {
            put(&mut locks, &format!("k{round}.{number}"), "").await;
        }
        let events = watch.events(10).await;
        next = events.last().expect("there are some").1.revision + 1;
        seen.extend(events.into_iter().map(|(_, event)| event.revision));
    }
    let expected: Vec<i64> = (seen[0]..seen[0] + 50).collect();
    assert_eq!(seen[..50], expected);
}

// Requirements: S0-120.
#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_gone_is_told_with_where_it_begins() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    for key in ["a", "b", "c"] {
        put(&mut locks, key, "").await;
    }
    compact(&world, 3);
    let mut watch = Watch::open(&mut locks).await;
    watch.say(prefix("", 1, 2)).await;
    let told = watch.hear().await;
    assert!(told.canceled && told.compact_revision == 3, "{told:?}");
    watch.created(prefix("", 1, 3)).await;
    assert_eq!(keys(&watch.events(2).await), ["b", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_can_be_watched() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut watch = Watch::open(&mut locks).await;
    watch.created(v1::WatchRequest { lock_events: true, ..prefix("a/", 1, 0) }).await;
    let one = lease(&mut locks, "one").await;
    let token = acquired(&mut locks, "a", one).await;
    assert!(unlock(&mut locks, "a", one, token).await);
    let events = watch.events(3).await;
    let kinds: Vec<Type> = events.iter().map(|(_, event)| event.r#type()).collect();
    assert_eq!(kinds, [Type::Put, Type::Granted, Type::Delete]);
    assert_eq!((events[1].1.fencing_token, &*events[1].1.client_id), (token, "one"));
    assert_eq!(events[2].1.cause, "released");
}

// Requirements: S0-052, S0-119.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_watches_each_hear_their_own() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut watch = Watch::open(&mut locks).await;
    for number in 0..1_000 {
        let key = format!("k{}", number % 100);
        let one = v1::WatchRequest { key, watch_id: number, ..Default::default() };
        watch.say(one).await;
    }
    for _ in 0..1_000 {
        assert!(watch.hear().await.created);
    }
    for number in 0..100 {
        put(&mut locks, &format!("k{number}"), "").await;
    }
    let mut events = watch.events(1_000).await;
    events.sort_by_key(|(id, _)| *id);
    for (number, (id, event)) in events.iter().enumerate() {
        assert_eq!(*id, number as i64);
        let key = &event.kv.as_ref().expect("it has one").key;
        assert_eq!(*key, format!("k{}", number % 100));
    }
}

// Requirements: S2-015.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_too_slow_is_cut_off_and_others_are_not() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut slow = Watch::open(&mut world.locks(0).await).await;
    slow.created(prefix("k", 1, 0)).await;
    let mut fast = Watch::open(&mut world.locks(0).await).await;
    fast.created(prefix("k", 1, 0)).await;
    // More than the windows of a connection and the buffer of a watch hold together.
    let large = "x".repeat(512 << 10);
    let mut last = 0;
    for number in 0..40 {
        last = put(&mut locks, &format!("k{number}"), &large).await;
        assert_eq!(fast.events(1).await[0].1.revision, last);
    }
    let mut next = last - 39;
    let resume = loop {
        let told = slow.hear().await;
        if told.canceled {
            break told.resume_revision;
        }
        for event in told.events {
            assert_eq!(event.revision, next);
            next += 1;
        }
    };
    assert_eq!(resume, next, "it can go on without a gap");
    slow.created(prefix("k", 1, resume)).await;
    while next <= last {
        for (_, event) in slow.events(1).await {
            assert_eq!(event.revision, next);
            next += 1;
        }
    }
}

// Requirements: S0-122.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_watches_too() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut talk = Talk::open(&mut locks, "c").await;
    talk.say(5, None, Request::Watch(prefix("k", 1, 0))).await;
    let heard = talk.hear().await;
    assert!(matches!(heard.response, Some(Response::Watch(told)) if told.created));
    put(&mut locks, "k1", "").await;
    let heard = talk.hear().await;
    assert_eq!(heard.request_id, 5);
    let Some(Response::Watch(told)) = heard.response else { panic!() };
    assert_eq!(told.events[0].kv.as_ref().expect("it has one").key, "k1");
    let cancel = v1::WatchRequest { cancel: true, watch_id: 1, ..Default::default() };
    talk.say(6, None, Request::Watch(cancel)).await;
    for request_id in [5, 6] {
        let heard = talk.hear().await;
        assert_eq!(heard.request_id, request_id);
        assert!(matches!(heard.response, Some(Response::Watch(told)) if told.canceled));
    }
}

// Requirements: S1-081.
#[tokio::test(flavor = "multi_thread")]
async fn every_member_tells_the_same() {
    let world = world(3).await;
    let mut watches = Vec::new();
    for place in 0..3 {
        let mut watch = Watch::open(&mut world.locks(place).await).await;
        watch.created(prefix("k", 1, 1)).await;
        watches.push(watch);
    }
    let mut locks = world.locks(0).await;
    for number in 0..50 {
        put(&mut locks, &format!("k{number}"), "").await;
    }
    let mut all = Vec::new();
    for watch in &mut watches {
        all.push(watch.events(50).await);
    }
    assert_eq!(all[0], all[1]);
    assert_eq!(all[1], all[2]);
}
