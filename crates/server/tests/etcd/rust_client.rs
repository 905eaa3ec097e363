//! The Rust client of etcd, as people have it in their programs, and the recipe of a mutex that
//! other clients run by themselves: a transaction, a range, a watch.

use etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, LockOptions, ProclaimOptions, PutOptions,
    ResignOptions, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse, WatchOptions,
};

use crate::support::{World, acquired, get_lock, lease, soon, unlock, until_waiters, world};

async fn client(world: &World, places: &[usize]) -> Client {
    let endpoints = places.iter().map(|place| format!("{}", world.servers[*place].address()));
    let endpoints: Vec<String> = endpoints.collect();
    Client::connect(endpoints, None).await.expect("it connects")
}

async fn etcd_lease(client: &mut Client) -> i64 {
    client.lease_grant(60, None).await.expect("it is granted").id()
}

#[tokio::test(flavor = "multi_thread")]
async fn its_locks_and_native_ones_are_the_same() {
    let world = world(1).await;
    let mut etcd = client(&world, &[0]).await;
    let theirs = etcd_lease(&mut etcd).await;
    let options = move || Some(LockOptions::new().with_lease(theirs));
    let held = etcd.lock("m", options()).await.expect("it is free");
    assert_eq!(held.key(), format!("m/{theirs:x}").as_bytes());
    let mut native = world.locks(0).await;
    let mine = lease(&mut native, "native").await;
    let mut waits = world.locks(0).await;
    let waiting = tokio::spawn(async move { acquired(&mut waits, "m", mine).await });
    let lock = until_waiters(&mut native, "m", 1).await;
    assert_eq!(lock.holders[0].lease_id, theirs);
    etcd.unlock(held.key()).await.expect("it is held");
    let token = soon(waiting).await.expect("it is granted");
    assert!(token > lock.holders[0].fencing_token);
    let mut again = etcd.clone();
    let waiting = tokio::spawn(async move { again.lock("m", options()).await });
    until_waiters(&mut native, "m", 1).await;
    assert!(unlock(&mut native, "m", mine, token).await);
    soon(waiting).await.expect("it goes on").expect("it is granted");
    assert_eq!(get_lock(&mut native, "m").await.holders[0].lease_id, theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_leases_live_as_long_as_they_are_kept() {
    let world = world(1).await;
    let mut etcd = client(&world, &[0]).await;
    let id = etcd_lease(&mut etcd).await;
    let (mut keeper, mut answers) = etcd.lease_keep_alive(id).await.expect("it lives");
    for _ in 0..3 {
        keeper.keep_alive().await.expect("the stream is open");
        let kept = answers.message().await.expect("the stream is open").expect("it is answered");
        assert_eq!((kept.id(), kept.ttl()), (id, 60));
    }
    etcd.put("k", "v", Some(PutOptions::new().with_lease(id))).await.expect("the lease lives");
    let mine = etcd.leases().await.expect("it lists them");
    assert!(mine.leases().iter().any(|lease| lease.id() == id));
    etcd.lease_revoke(id).await.expect("it lives");
    assert!(etcd.get("k", None).await.expect("it reads").kvs().is_empty());
    assert!(etcd.lease_keep_alive(id).await.is_err(), "it is gone");
    assert_eq!(etcd.lease_time_to_live(id, None).await.expect("it answers").ttl(), -1);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_watches_see_every_event_once() {
    let world = world(1).await;
    let mut etcd = client(&world, &[0]).await;
    let put = etcd.put("w/0", "0", None).await.expect("it writes");
    let from = put.header().expect("it has one").revision();
    for number in 1..50 {
        etcd.put(format!("w/{number}"), "x", None).await.expect("it writes");
    }
    let options = WatchOptions::new().with_prefix().with_start_revision(from);
    let mut events = etcd.watch("w/", Some(options)).await.expect("it watches");
    let created = soon(events.message()).await.expect("it goes on").expect("it goes on");
    assert!(created.created());
    let watch_id = created.watch_id();
    etcd.delete("w/0", None).await.expect("it deletes");
    let mut seen = Vec::new();
    while seen.len() < 51 {
        let told = soon(events.message()).await.expect("it goes on").expect("it goes on");
        for event in told.events() {
            let kv = event.kv().expect("it has one");
            seen.push((kv.mod_revision(), event.event_type() == EventType::Delete));
        }
    }
    let expected: Vec<_> = (from..from + 51).map(|at| (at, at == from + 50)).collect();
    assert_eq!(seen, expected);
    events.cancel(watch_id).await.expect("the stream is open");
}

// Requirements: S2-023.
#[tokio::test(flavor = "multi_thread")]
async fn its_transactions_compare_and_choose() {
    let world = world(1).await;
    let mut etcd = client(&world, &[0]).await;
    let create = || {
        Txn::new()
            .when([Compare::create_revision("t", CompareOp::Equal, 0)])
            .and_then([TxnOp::put("t", "1", None), TxnOp::get("t", None)])
            .or_else([TxnOp::get("t", None)])
    };
    let first = etcd.txn(create()).await.expect("it is done");
    assert!(first.succeeded());
    let second = etcd.txn(create()).await.expect("it is done");
    assert!(!second.succeeded());
    let Some(TxnOpResponse::Get(found)) = second.op_responses().pop() else { panic!() };
    let revision = first.header().expect("it has one").revision();
    assert_eq!(found.kvs()[0].create_revision(), revision);
    assert_eq!(second.header().expect("it has one").revision(), revision);
}

#[tokio::test(flavor = "multi_thread")]
async fn its_elections_pass_on() {
    let world = world(1).await;
    let mut etcd = client(&world, &[0]).await;
    let (one, two) = (etcd_lease(&mut etcd).await, etcd_lease(&mut etcd).await);
    let led = etcd.campaign("e", "one", one).await.expect("it leads");
    let leader = led.leader().expect("it leads").clone();
    let mut other = etcd.clone();
    let next = tokio::spawn(async move { other.campaign("e", "two", two).await });
    until_waiters(&mut world.locks(0).await, "e", 1).await;
    let words = ProclaimOptions::new().with_leader(leader.clone());
    etcd.proclaim("still one", Some(words)).await.expect("it leads");
    let mut observed = etcd.observe("e").await.expect("it observes");
    let told = soon(observed.message()).await.expect("it goes on").expect("it goes on");
    assert_eq!(told.kv().expect("somebody leads").value(), b"still one");
    etcd.resign(Some(ResignOptions::new().with_leader(leader))).await.expect("it led");
    soon(next).await.expect("it goes on").expect("it leads");
    let told = soon(observed.message()).await.expect("it goes on").expect("it goes on");
    assert_eq!(told.kv().expect("somebody leads").value(), b"two");
    assert_eq!(etcd.leader("e").await.expect("it leads").kv().expect("it").value(), b"two");
}

/// The recipe of a mutex, step by step as clients in other languages do it. Every step can be
/// repeated, and is when the server that was asked is gone.
struct Recipe {
    etcd: Client,
    name: &'static str,
    key: String,
    lease: i64,
}

impl Recipe {
    async fn new(mut etcd: Client, name: &'static str) -> Recipe {
        let lease = etcd_lease(&mut etcd).await;
        Recipe { etcd, name, key: format!("{name}/{lease:x}"), lease }
    }

    /// Its place in the queue: made once, however often it is asked for.
    async fn enter(&mut self) -> i64 {
        let put = TxnOp::put(&*self.key, "", Some(PutOptions::new().with_lease(self.lease)));
        let txn = Txn::new()
            .when([Compare::create_revision(&*self.key, CompareOp::Equal, 0)])
            .and_then([put])
            .or_else([TxnOp::get(&*self.key, None)]);
        loop {
            let Ok(done) = self.etcd.txn(txn.clone()).await else { continue };
            match done.op_responses().pop() {
                Some(TxnOpResponse::Get(found)) => return found.kvs()[0].create_revision(),
                _ => return done.header().expect("it has one").revision(),
            }
        }
    }

    /// Waits until nobody stands before its place.
    async fn wait(&mut self, place: i64) {
        loop {
            let before = GetOptions::new()
                .with_prefix()
                .with_max_create_revision(place - 1)
                .with_sort(SortTarget::Create, SortOrder::Descend)
                .with_limit(1);
            let queue = format!("{}/", self.name);
            let Ok(found) = self.etcd.get(queue, Some(before)).await else { continue };
            let Some(next) = found.kvs().first() else { return };
            let from = found.header().expect("it has one").revision() + 1;
            self.gone(next.key().to_vec(), from).await;
        }
    }

    /// Waits until a key is deleted, or the server is gone, after which one has to look again.
    async fn gone(&mut self, key: Vec<u8>, from: i64) {
        let options = WatchOptions::new().with_start_revision(from);
        let Ok(mut events) = self.etcd.watch(key, Some(options)).await else { return };
        while let Ok(Some(told)) = events.message().await {
            if told.events().iter().any(|event| event.event_type() == EventType::Delete) {
                return;
            }
        }
    }

    async fn leave(&mut self) {
        while self.etcd.delete(&*self.key, None).await.is_err() {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recipe_keeps_its_order_although_the_leader_is_killed() {
    const CLIENTS: usize = 8;
    let mut world = world(3).await;
    let leader = world.leader();
    let left = [(leader + 1) % 3, (leader + 2) % 3];
    let mut holder = Recipe::new(client(&world, &left).await, "g").await;
    let place = holder.enter().await;
    soon(holder.wait(place)).await;
    let (sender, mut held) = tokio::sync::mpsc::channel(CLIENTS);
    let mut expected = Vec::new();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        let mut recipe = Recipe::new(client(&world, &[left[number % 2]]).await, "g").await;
        let place = recipe.enter().await;
        expected.push(place);
        let sender = sender.clone();
        clients.spawn(async move {
            recipe.wait(place).await;
            sender.send(place).await.expect("it is awaited");
            recipe.leave().await;
        });
    }
    until_waiters(&mut world.locks(left[0]).await, "g", CLIENTS as u64).await;
    let killed = world.cluster.take(leader);
    killed.kill();
    soon(holder.leave()).await;
    let mut order = Vec::new();
    while order.len() < CLIENTS {
        order.push(soon(held.recv()).await.expect("they are granted"));
    }
    assert_eq!(order, expected);
    // The last one leaves as well, while there is somebody to tell.
    soon(clients.join_all()).await;
}
