//! Any member serves any request, and says who it is.

use serde_json::json;

use super::client::Http;
use crate::support::world;

#[tokio::test(flavor = "multi_thread")]
async fn any_member_serves_any_request() {
    let world = world(3).await;
    world.tell_addresses().await;
    let leader = world.leader();
    let ids: Vec<String> = world
        .cluster
        .nodes()
        .iter()
        .map(|node| format!("{:016x}", node.handle().status().id))
        .collect();
    let mut token = 0;
    for place in 0..3 {
        let next = (place + 1) % 3;
        let (mut here, mut there) =
            (Http::to(&world.servers[place]).await, Http::to(&world.servers[next]).await);
        let asked = json!({"name": "a", "client_id": "c", "ttl_ms": 60_000});
        let answer = here.post("/v1/locks/acquire", &asked).await;
        let held = answer.ok();
        assert!(held["token"].as_i64().is_some_and(|one| one > token), "{held}");
        token = held["token"].as_i64().unwrap_or_default();
        assert_eq!(answer.headers["fencepost-member"], ids[place]);
        assert_eq!(answer.headers["fencepost-leader"], ids[leader]);
        let address = world.servers[leader].address().to_string();
        assert_eq!(answer.headers["fencepost-leader-address"], address);
        // What one has answered, the others know.
        let revision: u64 = answer.headers["fencepost-revision"].parse().expect("it is a number");
        let shown = there.get("/v1/locks/show?name=a").await;
        assert_eq!(shown.ok()["holders"][0]["token"], token);
        let seen: u64 = shown.headers["fencepost-revision"].parse().expect("it is a number");
        assert!(seen >= revision, "{seen} is before {revision}");
        there.post("/v1/locks/renew", &json!({"name": "a", "client_id": "c"})).await.ok();
        let lease = there.post("/v1/leases/grant", &json!({"ttl_ms": 60_000})).await.ok();
        here.post("/v1/leases/keep-alive", &json!({"lease": lease["lease"]})).await.ok();
        let put = json!({"key": "k", "value": "v", "lease": lease["lease"]});
        here.post("/v1/kv/put", &put).await.ok();
        assert_eq!(there.get("/v1/kv?key=k").await.ok()["kvs"][0]["lease"], lease["lease"]);
        there.post("/v1/leases/revoke", &json!({"lease": lease["lease"]})).await.ok();
        assert_eq!(here.get("/v1/kv?key=k").await.ok()["kvs"], json!([]));
        there.post("/v1/locks/release", &json!({"name": "a", "client_id": "c"})).await.ok();
        assert_eq!(there.get("/v1/status").await.ok()["leader"], format!("n{}", leader + 1));
    }
}

// Requirements: S4-004, S4-035.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_leader_nothing_is_promised() {
    let mut world = world(3).await;
    let leader = world.leader();
    let server = world.servers.remove(leader);
    let _node = world.cluster.take(leader);
    drop(world);
    let mut http = Http::to(&server).await;
    // The member may still believe that it leads; then what it was asked for is not known.
    let asked = json!({"name": "a", "client_id": "c", "ttl_ms": 60_000});
    let answer = http.post("/v1/locks/acquire", &asked).await;
    let problem = answer.json();
    let code = problem["code"].as_str().expect("it has one");
    assert!(
        matches!((answer.status, code), (503, "no_leader") | (504, "indeterminate")),
        "{problem}"
    );
    assert_eq!(problem["may_have_had_effect"], code == "indeterminate");
    let answer = http.get("/v1/locks/show?name=a").await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (503, Some("no_leader")));
    assert_eq!(http.get("/v1/locks/show?name=a&stale=true").await.status, 200);
}
