//! Watches, over connections that break.

use fencepost_client::Error;
use fencepost_client::proto::event::Type;

use crate::client;
use crate::support::grpc::Server;

// Requirements: S2-015.
#[tokio::test]
async fn a_watch_goes_on_where_it_was_after_a_break() {
    let server = Server::start();
    let client = client(&server, "watcher").await;
    let mut watch = client.watch_prefix("k/");
    let from = watch.started().await.expect("it begins");
    client.kv().put("k/1", "a").await.expect("the server answers");
    let first = watch.next().await.expect("it goes on").expect("an event");
    assert_eq!(first.revision, from + 1);
    server.break_streams();
    // Written while nobody watches.
    server.with(|store| {
        for value in ["b", "c"] {
            store.revision += 1;
            store.write_key("k/1", value.into(), 0);
        }
    });
    for expected in ["b", "c"] {
        let event = watch.next().await.expect("it goes on").expect("an event");
        assert_eq!(event.kv.expect("a key").value, expected);
    }
    client.kv().delete("k/1").await.expect("the server answers");
    let event = watch.next().await.expect("it goes on").expect("an event");
    assert_eq!(event.r#type(), Type::Delete);
    assert_eq!(event.prev_kv.expect("what it was").value, "c");
}

#[tokio::test]
async fn history_that_is_gone_is_said() {
    let server = Server::start();
    let client = client(&server, "late").await;
    for value in ["a", "b", "c"] {
        client.kv().put("k", value).await.expect("the server answers");
    }
    let mut whole = client.watch("k").from(2);
    let seen = whole.next().await.expect("it goes on").expect("an event");
    assert_eq!(seen.kv.expect("a key").value, "a");
    server.with(|store| store.compact(4));
    let mut late = client.watch("k").from(2);
    let error = late.next().await.expect("it says why").expect_err("it is gone");
    assert_eq!(error, Error::Compacted { revision: 4 });
    assert!(late.next().await.is_none());
}

#[tokio::test]
async fn a_slow_reader_misses_nothing() {
    const EVENTS: usize = 10_000;
    let server = Server::start();
    let client = client(&server, "slow").await;
    let mut watch = client.watch("k");
    watch.started().await.expect("it begins");
    for batch in 0..EVENTS / 100 {
        server.with(|store| {
            for number in 0..100 {
                store.revision += 1;
                store.write_key("k", format!("{}", batch * 100 + number).into(), 0);
            }
        });
        // A question and its answer: what was written before has passed through the client.
        client.kv().get("k").await.expect("the server answers");
    }
    for expected in 0..EVENTS {
        let event = watch.next().await.expect("it goes on").expect("an event");
        assert_eq!(event.kv.expect("a key").value, expected.to_string());
    }
}

#[tokio::test]
async fn grants_are_told_to_those_who_ask_for_them() {
    let server = Server::start();
    let client = client(&server, "curious").await;
    let mut watch = client.watch_prefix("job/").lock_events();
    watch.started().await.expect("it begins");
    let guard = client.lock("job").acquire().await.expect("it is free");
    let entered = watch.next().await.expect("it goes on").expect("an event");
    assert_eq!(entered.r#type(), Type::Put);
    let granted = watch.next().await.expect("it goes on").expect("an event");
    assert_eq!(granted.r#type(), Type::Granted);
    assert_eq!(granted.fencing_token, guard.token().get());
}
