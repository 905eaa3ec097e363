//! A call that waits is bound to its request.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::client::{Answer, Http};
use crate::port::get;
use crate::support::{World, soon, until_waiters, world};

fn asked(who: &str, wait_ms: u64) -> Value {
    json!({"name": "a", "client_id": who, "ttl_ms": 60_000, "wait_ms": wait_ms})
}

/// Asks, and waits for the answer beside the test.
async fn waits(world: &World, place: usize, asked: Value) -> JoinHandle<Answer> {
    let mut http = Http::to(&world.servers[place]).await;
    http.ask("/v1/locks/acquire", &asked).await;
    tokio::spawn(async move { http.answer().await })
}

/// Asks until so many calls wait at the first member.
async fn until_pending(world: &World, count: usize) {
    let line = format!("fencepost_door_pending {count}");
    soon(async {
        loop {
            let (_, text) = get(&world.servers[0], "/metrics").await;
            if text.lines().any(|one| one == line) {
                return;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_and_leases_wait_in_the_order_in_which_they_came() {
    let world = world(3).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    http.post("/v1/leases/grant", &json!({"ttl_ms": 60_000, "lease": "9", "client_id": "leased"}))
        .await
        .ok();
    let mut token = http.post("/v1/locks/acquire", &asked("first", 0)).await.ok()["token"].clone();
    let leased = json!({"name": "a", "lease": "9", "wait_ms": 60_000});
    // Each of them at another member, whoever leads.
    let mut waiting = Vec::new();
    for (place, asked) in
        [asked("second", 60_000), leased, asked("fourth", 60_000)].into_iter().enumerate()
    {
        waiting.push(waits(&world, place, asked).await);
        until_waiters(&mut locks, "a", place as u64 + 1).await;
    }
    let shown = http.get("/v1/locks/show?name=a").await.ok();
    let waiters = shown["waiters"].as_array().expect("it is a list");
    let queue: Vec<_> = waiters.iter().map(|one| (&one["position"], &one["client"])).collect();
    let expected =
        [(json!(1), json!("second")), (json!(2), json!("leased")), (json!(3), json!("fourth"))];
    assert!(queue.iter().copied().eq(expected.iter().map(|(one, other)| (one, other))), "{shown}");

    let one = http.get("/v1/locks/show?name=a&lease=9").await.ok();
    assert_eq!((&one["waiters"][0]["position"], &one["holders"]), (&json!(2), &json!([])), "{one}");

    let mut release = json!({"name": "a", "client_id": "first"});
    for (waiting, next) in waiting.into_iter().zip(["second", "leased", "fourth"]) {
        assert_eq!(http.post("/v1/locks/release", &release).await.ok()["released"], true);
        let held = waiting.await.expect("it is answered").ok();
        assert!(held["token"].as_i64() > token.as_i64(), "{held}");
        token = held["token"].clone();
        release = match next {
            "leased" => json!({"name": "a", "lease": "9", "token": token}),
            owner => json!({"name": "a", "client_id": owner}),
        };
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_hangs_up_gives_up_its_place() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    http.post("/v1/leases/grant", &json!({"ttl_ms": 60_000, "lease": "9"})).await.ok();
    http.post("/v1/locks/acquire", &asked("holder", 0)).await.ok();
    let leased = json!({"name": "a", "lease": "9", "wait_ms": 60_000});
    for leaving in [asked("leaving", 60_000), leased] {
        let mut gone = Http::to(&world.servers[0]).await;
        gone.ask("/v1/locks/acquire", &leaving).await;
        until_waiters(&mut locks, "a", 1).await;
        drop(gone);
        until_waiters(&mut locks, "a", 0).await;
    }
    // Nobody is granted in their place.
    http.post("/v1/locks/release", &json!({"name": "a", "client_id": "holder"})).await.ok();
    assert_eq!(http.get("/v1/locks/show?name=a").await.ok()["holders"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_over_leaves_nothing_behind() {
    let world = world(3).await;
    let mut locks = world.locks(0).await;
    let mut http = Http::to(&world.servers[0]).await;
    http.post("/v1/locks/acquire", &asked("holder", 0)).await.ok();
    for place in 0..3 {
        let told = waits(&world, place, asked("patient", 50)).await.await.expect("it is answered");
        let problem = told.problem(409, "lock_held");
        assert_eq!(problem["holder"], "holder");
        assert_eq!(until_waiters(&mut locks, "a", 0).await.holders.len(), 1);
    }
    let all = http.get("/v1/leases").await.ok();
    assert_eq!(all["leases"].as_array().map(Vec::len), Some(1), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_requests_of_one_owner_wait_on_one_place() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    http.post("/v1/locks/acquire", &asked("holder", 0)).await.ok();
    let mut gone = Http::to(&world.servers[0]).await;
    gone.ask("/v1/locks/acquire", &asked("twin", 60_000)).await;
    until_waiters(&mut locks, "a", 1).await;
    let stays = waits(&world, 0, asked("twin", 60_000)).await;
    until_pending(&world, 2).await;
    let other = waits(&world, 0, asked("other", 60_000)).await;
    until_waiters(&mut locks, "a", 2).await;
    drop(gone);
    until_pending(&world, 2).await;
    http.post("/v1/locks/release", &json!({"name": "a", "client_id": "holder"})).await.ok();
    let held = stays.await.expect("it is answered").ok();
    assert!(held["token"].is_u64(), "{held}");
    http.post("/v1/locks/release", &json!({"name": "a", "client_id": "twin"})).await.ok();
    other.await.expect("it is answered").ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_can_end_its_wait_by_releasing() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    http.post("/v1/locks/acquire", &asked("holder", 0)).await.ok();
    let waiting = waits(&world, 0, asked("waiter", 60_000)).await;
    until_waiters(&mut locks, "a", 1).await;
    let given = http.post("/v1/locks/release", &json!({"name": "a", "client_id": "waiter"})).await;
    assert_eq!(given.ok()["released"], true);
    waiting.await.expect("it is answered").problem(409, "wait_ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_tells_those_who_wait() {
    let mut world = world(3).await;
    let leader = world.leader();
    let (stays, stops) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut http = Http::to(&world.servers[stays]).await;
    let mut locks = world.locks(stays).await;
    http.post("/v1/locks/acquire", &asked("holder", 0)).await.ok();
    let waiting = waits(&world, stops, asked("waiter", 60_000)).await;
    until_waiters(&mut locks, "a", 1).await;
    world.servers.remove(stops).stop().await;
    waiting.await.expect("it is answered").problem(503, "shutting_down");
    until_waiters(&mut locks, "a", 0).await;
}
