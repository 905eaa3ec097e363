//! Every path: what it does, and what it refuses.

use fencepost_proto::v1;
use serde_json::{Value, json};

use super::client::Http;
use crate::support::{acquired, get_lock, lease, lock_request, soon, unlock, world};

// Requirements: S0-012, S0-112.
#[tokio::test(flavor = "multi_thread")]
async fn an_owner_takes_keeps_and_gives_back_a_lock() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let take = |who: &str| json!({"name": "jobs/a", "client_id": who, "ttl_ms": 30_000});
    let held = http.post("/v1/locks/acquire", &take("alice")).await.ok();
    let token = held["token"].as_i64().expect("it has a token");
    let key = format!("jobs/a/{}", held["lease"].as_str().expect("it has a lease"));
    assert_eq!((&held["name"], &held["key"]), (&json!("jobs/a"), &json!(key)));
    assert!((1..=30_000).contains(&held["remaining_ms"].as_i64().expect("it is a number")));

    let problem = http.post("/v1/locks/acquire", &take("bob")).await.problem(409, "lock_held");
    assert_eq!((&problem["holder"], &problem["waiting"]), (&json!("alice"), &json!(0)));
    assert_eq!(problem["retryable"], true);
    // The same owner has it already.
    let again = http.post("/v1/locks/acquire", &take("alice")).await.ok();
    assert_eq!(again["token"], token);

    let renew =
        |who: &str, ttl_ms: Value| json!({"name": "jobs/a", "client_id": who, "ttl_ms": ttl_ms});
    let kept = http.post("/v1/locks/renew", &renew("alice", json!(60_000))).await.ok();
    assert_eq!(kept["token"], token);
    assert!(kept["remaining_ms"].as_i64().is_some_and(|left| left > 30_000), "{kept}");
    let id = i64::from_str_radix(held["lease"].as_str().expect("it is a text"), 16);
    let get = v1::GetLeaseRequest { id: id.expect("it is hexadecimal") };
    let lease = world.locks(0).await.get_lease(get).await.expect("it lives").into_inner().lease;
    let lease = lease.expect("it is there");
    assert_eq!((lease.ttl_ms, lease.granted_ttl_ms), (60_000, 30_000));
    http.post("/v1/locks/renew", &renew("alice", Value::Null)).await.ok();
    http.post("/v1/locks/renew", &renew("bob", Value::Null)).await.problem(409, "not_owner");
    http.post("/v1/locks/renew", &renew("alice", json!(0))).await.problem(400, "field_invalid");
    http.post("/v1/locks/renew", &renew("alice", json!(1))).await.problem(400, "ttl_too_short");

    let release = |who: &str| json!({"name": "jobs/a", "client_id": who});
    http.post("/v1/locks/release", &release("bob")).await.problem(409, "not_owner");
    let given = http.post("/v1/locks/release", &release("alice")).await.ok();
    assert_eq!(given, json!({"name": "jobs/a", "released": true, "token": token}));
    let given = http.post("/v1/locks/release", &release("alice")).await.ok();
    assert_eq!(given["released"], false);
    http.post("/v1/locks/renew", &renew("alice", Value::Null)).await.problem(409, "not_holder");
    let next = http.post("/v1/locks/acquire", &take("bob")).await.ok();
    assert!(next["token"].as_i64().is_some_and(|next| next > token), "{next}");
}

