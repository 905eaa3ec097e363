//! The SDK against real servers whose leader is killed.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fencepost_client::{Client, Error, Released};
use serde_json::Value;
use tokio::task::{JoinSet, block_in_place};

use crate::cluster::Cluster;
use crate::support::{PATIENCE, Server, page, until};

const TTL: Duration = Duration::from_secs(30);
const WORKERS: usize = 4;
/// Holdings that must come to pass between two faults.
const HOLDINGS: u64 = 25;

async fn client(cluster: &Cluster, name: &str) -> Client {
    let endpoints = cluster.endpoints();
    let builder = Client::builder().endpoints(endpoints.split(',')).name(name);
    let builder = builder.request_timeout(Duration::from_secs(30));
    builder.connect().await.expect("the cluster answers")
}

/// Waits until a member carries so many sessions.
fn until_sessions(server: &Server, count: u64) {
    let address = server.endpoint.trim_start_matches("http://");
    let wanted = format!("fencepost_door_sessions {count}");
    until(|| {
        let metrics = page(address, "/metrics");
        if metrics.lines().any(|line| line == wanted) { Ok(()) } else { Err(metrics) }
    });
}

/// The one who waits for the lock: its lease, and when it joined the queue.
fn place(cluster: &Cluster) -> (Value, Value) {
    until(|| {
        let shown = cluster.json(&["show", "a"]);
        match &shown["waiters"][0] {
            Value::Null => Err(shown),
            waiter => Ok((waiter["lease"].clone(), waiter["create_revision"].clone())),
        }
    })
}

// Requirements: S1-070, S4-033.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_survives_a_killed_leader() {
    let mut cluster = Cluster::form();
    let (holder, waiter) = (client(&cluster, "holder").await, client(&cluster, "waiter").await);
    let guard = holder.lock("a").ttl(TTL).acquire().await.expect("it is free");
    let waits = tokio::spawn(waiter.lock("a").ttl(TTL).wait(PATIENCE).acquire());
    block_in_place(|| {
        let before = place(&cluster);
        let leader = cluster.leader();
        // Both have found the leader, so both lose their connection with it.
        until_sessions(cluster.at(leader), 2);
        cluster.kill(leader);
        // Those who are left name the dead one for a while.
        let next = until(|| match cluster.leader() {
            next if next != leader => Ok(next),
            dead => Err(dead),
        });
        until_sessions(cluster.at(next), 2);
        assert_eq!(place(&cluster), before, "it keeps its place");
    });
    assert!(!waits.is_finished() && guard.is_valid());
    let first = guard.token();
    assert_eq!(guard.release().await, Ok(Released::InTime));
    let guard = tokio::time::timeout(PATIENCE, waits).await.expect("its turn comes");
    let guard = guard.expect("it does not panic").expect("its turn comes");
    assert!(guard.is_valid() && guard.token() > first);
}

/// What the workers have seen together.
#[derive(Default)]
struct Seen {
    inside: AtomicBool,
    token: AtomicI64,
    holdings: AtomicU64,
    is_over: AtomicBool,
    /// The newest write that was acknowledged to a holder.
    written: Mutex<Option<String>>,
}

impl Seen {
    fn written(&self) -> Option<String> {
        self.written.lock().expect("no one panics with it").clone()
    }

    fn note(&self, key: String) {
        *self.written.lock().expect("no one panics with it") = Some(key);
    }
}

/// Takes and gives back one lock until told to stop. Inside it looks for what the holder before has
/// written, and writes something itself.
async fn work(client: Client, seen: Arc<Seen>) {
    while !seen.is_over.load(Ordering::SeqCst) {
        let guard = match client.lock("shared").ttl(TTL).wait(2 * PATIENCE).acquire().await {
            Ok(guard) => guard,
            // Whether it was granted is not known. If it was, it ends with its lease.
            Err(Error::Indeterminate { .. }) => continue,
            Err(why) => panic!("the cluster goes on: {why}"),
        };
        assert!(!seen.inside.swap(true, Ordering::SeqCst), "two hold the lock");
        let token = guard.token().get();
        let before = seen.token.swap(token, Ordering::SeqCst);
        assert!(before < token, "token {token} after {before}");
        if let Some(key) = seen.written() {
            let found = loop {
                // A read may be asked for once more.
                if let Ok(found) = client.kv().get(&key).await {
                    break found;
                }
            };
            assert!(found.is_some(), "{key} was acknowledged, and holder {token} does not see it");
        }
        let key = format!("done/{token}");
        if client.kv().put(&key, "1").await.is_ok() {
            seen.note(key);
        }
        assert!(guard.is_valid(), "it was lost: {:?}", guard.loss());
        seen.inside.store(false, Ordering::SeqCst);
        seen.holdings.fetch_add(1, Ordering::SeqCst);
        // If its answer is lost, it is sent again.
        drop(guard.release().await);
    }
}

/// Waits until some more holdings have come to pass.
async fn progress(seen: &Seen, workers: &mut JoinSet<()>) {
    let goal = seen.holdings.load(Ordering::SeqCst) + HOLDINGS;
    let reached = async {
        while seen.holdings.load(Ordering::SeqCst) < goal {
            if let Some(done) = workers.try_join_next() {
                done.expect("no worker has found anything wrong");
            }
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, reached).await;
    waited.expect("the cluster goes on serving");
}

// Requirements: S2-024, S4-033.
#[tokio::test(flavor = "multi_thread")]
async fn clients_exclude_each_other_while_leaders_are_killed() {
    let mut cluster = Cluster::form();
    let seen = Arc::new(Seen::default());
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let client = client(&cluster, &format!("worker-{number}")).await;
        workers.spawn(work(client, Arc::clone(&seen)));
    }
    for _ in 0..3 {
        progress(&seen, &mut workers).await;
        let killed = block_in_place(|| {
            let leader = cluster.leader();
            cluster.kill(leader);
            leader
        });
        progress(&seen, &mut workers).await;
        block_in_place(|| cluster.start(killed));
    }
    progress(&seen, &mut workers).await;
    seen.is_over.store(true, Ordering::SeqCst);
    while let Some(done) = workers.join_next().await {
        done.expect("no worker has found anything wrong");
    }
    assert!(seen.written().is_some(), "nothing was ever written");
}
