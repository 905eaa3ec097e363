//! Owners name the holding that they mean by its token: a late copy of a request touches no other.

use fencepost_node::config::NodeConfig;
use fencepost_proto::v1;
use fencepost_server::Tuning;
use serde_json::{Value, json};

use crate::support::{World, world, world_with};
use crate::talk::{Line, Ws};

/// Clusters of every feature level.
async fn worlds() -> Vec<World> {
    let mut worlds = Vec::new();
    for feature_level in [1, 2] {
        let config = NodeConfig { feature_level, ..NodeConfig::new(0) };
        let world = world_with(1, &config, Tuning::default()).await;
        let mut admin = world.admin(0).await;
        // A new cluster raises it by itself.
        loop {
            let limits = admin.limits(v1::LimitsRequest {}).await.expect("it is answered");
            if limits.into_inner().feature_level == feature_level {
                break;
            }
            tokio::task::yield_now().await;
        }
        worlds.push(world);
    }
    worlds
}

fn failed(told: &Value) -> (&Value, &Value) {
    (&told["success"], &told["error"]["code"])
}

#[tokio::test(flavor = "multi_thread")]
async fn old_tokens_change_nothing_over_websocket() {
    for world in worlds().await {
        let mut ws = Ws::open(&world.servers[0]).await;
        let mut ask = async |command: u64, token: Value| {
            let message = json!({
                "commandType": command, "key": "a", "clientId": "me", "ttl": 60_000,
                "fencingToken": token, "requestId": 1
            });
            ws.say(&message).await;
            ws.hear().await
        };
        let first = ask(1, Value::Null).await["fencingToken"].clone();
        // As a number, or as it was told.
        let told = ask(2, first["value"].clone()).await;
        assert_eq!((&told["result"], &told["fencingToken"]), (&json!("released"), &first));
        let second = ask(1, Value::Null).await["fencingToken"].clone();
        for command in [2, 7] {
            let told = ask(command, first.clone()).await;
            assert_eq!(failed(&told), (&json!(false), &json!("token_mismatch")), "{told}");
        }
        let shown = ask(9, second.clone()).await;
        assert_eq!((&shown["held"], &shown["clientId"]), (&json!(true), &json!("me")));
        assert_eq!((&shown["fencingToken"], &shown["isCurrent"]), (&second, &json!(true)));
        assert_eq!(ask(9, first.clone()).await["isCurrent"], json!(false));
        assert_eq!(ask(7, second.clone()).await["result"], json!("renewed"));
        assert_eq!(ask(2, second.clone()).await["result"], json!("released"));
        assert_eq!(ask(2, second).await["result"], json!("not_found"));
        let told = ask(2, json!("soon")).await;
        assert_eq!(failed(&told), (&json!(false), &json!("field_invalid")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_tokens_change_nothing_over_json_tcp() {
    for world in worlds().await {
        let mut line = Line::open(&world.servers[0]).await;
        let mut ask = async |kind: &str, token: &Value| {
            let payload =
                json!({ "key": "a", "owner": "me", "ttl": 60_000, "fencing_token": token });
            line.ask(kind, payload).await
        };
        let first = ask("acquire_lock", &Value::Null).await.1["fencing_token"].clone();
        let (ok, told) = ask("release_lock", &first).await;
        assert_eq!((ok, &told["fencing_token"]), (true, &first), "{told}");
        let second = ask("acquire_lock", &Value::Null).await.1["fencing_token"].clone();
        for kind in ["release_lock", "renew_lock"] {
            let (ok, told) = ask(kind, &first).await;
            assert_eq!((ok, &told["code"]), (false, &json!("token_mismatch")), "{told}");
        }
        let (_, shown) = ask("get_lock", &second).await;
        assert_eq!((&shown["fencing_token"], &shown["is_current"]), (&second, &json!(true)));
        assert_eq!(ask("get_lock", &first).await.1["is_current"], json!(false));
        assert_eq!(ask("renew_lock", &second).await.1["result"], json!("renewed"));
        assert_eq!(ask("release_lock", &second).await.1["result"], json!("released"));
        assert_eq!(ask("release_lock", &second).await.1["result"], json!("not_found"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_tokens_change_nothing_as_text() {
    for world in worlds().await {
        let mut locks = world.locks(0).await;
        let mut say = async |line: &str| {
            let request = v1::TextCommandRequest { line: line.into() };
            locks.text_command(request).await.expect("it is answered").into_inner()
        };
        let first = say("ACQUIRE:a:me:60000").await.fencing_token;
        let told = say(&format!("RELEASE:a:me:{first}")).await;
        assert_eq!((told.result.as_str(), told.fencing_token), ("Released", first));
        let second = say("ACQUIRE:a:me:60000").await.fencing_token;
        for command in ["RELEASE", "HEARTBEAT"] {
            let told = say(&format!("{command}:a:me:{first}")).await;
            assert!(told.result.starts_with("Error("), "{told:?}");
        }
        let told = say(&format!("HEARTBEAT:a:me:{second}")).await;
        assert_eq!((told.result.as_str(), told.fencing_token), ("Renewed", second));
        assert_eq!(say("RELEASE:a:me:soon").await.fencing_token, 0);
        assert_eq!(say(&format!("RELEASE:a:me:{second}")).await.result, "Released");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_ended_without_a_token() {
    for world in worlds().await {
        let mut ws = Ws::open(&world.servers[0]).await;
        let mut locks = world.locks(0).await;
        ws.acquire("a", "holder").await;
        ws.granted("a").await;
        let mut waits = Ws::open(&world.servers[0]).await;
        waits.acquire("a", "waiter").await;
        crate::support::until_waiters(&mut locks, "a", 1).await;
        let release = json!({
            "commandType": 2, "key": "a", "clientId": "waiter", "requestId": "end"
        });
        ws.say(&release).await;
        assert_eq!(ws.hear().await["result"], json!("released"));
        let told = waits.hear().await;
        assert_eq!(failed(&told), (&json!(false), &json!("wait_ended")), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_is_heard_of_with_the_next_renewal() {
    let world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    let mut line = Line::open(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    ws.acquire("a", "me").await;
    let token = ws.granted("a").await;
    let renew = json!({ "commandType": 7, "key": "a", "clientId": "me", "fencingToken": token });
    ws.say(&renew).await;
    assert_eq!(ws.hear().await.get("mustStopInMs"), None);
    let force = v1::ForceReleaseRequest {
        name: "a".into(),
        fencing_token: i64::try_from(token).expect("it is small"),
        reason: "it hangs".into(),
        ..v1::ForceReleaseRequest::default()
    };
    locks.force_release(force).await.expect("it is asked for");
    ws.say(&renew).await;
    let told = ws.hear().await;
    assert_eq!(told["result"], json!("renewed"));
    assert_eq!(told["mustStopInMs"], told["remainingMs"], "{told}");
    let asked = json!({ "key": "a", "owner": "me", "fencing_token": token });
    let (_, told) = line.ask("renew_lock", asked.clone()).await;
    assert_eq!(told["must_stop_in_ms"], told["remaining_ms"], "{told}");
    assert!(line.ask("get_lock", asked).await.1["must_stop_in_ms"].is_number());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_key_does_not_block_a_lock_over_websocket() {
    let world = worlds().await.pop().expect("there are two");
    let mut ws = Ws::open(&world.servers[0]).await;
    let append = json!({ "commandType": 3, "key": "dates/2024", "clientId": "me", "data": "x" });
    ws.say(&append).await;
    assert_eq!(ws.hear().await["success"], json!(true));
    ws.acquire("jobs", "me").await;
    ws.granted("jobs").await;
    let append = json!({ "commandType": 3, "key": "jobs/2024", "clientId": "me", "data": "x" });
    ws.say(&append).await;
    let told = ws.hear().await;
    assert_eq!(failed(&told), (&json!(false), &json!("key_blocks_lock")), "{told}");
}
