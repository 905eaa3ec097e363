//! Owners name the holding that they mean by its token, and hear of it when an operator wants it.

#![expect(clippy::disallowed_methods, reason = "clients count by clocks of their own")]

use fencepost_proto::v1;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use super::client::Http;
use crate::support::{refused, until_waiters, world};

fn take(who: &str) -> Value {
    json!({"name": "a", "client_id": who, "ttl_ms": 60_000})
}

fn with(token: &Value) -> Value {
    json!({"name": "a", "client_id": "me", "token": token})
}

#[tokio::test(flavor = "multi_thread")]
async fn old_tokens_change_nothing_over_http() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let first = http.post("/v1/locks/acquire", &take("me")).await.ok()["token"].clone();
    let told = http.post("/v1/locks/release", &with(&first)).await.ok();
    assert_eq!(told, json!({"name": "a", "released": true, "token": first}));
    let second = http.post("/v1/locks/acquire", &take("me")).await.ok()["token"].clone();
    for path in ["/v1/locks/release", "/v1/locks/renew"] {
        http.post(path, &with(&first)).await.problem(409, "token_mismatch");
        http.post(path, &with(&json!(0))).await.problem(400, "field_invalid");
    }
    let show = async |http: &mut Http, token: &Value| {
        let path = format!("/v1/locks/show?name=a&token={token}");
        http.get(&path).await.ok()["is_current"].clone()
    };
    assert_eq!(show(&mut http, &second).await, json!(true));
    assert_eq!(show(&mut http, &first).await, json!(false));
    assert_eq!(http.post("/v1/locks/renew", &with(&second)).await.ok()["token"], second);
    assert_eq!(http.post("/v1/locks/release", &with(&second)).await.ok()["released"], true);
    assert_eq!(http.post("/v1/locks/release", &with(&second)).await.ok()["released"], false);
}

/// How long a client of this page believes in an answer to what it sent then.
fn believed(sent: Instant, left_ms: &Value) -> Instant {
    let left = Duration::from_millis(left_ms.as_u64().expect("it is a number"));
    sent + left.saturating_sub(left / 100 + Duration::from_millis(50))
}

/// A client that renews what it holds as `docs/http.md` says, until somebody else holds it. The last
/// moment in which it believed that it holds the lock.
async fn hold(http: &mut Http, renew: &Value, is_over: impl Fn() -> bool) -> Instant {
    let is_leased = renew["lease"].is_string();
    let path = if is_leased { "/v1/leases/keep-alive" } else { "/v1/locks/renew" };
    let (mut until, mut must_stop) = (Instant::now(), false);
    while !is_over() {
        tokio::task::yield_now().await;
        if must_stop {
            continue;
        }
        let sent = Instant::now();
        let told = http.post(path, renew).await;
        if told.status != 200 {
            break;
        }
        let told = told.ok();
        let stop = if is_leased {
            &told["forced"][0]["must_stop_in_ms"]
        } else {
            &told["must_stop_in_ms"]
        };
        must_stop = stop.is_number();
        let left = if is_leased { &told["ttl_ms"] } else { &told["remaining_ms"] };
        until = believed(sent, if must_stop { stop } else { left });
    }
    until
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_stops_before_a_forced_lock_passes_on() {
    let world = world(1).await;
    for is_leased in [true, false] {
        let name = if is_leased { "leased" } else { "owned" };
        let mut http = Http::to(&world.servers[0]).await;
        let (renew, acquire) = if is_leased {
            let lease = json!({"ttl_ms": 3_000, "client_id": "me"});
            let lease = http.post("/v1/leases/grant", &lease).await.ok()["lease"].clone();
            (json!({"lease": lease}), json!({"name": name, "lease": lease}))
        } else {
            let renew = json!({"name": name, "client_id": "me"});
            (renew, json!({"name": name, "client_id": "me", "ttl_ms": 3_000}))
        };
        let token = http.post("/v1/locks/acquire", &acquire).await.ok()["token"].clone();
        let mut other = Http::to(&world.servers[0]).await;
        let wants =
            json!({"name": name, "client_id": "other", "ttl_ms": 60_000, "wait_ms": 60_000});
        let granted = tokio::spawn(async move {
            other.post("/v1/locks/acquire", &wants).await.ok();
            Instant::now()
        });
        until_waiters(&mut world.locks(0).await, name, 1).await;
        let force = json!({"name": name, "token": token, "reason": "it is needed"});
        let told = http.post("/v1/locks/force-release", &force).await.ok();
        assert_eq!(told["released"], false, "{told}");
        let until = hold(&mut http, &renew, || granted.is_finished()).await;
        let granted = granted.await.expect("it does not panic");
        assert!(until < granted, "{name}: it believes {:?} too long", until - granted);
    }
}

// Requirements: S1-073.
#[tokio::test(flavor = "multi_thread")]
async fn plain_keys_do_not_block_locks() {
    let world = world(1).await;
    let (mut http, mut locks) = (Http::to(&world.servers[0]).await, world.locks(0).await);
    let mut admin = world.admin(0).await;
    while admin
        .limits(v1::LimitsRequest {})
        .await
        .expect("it is answered")
        .into_inner()
        .feature_level
        < 2
    {
        tokio::task::yield_now().await;
    }
    let put = |key: &str| json!({"key": key, "value": "x"});
    http.post("/v1/kv/put", &put("dates/2024")).await.ok();
    http.post("/v1/locks/acquire", &take("me")).await.ok();
    http.post("/v1/kv/put", &put("a/2024")).await.problem(409, "key_blocks_lock");
    http.post("/v1/kv/put", &put("a/plain")).await.ok();
    let native = v1::PutRequest { key: "a/2024".into(), ..v1::PutRequest::default() };
    assert_eq!(refused(locks.put(native).await), "key_blocks_lock");
    // What a holder has there is not taken from its lease, also if its revision is known.
    let lock = crate::support::get_lock(&mut locks, "a").await;
    let create_revision = lock.holders[0].create_revision;
    let key = lock.holders[0].key.clone();
    let hijack = v1::PutRequest { key, create_revision, ..v1::PutRequest::default() };
    assert_eq!(refused(locks.put(hijack).await), "key_not_found");
    http.post("/v1/locks/release", &json!({"name": "a", "client_id": "me"})).await.ok();
    http.post("/v1/kv/put", &put("a/2024")).await.ok();
}

/// The clock on the wall, in milliseconds of Unix time.
fn unix_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.expect("it is later").as_millis()).expect("it is not so late")
}

