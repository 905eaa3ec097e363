//! What is said in JSON over TCP.

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::support::{get_lock, soon, until_waiters, world};
use crate::talk::Line;

fn owned(key: &str, owner: &str) -> Value {
    json!({ "key": key, "owner": owner, "ttl": 60_000 })
}

// Requirements: S3-010, S3-011, S3-012, S3-013, S3-014, S3-015.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_goes_from_free_to_held_to_extended_to_free() {
    let world = world(1).await;
    let mut line = Line::open(&world.servers[0]).await;
    let (ok, free) = line.ask("get_lock", json!({ "key": "a" })).await;
    assert!(ok);
    assert_eq!((&free["held"], &free["owner"]), (&json!(false), &Value::Null));
    let (ok, held) = line.ask("acquire_lock", owned("a", "one")).await;
    assert!(ok, "{held}");
    assert_eq!((&held["key"], &held["owner"]), (&json!("a"), &json!("one")));
    assert_eq!((&held["result"], &held["remaining_ms"]), (&json!("acquired"), &json!(60_000)));
    let token = held["fencing_token"].as_u64().expect("it is a number");
    let (ok, denied) = line.ask("acquire_lock", owned("a", "two")).await;
    assert!(!ok);
    assert_eq!(
        (&denied["code"], &denied["message"]),
        (&json!("lock_held"), &json!("Lock held by one"))
    );
    let (ok, extended) =
        line.ask("renew_lock", json!({ "key": "a", "owner": "one", "ttl": "2m" })).await;
    assert!(ok, "{extended}");
    assert_eq!(
        (&extended["result"], &extended["remaining_ms"]),
        (&json!("renewed"), &json!(120_000))
    );
    assert_eq!(extended["fencing_token"], held["fencing_token"]);
    let (_, seen) = line.ask("get_lock", json!({ "key": "a" })).await;
    assert_eq!((&seen["held"], &seen["owner"]), (&json!(true), &json!("one")));
    assert_eq!(seen["fencing_token"], json!(token));
    let (ok, foreign) = line.ask("renew_lock", owned("a", "two")).await;
    assert_eq!((ok, &foreign["code"]), (false, &json!("not_owner")));
    let (ok, foreign) = line.ask("release_lock", json!({ "key": "a", "owner": "two" })).await;
    assert_eq!((ok, &foreign["message"]), (false, &json!("Not the lock owner")));
    let (ok, released) = line.ask("release_lock", json!({ "key": "a", "owner": "one" })).await;
    assert_eq!((ok, &released["result"]), (true, &json!("released")));
    let (ok, again) = line.ask("release_lock", json!({ "key": "a", "owner": "one" })).await;
    assert_eq!((ok, &again["result"]), (true, &json!("not_found")));
    let (ok, lost) = line.ask("renew_lock", owned("a", "one")).await;
    assert_eq!((ok, &lost["code"]), (false, &json!("not_holder")));
    let (_, next) = line.ask("acquire_lock", owned("a", "two")).await;
    assert!(next["fencing_token"].as_u64().expect("it is a number") > token);
}

// Requirements: S3-007, S4-006.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_ends_with_its_ttl() {
    let world = world(1).await;
    let mut line = Line::open(&world.servers[0]).await;
    let short = json!({ "key": "a", "owner": "one", "ttl": 500 });
    assert!(line.ask("acquire_lock", short).await.0);
    let waits = json!({ "key": "a", "owner": "two", "ttl": 60_000, "wait_ms": 60_000 });
    let (ok, held) = line.ask("acquire_lock", waits).await;
    assert!(ok, "{held}");
}

