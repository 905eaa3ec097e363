//! A rolling restart under load: every server is told to end and started again, one by one, while
//! clients go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use fencepost_client::{Client, Error};
use rustix::process::Signal;
use tokio::task::JoinSet;

use crate::cluster::Cluster;

const WORKERS: usize = 4;
/// Holdings that must come to pass between two restarts.
const HOLDINGS: u64 = 50;

/// What the workers have seen together.
#[derive(Default)]
struct Seen {
    inside: AtomicBool,
    token: AtomicI64,
    holdings: AtomicU64,
    is_over: AtomicBool,
}

async fn client(endpoints: &str, name: &str) -> Client {
    let builder = Client::builder().endpoints(endpoints.split(',')).name(name);
    let builder = builder.request_timeout(Duration::from_secs(30));
    builder.connect().await.expect("the cluster answers")
}

/// Takes and gives back one lock, until told to stop.
async fn work(client: Client, seen: Arc<Seen>) {
    while !seen.is_over.load(Ordering::SeqCst) {
        let asked =
            client.lock("shared").ttl(Duration::from_secs(30)).wait(Duration::from_secs(60));
        let guard = match asked.acquire().await {
            Ok(guard) => guard,
            // Said honestly, and it ends with its lease.
            Err(Error::Indeterminate { .. }) => continue,
            Err(why) => panic!("a restart must not be noticed: {why}"),
        };
        assert!(!seen.inside.swap(true, Ordering::SeqCst), "two hold the lock");
        let token = guard.token().get();
        let before = seen.token.swap(token, Ordering::SeqCst);
        assert!(before < token, "token {token} after {before}");
        tokio::task::yield_now().await;
        assert!(guard.is_valid(), "it was lost: {:?}", guard.loss());
        seen.inside.store(false, Ordering::SeqCst);
        seen.holdings.fetch_add(1, Ordering::SeqCst);
        // Not knowing whether it was given back is fine: the guard goes on trying.
        drop(guard.release().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_loses_no_lock() {
    let mut cluster = Cluster::form();
    let endpoints = cluster.endpoints();
    let holder = client(&endpoints, "holder").await;
    let held = holder.lock("held").ttl(Duration::from_secs(30)).acquire().await;
    let held = held.expect("it is free");
    let seen = Arc::new(Seen::default());
    let mut workers = JoinSet::new();
    for number in 0..WORKERS {
        let client = client(&endpoints, &format!("worker-{number}")).await;
        workers.spawn(work(client, Arc::clone(&seen)));
    }
    for place in 0..3 {
        progress(&seen, &mut workers).await;
        let mut server = cluster.servers[place].take().expect("it runs");
        let status = tokio::task::spawn_blocking(move || server.process.end(Signal::TERM)).await;
        assert_eq!(status.expect("it is waited for").code(), Some(0));
        progress(&seen, &mut workers).await;
        tokio::task::block_in_place(|| cluster.start(place));
        assert!(held.is_valid(), "it was lost: {:?}", held.loss());
    }
    progress(&seen, &mut workers).await;
    seen.is_over.store(true, Ordering::SeqCst);
    while let Some(done) = workers.join_next().await {
        done.expect("no worker has found anything wrong");
    }
    assert!(held.is_valid(), "it was lost: {:?}", held.loss());
    held.release().await.expect("it is held");
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
    let waited = tokio::time::timeout(crate::support::PATIENCE, reached).await;
    waited.expect("the cluster goes on serving");
}