// Requirements: S0-006, S0-007, S0-013, S0-020, S4-009.
#[tokio::test(flavor = "multi_thread")]
async fn revisions_versions_and_ends_are_shown() {
    let world = world(1).await;
    let began = unix_ms();
    let mut http = Http::to(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    let held = http.post("/v1/locks/acquire", &take("me")).await.ok();
    let wants = json!({"name": "a", "client_id": "you", "ttl_ms": 60_000, "wait_ms": 60_000});
    let mut other = Http::to(&world.servers[0]).await;
    let waits = tokio::spawn(async move { other.post("/v1/locks/acquire", &wants).await.ok() });
    let lock = until_waiters(&mut locks, "a", 1).await;
    let shown = http.get("/v1/locks/show?name=a").await.ok();
    let (holder, waiter) = (&shown["holders"][0], &shown["waiters"][0]);
    assert_eq!(holder["create_revision"], held["token"]);
    assert_eq!((&holder["mod_revision"], &holder["version"]), (&held["token"], &json!(1)));
    assert!(waiter["create_revision"].as_i64() > holder["create_revision"].as_i64(), "{shown}");
    assert_eq!(holder["client"], json!("me"));
    let lease = format!("/v1/leases/show?lease={}", held["lease"].as_str().expect("it is text"));
    let lease = http.get(&lease).await.ok();
    // What is left, counted from when it was asked for, which lies between these two.
    let asked = began..=unix_ms();
    for told in [&held, holder, &lease] {
        let number = |field: &str| told[field].as_i64().unwrap_or_else(|| panic!("{told}"));
        let (end, left) = (number("expires_unix_ms"), number("remaining_ms"));
        assert!(asked.contains(&(end - left)) && left > 0, "{told} was asked for in {asked:?}");
    }
    assert_eq!(lock.waiters[0].create_revision, waiter["create_revision"].as_i64().unwrap_or(0));
    assert_eq!(lock.holders[0].mod_revision, lock.holders[0].fencing_token);
    http.post("/v1/locks/release", &with(&held["token"])).await.ok();
    waits.await.expect("it is granted");
}

// Requirements: S0-026.
#[tokio::test(flavor = "multi_thread")]
async fn clients_are_listed_and_shown() {
    let world = world(1).await;
    let began = unix_ms();
    let mut http = Http::to(&world.servers[0]).await;
    for client in ["ann", "ben", "cora"] {
        let lease = json!({"ttl_ms": 60_000, "client_id": client});
        http.post("/v1/leases/grant", &lease).await.ok();
    }
    let page = http.get("/v1/clients?limit=2").await.ok();
    assert_eq!((&page["clients"][0]["client"], &page["next"]), (&json!("ann"), &json!("ben")));
    let rest = http.get("/v1/clients?after=ben").await.ok();
    assert_eq!((&rest["clients"][0]["client"], &rest["next"]), (&json!("cora"), &Value::Null));
    let shown = http.get("/v1/clients/show?client_id=ben").await.ok();
    assert_eq!((&shown["client"], &shown["leases_total"]), (&json!("ben"), &json!(1)));
    assert!(shown["address"].as_str().is_some_and(|at| at.starts_with("127.0.0.1")), "{shown}");
    let seen = shown["last_seen_unix_ms"].as_i64().expect("it is a number");
    // Two clocks of whole milliseconds make it.
    assert!((began - 2..=unix_ms()).contains(&seen), "it was not there at {began}: {shown}");
    assert!(shown["seen_ms"].is_number());
    assert_eq!(shown["leases"].as_array().map(Vec::len), Some(1));
    http.get("/v1/clients/show?client_id=dan").await.problem(404, "client_unknown");
    http.get("/v1/clients/show").await.problem(400, "field_invalid");
}

// Requirements: S0-084.
#[tokio::test(flavor = "multi_thread")]
async fn a_free_lock_is_forgotten_and_a_held_one_is_not() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut delete = async |path: &str| {
        http.request(&format!("DELETE {path}"), &[], b"").await;
        http.answer().await
    };
    assert_eq!(delete("/v1/locks?name=a").await.ok(), json!({"name": "a"}));
    delete("/v1/locks?name=").await.problem(400, "name_empty");
    delete("/v1/locks").await.problem(400, "field_invalid");
    let mut locks = world.locks(0).await;
    let lease = crate::support::lease(&mut locks, "me").await;
    crate::support::acquired(&mut locks, "a", lease).await;
    delete("/v1/locks?name=a").await.problem(409, "lock_in_use");
    let request = v1::DeleteLockRequest { name: "a".into() };
    assert_eq!(refused(locks.delete_lock(request).await), "lock_in_use");
}