// Requirements: S3-012.
#[tokio::test(flavor = "multi_thread")]
async fn an_acquire_waits_if_it_is_told_to() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (mut one, mut two) =
        (Line::open(&world.servers[0]).await, Line::open(&world.servers[0]).await);
    let (_, held) = one.ask("acquire_lock", owned("a", "one")).await;
    let mut brief = owned("a", "two");
    brief["wait_ms"] = json!(50);
    let (ok, late) = two.ask("acquire_lock", brief).await;
    assert_eq!((ok, &late["message"]), (false, &json!("Lock held by one")));
    assert_eq!(get_lock(&mut locks, "a").await.waiters_total, 0);
    let mut waits = owned("a", "two");
    waits["wait_ms"] = json!(600_000);
    let request = json!({ "type": "acquire_lock", "request_id": 7, "payload": waits });
    two.say(&request.to_string()).await;
    until_waiters(&mut locks, "a", 1).await;
    // What is said meanwhile is answered afterwards.
    two.say("{\"type\":\"ping\",\"request_id\":\"later\"}").await;
    assert!(one.ask("release_lock", owned("a", "one")).await.0);
    let granted = two.hear().await;
    assert_eq!((&granted["success"], &granted["request_id"]), (&json!(true), &json!(7)));
    assert!(granted["payload"]["fencing_token"].as_u64() > held["fencing_token"].as_u64());
    assert_eq!(two.hear().await["request_id"], json!("later"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_gone_waits_no_more() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (mut one, mut two) =
        (Line::open(&world.servers[0]).await, Line::open(&world.servers[0]).await);
    assert!(one.ask("acquire_lock", owned("a", "one")).await.0);
    let mut waits = owned("a", "two");
    waits["wait_ms"] = json!(600_000);
    let request = json!({ "type": "acquire_lock", "payload": waits });
    two.say(&request.to_string()).await;
    until_waiters(&mut locks, "a", 1).await;
    two.0.get_mut().shutdown().await.expect("it is open");
    until_waiters(&mut locks, "a", 0).await;
    let told = two.hear().await;
    assert_eq!((&told["success"], &told["payload"]["code"]), (&json!(false), &json!("wait_ended")));
    assert_eq!(two.hear_if_any().await, None);
    // What is held stays.
    drop(one);
    let mut again = Line::open(&world.servers[0]).await;
    assert_eq!(again.ask("acquire_lock", owned("a", "one")).await.1["result"], json!("renewed"));
}

// Requirements: S3-009.
#[tokio::test(flavor = "multi_thread")]
async fn lines_that_were_sent_together_are_answered_in_order() {
    let world = world(1).await;
    let mut line = Line::open(&world.servers[0]).await;
    let mut script = String::new();
    let kinds = ["acquire_lock", "get_lock", "release_lock", "get_lock", "ping"];
    for (id, kind) in kinds.iter().enumerate() {
        let payload = owned("a", "one");
        script +=
            &json!({ "type": kind, "request_id": id.to_string(), "payload": payload }).to_string();
        script += "\r\n\r\n";
    }
    // The last one need not end.
    line.0.get_mut().write_all(script.trim_end().as_bytes()).await.expect("it reads");
    line.0.get_mut().shutdown().await.expect("it is open");
    let mut told = Vec::new();
    while let Some(answer) = line.hear_if_any().await {
        told.push(answer);
    }
    let ids: Vec<_> =
        told.iter().map(|one| one["request_id"].as_str().expect("it is a text")).collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4"]);
    assert_eq!(
        (&told[1]["payload"]["held"], &told[3]["payload"]["held"]),
        (&json!(true), &json!(false))
    );
}

// Requirements: S3-016, S3-017, S3-018, S3-019.
#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_described() {
    let world = world(3).await;
    world.tell_addresses().await;
    let leader = world.leader();
    let status = world.cluster.nodes()[leader].handle().status();
    let id = format!("{:016x}", status.id);
    let mut line = Line::open(&world.servers[(leader + 1) % 3]).await;
    let told = soon(async {
        loop {
            let (ok, told) = line.ask("get_leader", Value::Null).await;
            assert!(ok);
            // A member that follows hears of the addresses a moment later.
            if told["leader_address"] == json!(world.servers[leader].address().to_string()) {
                return told;
            }
        }
    })
    .await;
    assert_eq!((&told["leader_id"], &told["leader_name"]), (&json!(id), &json!(status.name)));
    let term = told["term"].as_u64().expect("it is a number");
    let (ok, info) = line.ask("get_cluster_info", Value::Null).await;
    assert!(ok);
    assert_eq!((&info["leader_id"], &info["term"]), (&json!(id), &json!(term)));
    assert_eq!(info["members"].as_array().map(Vec::len), Some(3));
    let own = &world.cluster.nodes()[(leader + 1) % 3].handle().status();
    assert_eq!(info["node"]["name"], json!(own.name));
    assert_eq!(info["node"]["role"], json!("voter"));
    assert_eq!(line.ask("ping", Value::Null).await, (true, json!({ "pong": true })));
    // A heartbeat is compared, and makes nobody a leader.
    let other = format!("{:016x}", own.id);
    let beats = [
        (json!({ "leader_id": id, "term": term, "timestamp": 1 }), true),
        (json!({ "leader_id": id, "term": term, "timestamp": "passed over" }), true),
        (json!({ "leader_id": id, "term": term + 1, "timestamp": 1 }), false),
        (json!({ "leader_id": other, "term": term, "timestamp": 1 }), false),
        (json!({ "leader_id": other, "term": term + 100, "timestamp": 1 }), false),
    ];
    for (beat, agrees) in beats {
        let (ok, told) = line.ask("heartbeat", beat.clone()).await;
        assert_eq!((ok, &told["agrees"]), (true, &json!(agrees)), "{beat}");
        assert_eq!((&told["leader_id"], &told["term"]), (&json!(id), &json!(term)), "{beat}");
    }
}
