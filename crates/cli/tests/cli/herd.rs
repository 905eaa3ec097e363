//! A hundred clients at one lock: they come to hold it in their order, and each release wakes one.

use std::time::Duration;

use fencepost_client::{Client, Guard, Watch, proto};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::support::PATIENCE;

const CLIENTS: u64 = 100;

async fn client(endpoints: &str, name: &str) -> Client {
    let builder = Client::builder().endpoints(endpoints.split(',')).name(name);
    builder.connect().await.expect("the cluster answers")
}

// Requirements: S2-003, S2-007, S2-012.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_clients_hold_one_lock_in_their_order() {
    let cluster = Cluster::form();
    let endpoints = cluster.endpoints();
    let asking = client(&endpoints, "asking").await;
    let mut waiting: Vec<JoinHandle<(Client, Guard)>> = Vec::new();
    for number in 0..CLIENTS {
        let client = client(&endpoints, &format!("c{number}")).await;
        waiting.push(tokio::spawn(async move {
            let lock = client.lock("herd").ttl(Duration::from_secs(60)).wait(PATIENCE);
            let guard = lock.acquire().await.expect("its turn comes");
            (client, guard)
        }));
        // The next one comes when this one stands in the queue.
        loop {
            let lock = asking.get_lock("herd").await.expect("it is answered");
            if lock.holders.len() as u64 + lock.waiters_total == number + 1 {
                break;
            }
        }
    }
    let mut watch = asking.watch_prefix("herd/").lock_events();
    watch.started().await.expect("it begins");
    let mut last = 0;
    for (number, waiter) in waiting.into_iter().enumerate() {
        let (client, guard) = waiter.await.expect("its turn comes");
        assert!(client.name().starts_with(&format!("c{number}-")), "{}", client.name());
        assert!(guard.token().get() > last);
        last = guard.token().get();
        guard.release().await.expect("it is held");
        let granted = granted_by_release(&mut watch, number as u64 + 1 < CLIENTS).await;
        let next = format!("c{}-", number + 1);
        assert!(granted.iter().all(|name| name.starts_with(&next)), "{granted:?}");
        assert!(granted.len() <= 1, "one release wakes one: {granted:?}");
    }
    let lock = asking.get_lock("herd").await.expect("it is answered");
    assert!(lock.holders.is_empty() && lock.waiters_total == 0, "{lock:?}");
}

/// What one release has caused: the key goes, and with it somebody is granted, if anybody waits.
/// Everything that a step causes stands at one revision, so the next event that is of another one
/// ends it; here, where nothing else happens, the grant itself is the last.
async fn granted_by_release(watch: &mut Watch, is_awaited: bool) -> Vec<String> {
    use proto::event::Type;
    let mut granted = Vec::new();
    let mut is_gone = false;
    while !is_gone || (is_awaited && granted.is_empty()) {
        let event = watch.next().await.expect("it goes on").expect("it goes on");
        match Type::try_from(event.r#type).expect("it is known") {
            Type::Delete => {
                assert_eq!(event.cause, "released");
                assert!(!is_gone, "one release ends one holding");
                is_gone = true;
            }
            Type::Granted => granted.push(event.client_id),
            other => panic!("{other:?} while nothing but releases happens"),
        }
    }
    granted
}
