//! The same without a runtime.

use std::time::Duration;

use fencepost_client::{Client, Error, Released, blocking};

use crate::support::grpc::Server;

fn client(server: &Server, name: &str) -> blocking::Client {
    let builder = Client::builder().endpoint(server.endpoint()).name(name);
    blocking::Client::connect(builder).expect("the server is there")
}

#[test]
fn everything_works_without_a_runtime() {
    let server = Server::start();
    let (one, two) = (client(&server, "one"), client(&server, "two"));
    let guard = one.lock("a").ttl(Duration::from_secs(5)).acquire().expect("it is free");
    assert!(guard.is_valid());
    let denied = two.lock("a").try_once().acquire().expect_err("it is held");
    assert!(matches!(denied, Error::Denied { .. }));
    let first = guard.token();
    assert_eq!(guard.release(), Ok(Released::InTime));
    let both = two.locks(["a", "b"]).shared().acquire().expect("both are free");
    assert!(both.token() > first);
    drop(both);

    let lease = one.lease(Duration::from_secs(5)).grant().expect("the server grants");
    one.kv().put_leased("k", "v", &lease).expect("the server answers");
    assert_eq!(one.kv().get("k").expect("the server answers").expect("it is there").value, "v");
    assert_eq!(lease.revoke(), Ok(1));
    assert_eq!(one.status().expect("the server answers").leases, 0);
    one.close();
}

#[test]
fn events_and_leaders_come_one_by_one() {
    let server = Server::start();
    let client = client(&server, "watcher");
    let mut watch = client.watch_prefix("k/");
    watch.started().expect("it begins");
    client.kv().put("k/1", "a").expect("the server answers");
    let event = watch.next().expect("it goes on").expect("an event");
    assert_eq!(event.kv.expect("a key").value, "a");

    let mut observer = client.election("primary").observe();
    let leadership = client.election("primary").campaign("me").expect("nobody leads");
    let seen = observer.next().expect("it goes on").expect("a leader");
    assert_eq!(seen.token, leadership.token());
    leadership.proclaim("still me").expect("it leads");
    assert_eq!(observer.next().expect("it goes on").expect("a leader").value, "still me");
    assert_eq!(leadership.resign(), Ok(Released::InTime));
}

#[test]
fn a_thread_waits_for_the_loss() {
    let server = Server::start();
    let client = client(&server, "robbed");
    let guard = client.lock("a").acquire().expect("it is free");
    server.with(|store| store.delete_key_of("a"));
    assert!(matches!(guard.wait_lost(), fencepost_client::Loss::Taken { .. }));
    assert!(!guard.is_valid());
}