// Requirements: S0-111.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_holds_locks_for_as_long_as_it_lives() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let grant = json!({"ttl_ms": 60_000, "client_id": "alice", "lease": "7fffffffffffffff"});
    let granted = http.post("/v1/leases/grant", &grant).await.ok();
    assert_eq!((&granted["lease"], &granted["ttl_ms"]), (&grant["lease"], &json!(60_000)));
    http.post("/v1/leases/grant", &grant).await.problem(409, "lease_exists");
    http.post("/v1/leases/grant", &json!({"ttl_ms": 1})).await.problem(400, "ttl_too_short");
    http.post("/v1/leases/grant", &json!({"ttl_ms": 0})).await.problem(400, "field_invalid");

    let lease = &granted["lease"];
    let asked = json!({"name": "a", "lease": lease, "epoch": granted["epoch"], "metadata": "hi"});
    let held = http.post("/v1/locks/acquire", &asked).await.ok();
    assert_eq!((&held["lease"], &held["key"]), (lease, &json!("a/7fffffffffffffff")));
    let shown = http.get("/v1/locks/show?name=a").await.ok();
    assert_eq!(shown["holders"][0]["lease"], *lease);
    assert_eq!(shown["holders"][0]["metadata"], "hi");
    let stale = json!({"name": "a", "lease": lease, "epoch": 99_999});
    http.post("/v1/locks/acquire", &stale).await.problem(409, "lease_epoch_stale");

    let alive = http.post("/v1/leases/keep-alive", &json!({"lease": lease})).await.ok();
    assert_eq!((&alive["lease"], &alive["ttl_ms"]), (lease, &json!(60_000)));
    assert!(alive["changes"].as_u64().is_some_and(|changes| changes > 0), "{alive}");
    http.post("/v1/leases/keep-alive", &json!({"lease": 99})).await.problem(404, "lease_not_found");

    let wrong = json!({"name": "a", "lease": lease, "token": 1});
    http.post("/v1/locks/release", &wrong).await.problem(409, "token_mismatch");
    let right = json!({"name": "a", "lease": lease, "token": held["token"]});
    assert_eq!(http.post("/v1/locks/release", &right).await.ok()["released"], true);
    assert_eq!(http.post("/v1/locks/release", &right).await.ok()["released"], false);

    http.post("/v1/locks/acquire", &asked).await.ok();
    let shown = http.get("/v1/leases/show?lease=7fffffffffffffff").await.ok();
    assert_eq!(
        (&shown["client"], &shown["keys"]),
        (&json!("alice"), &json!(["a/7fffffffffffffff"]))
    );
    let ended = http.post("/v1/leases/revoke", &json!({"lease": lease})).await.ok();
    assert_eq!(ended, json!({"lease": lease, "keys": 1}));
    http.post("/v1/leases/revoke", &json!({"lease": lease})).await.problem(404, "lease_not_found");
    http.get("/v1/leases/show?lease=7fffffffffffffff").await.problem(404, "lease_not_found");
    assert_eq!(http.get("/v1/locks/show?name=a").await.ok()["holders"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_the_same_through_every_door() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    let native = lease(&mut locks, "native").await;
    let asked = json!({"name": "a", "client_id": "curl", "ttl_ms": 30_000});
    let held = http.post("/v1/locks/acquire", &asked).await.ok();
    let told = locks.lock(lock_request("a", native, 0)).await.expect("it is answered").into_inner();
    assert_eq!((told.acquired, &*told.holder), (false, "curl"));
    http.post("/v1/locks/release", &json!({"name": "a", "client_id": "curl"})).await.ok();
    let token = acquired(&mut locks, "a", native).await;
    assert!(token > held["token"].as_i64().expect("it has one"));
    let problem = http.post("/v1/locks/acquire", &asked).await.problem(409, "lock_held");
    assert_eq!(problem["holder"], "native");
    assert!(unlock(&mut locks, "a", native, token).await);
    // A lease is the same, too.
    let leased = json!({"name": "a", "lease": native, "mode": "shared"});
    http.post("/v1/locks/acquire", &leased).await.ok();
    let shown = get_lock(&mut locks, "a").await;
    assert_eq!((shown.holders[0].lease_id, shown.mode), (native, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_shared_counted_listed_and_explained() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    for lease in 1..=4 {
        http.post("/v1/leases/grant", &json!({"ttl_ms": 60_000, "lease": lease})).await.ok();
    }
    let permit = |lease: u64, permits: u64| json!({"name": "pool", "lease": lease, "mode": "permit", "permits": permits});
    for lease in [1, 2] {
        http.post("/v1/locks/acquire", &permit(lease, 2)).await.ok();
    }
    http.post("/v1/locks/acquire", &permit(3, 2)).await.problem(409, "lock_held");
    http.post("/v1/locks/acquire", &permit(3, 3)).await.problem(409, "permits_conflict");
    http.post("/v1/locks/acquire", &permit(3, 0)).await.problem(400, "permits_invalid");
    let shown = http.get("/v1/locks/show?name=pool").await.ok();
    assert_eq!((&shown["mode"], &shown["permits"]), (&json!("permit"), &json!(2)));
    assert_eq!(shown["holders"].as_array().map(Vec::len), Some(2));

    for name in ["jobs/a", "jobs/b", "jobs/c"] {
        http.post("/v1/locks/acquire", &json!({"name": name, "lease": 4})).await.ok();
    }
    let page = http.get("/v1/locks?prefix=jobs/&limit=2").await.ok();
    let names = |page: &Value| -> Vec<String> {
        let locks = page["locks"].as_array().expect("it is a list");
        locks.iter().map(|lock| lock["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(
        (names(&page), &page["next"]),
        (vec!["jobs/a".into(), "jobs/b".into()], &json!("jobs/b"))
    );
    let page = http.get("/v1/locks?prefix=jobs/&limit=2&after=jobs/b&stale=true").await.ok();
    assert_eq!((names(&page), &page["next"]), (vec!["jobs/c".into()], &Value::Null));
    assert_eq!(names(&http.get("/v1/locks").await.ok()).len(), 4);

    let why = http.get("/v1/locks/explain?name=jobs%2Fa").await.ok();
    assert!(why["reasons"][0].as_str().is_some_and(|why| why.contains("jobs/a is held")), "{why}");
    let why = http.get("/v1/locks/explain?lease=4").await.ok();
    assert!(why["reasons"].as_array().is_some(), "{why}");
    http.get("/v1/locks/explain?lease=99").await.problem(404, "lease_not_found");
    http.get("/v1/locks/explain").await.problem(400, "field_invalid");
    http.get("/v1/locks/show").await.problem(400, "field_invalid");
    http.get("/v1/locks/show?name=").await.problem(400, "name_empty");

    let page = http.get("/v1/leases?limit=3").await.ok();
    assert_eq!((page["leases"].as_array().map(Vec::len), &page["next"]), (Some(3), &json!("3")));
    let page = http.get("/v1/leases?limit=3&after=3").await.ok();
    assert_eq!((&page["leases"][0]["lease"], &page["next"]), (&json!("4"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_holder_was_lost_may_stand_free_for_a_while() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    http.post("/v1/leases/grant", &json!({"ttl_ms": 500, "lease": "9"})).await.ok();
    let asked = json!({"name": "a", "lease": "9", "lock_delay_ms": 60_000, "budget_ms": 1, "hold_max_ms": 1});
    http.post("/v1/locks/acquire", &asked).await.ok();
    let other = json!({"name": "a", "client_id": "other", "ttl_ms": 1_000});
    let problem = soon(async {
        loop {
            let answer = http.post("/v1/locks/acquire", &other).await;
            if answer.json()["code"] != "lock_held" {
                return answer.problem(409, "lock_delayed");
            }
        }
    })
    .await;
    assert_eq!((&problem["holder"], &problem["retryable"]), (&Value::Null, &json!(true)));
}

// Requirements: S0-084.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_lock_is_no_longer_delayed() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let admin = world.admin(0).await;
    soon(async {
        let limits = async || admin.clone().limits(v1::LimitsRequest {}).await.expect("answered");
        while limits().await.into_inner().feature_level < 2 {}
    })
    .await;
    http.post("/v1/leases/grant", &json!({"ttl_ms": 500, "lease": "9"})).await.ok();
    let asked = json!({"name": "a", "lease": "9", "lock_delay_ms": 60_000});
    http.post("/v1/locks/acquire", &asked).await.ok();
    let other = json!({"name": "a", "client_id": "other", "ttl_ms": 60_000});
    soon(async {
        while http.post("/v1/locks/acquire", &other).await.json()["code"] != "lock_delayed" {}
        http.request("DELETE /v1/locks?name=a", &[], b"").await;
        assert_eq!(http.answer().await.ok(), json!({"name": "a"}));
        http.post("/v1/locks/acquire", &other).await.ok();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_by_owner_says_that_an_operator_wants_the_lock() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let take = json!({"name": "a", "client_id": "me", "ttl_ms": 60_000});
    let token = http.post("/v1/locks/acquire", &take).await.ok()["token"].clone();
    let renew = json!({"name": "a", "client_id": "me"});
    let renewed = http.post("/v1/locks/renew", &renew).await.ok();
    assert_eq!(renewed["must_stop_in_ms"], Value::Null);
    let force = json!({"name": "a", "token": token, "reason": "it is needed"});
    http.post("/v1/locks/force-release", &force).await.ok();
    for renew in [renew, json!({"name": "a", "client_id": "me", "token": token})] {
        let renewed = http.post("/v1/locks/renew", &renew).await.ok();
        let must_stop = renewed["must_stop_in_ms"].as_i64();
        assert!(must_stop.is_some_and(|left| left > 0), "{renewed}");
        assert_eq!(renewed["must_stop_in_ms"], renewed["remaining_ms"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_takes_a_lock_away() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let asked = json!({"name": "a", "client_id": "alice", "ttl_ms": 60_000});
    let token = http.post("/v1/locks/acquire", &asked).await.ok()["token"].clone();
    let force = |token: &Value, reason: &str, now: bool| json!({"name": "a", "token": token, "reason": reason, "now": now});
    let path = "/v1/locks/force-release";
    http.post(path, &force(&token, "", false)).await.problem(400, "reason_empty");
    http.post(path, &force(&json!(1), "why", false)).await.problem(409, "token_mismatch");
    let asked = http.post(path, &force(&token, "it hangs", false)).await.ok();
    assert_eq!((&asked["name"], &asked["released"]), (&json!("a"), &json!(false)));
    assert!(asked["pending_ms"].as_i64().is_some_and(|pending| pending > 0), "{asked}");
    let shown = http.get("/v1/locks/show?name=a").await.ok();
    assert!(shown["holders"][0]["until_ms"].as_i64().is_some_and(|until| until > 0), "{shown}");
    let taken = http.post(path, &force(&token, "it hangs", true)).await.ok();
    assert_eq!(taken, json!({"name": "a", "released": true, "pending_ms": 0}));
    let floor = http.get("/v1/locks/show?name=a").await.ok()["fence_floor"].as_i64();
    assert_eq!(floor, token.as_i64().map(|token| token + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_written_read_and_removed() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let put = |key: &str, value: &str| json!({"key": key, "value": value});
    let written = http.post("/v1/kv/put", &put("k/1", "one")).await.ok();
    assert_eq!(written["key"], "k/1");
    http.post("/v1/kv/put", &json!({"key": "k/2", "value_base64": "/wA="})).await.ok();
    http.post("/v1/kv/put", &put("other", "")).await.ok();
    let found = http.get("/v1/kv?key=k/1").await.ok();
    assert_eq!(
        (&found["count"], &found["more"], &found["next"]),
        (&json!(1), &json!(false), &Value::Null)
    );
    let expected = json!({"key": "k/1", "value": "one", "create_revision": written["revision"],
        "mod_revision": written["revision"], "version": 1, "lease": null});
    assert_eq!(found["kvs"], json!([expected]));
    let found = http.get("/v1/kv?key=k/2").await.ok();
    let kv = &found["kvs"][0];
    assert_eq!((&kv["value"], &kv["value_base64"]), (&Value::Null, &json!("/wA=")));
    assert_eq!(http.get("/v1/kv?key=absent").await.ok()["kvs"], json!([]));

    let page = http.get("/v1/kv?key=k/&prefix=true&limit=1").await.ok();
    assert_eq!(
        (&page["count"], &page["more"], &page["next"]),
        (&Value::Null, &json!(true), &json!("k/1"))
    );
    let page = http.get("/v1/kv?key=k/&prefix=true&limit=1&after=k/1&count=true").await.ok();
    assert_eq!((&page["count"], &page["kvs"][0]["key"]), (&json!(2), &json!("k/2")));
    let page = http.get("/v1/kv?prefix=true&keys_only=true&after_base64=ay8x").await.ok();
    assert_eq!(
        (page["kvs"].as_array().map(Vec::len), &page["kvs"][0]["value"]),
        (Some(2), &json!(""))
    );
    http.get("/v1/kv").await.problem(400, "key_empty");
    http.get("/v1/kv?key=a&after=x&after_base64=ay8x").await.problem(400, "field_invalid");

    let both = json!({"key": "k/1", "value": "x", "value_base64": "/w=="});
    http.post("/v1/kv/put", &both).await.problem(400, "field_invalid");
    let broken = json!({"key": "k/1", "value_base64": "/w"});
    http.post("/v1/kv/put", &broken).await.problem(400, "field_invalid");
    http.post("/v1/kv/put", &put("", "x")).await.problem(400, "key_empty");
    let unleased = json!({"key": "k/1", "value": "x", "lease": "9"});
    http.post("/v1/kv/put", &unleased).await.problem(404, "lease_not_found");
    let older = json!({"key": "k/1", "value": "x", "create_revision": 1});
    http.post("/v1/kv/put", &older).await.problem(404, "key_not_found");
    let same = json!({"key": "k/1", "value": "x", "create_revision": written["revision"]});
    http.post("/v1/kv/put", &same).await.ok();

    http.post("/v1/kv/delete", &json!({"key": ""})).await.problem(400, "key_empty");
    let gone = http.post("/v1/kv/delete", &json!({"key": "k/", "prefix": true})).await.ok();
    assert_eq!(gone, json!({"deleted": 2}));
    assert_eq!(http.post("/v1/kv/delete", &json!({"key": "k/1"})).await.ok()["deleted"], 0);
    assert_eq!(http.get("/v1/kv?key=other").await.ok()["count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_and_the_description_can_be_asked_for() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let answer = http.get("/v1/status").await;
    let status = answer.ok();
    assert_eq!(
        (&status["leader"], &status["members"][0]["role"]),
        (&json!("n1"), &json!("leader"))
    );
    assert_eq!(status["cluster_id"], *answer.headers["fencepost-cluster"]);
    assert_eq!(status["members"][0]["id"], *answer.headers["fencepost-member"]);
    let members = http.get("/v1/members").await.ok();
    assert_eq!(members["members"], status["members"]);
    http.get("/v1/members?x=1").await.problem(400, "request_unreadable");

    let description = http.get("/v1/openapi.json").await.ok();
    assert_eq!(description["openapi"], "3.1.0");
    // Whatever is described is there, and nothing else is.
    let paths = description["paths"].as_object().expect("it has paths");
    assert_eq!(paths.len(), 20);
    for (path, methods) in paths {
        let is_get = methods.get("get").is_some();
        if is_get && path != "/v1/watch" {
            assert_ne!(http.get(path).await.status, 404, "{path}");
        }
        let other = if is_get { "POST" } else { "GET" };
        http.request(&format!("{other} {path}"), &[], b"").await;
        let answer = http.answer().await;
        answer.problem(405, "method_unknown");
        let allowed = &answer.headers["allow"];
        assert!(allowed.contains(if is_get { "GET" } else { "POST" }), "{path}: {allowed}");
    }
    for path in ["/v1", "/v1/", "/v1/nowhere", "/v1/locks/", "/v1/locks/acquire/x", "/v1/lock"] {
        http.get(path).await.problem(404, "path_unknown");
    }
    http.request("DELETE /v1/status", &[], b"").await;
    http.answer().await.problem(405, "method_unknown");
}
