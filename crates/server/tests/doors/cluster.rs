//! Several members: any of them serves, a waiter keeps its place when the leader goes, and whoever
//! wants the leader finds it.

use std::collections::BTreeMap;

use fencepost_proto::v1;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::support::{World, get_lock, soon, until_waiters, world};
use crate::talk::{Line, Ws, lock};

/// What a plain GET of the door's path answers.
async fn who_leads(world: &World, place: usize) -> Value {
    let address = world.servers[place].address();
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.expect("it is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is HTTP");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    serde_json::from_str(body).expect("it is JSON")
}

/// Asks a member until it knows where clients reach the leader.
async fn until_told(world: &World, place: usize) -> Value {
    let address = json!(world.servers[world.leader()].address().to_string());
    soon(async {
        loop {
            let told = who_leads(world, place).await;
            if told["leaderAddr"] == address {
                return told;
            }
        }
    })
    .await
}

// Requirements: S1-015, S1-066, S1-069.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_wants_the_leader_is_sent_to_it() {
    let world = world(3).await;
    world.tell_addresses().await;
    let leader = world.leader();
    let id = |place: usize| world.cluster.nodes()[place].handle().status().id;
    let follower = (leader + 1) % 3;
    let told = until_told(&world, follower).await;
    assert_eq!(told["success"], json!(false));
    assert_eq!(told["leaderId"].as_u64(), Some(id(leader)));
    assert!(told["term"].as_u64() > Some(0));
    assert_eq!(until_told(&world, leader).await["success"], json!(true));
    // A member that follows serves all the same, unless it is told not to.
    let mut any = Ws::open(&world.servers[follower]).await;
    any.acquire("a", "any").await;
    any.granted("a").await;
    let mut picky = Ws::open_at(&world.servers[follower], "/v1/ws?leader=required").await;
    let told = picky.hear().await;
    let address = world.servers[leader].address().to_string();
    assert_eq!((&told["success"], &told["leaderAddr"]), (&json!(false), &json!(address)));
    assert_eq!(picky.end().await.expect("it says why").code, CloseCode::Again);
    let mut picky = Ws::open_at(&world.servers[leader], "/v1/ws?leader=required").await;
    picky.acquire("b", "picky").await;
    picky.granted("b").await;
    // When another one leads, it is told so, and finds its lock where it was.
    let mut admin = world.admin(leader).await;
    let moved = soon(admin.move_leader(v1::MoveLeaderRequest { to: id(follower) })).await;
    moved.expect("it is handed over");
    let told = picky.hear().await;
    assert_eq!(told["success"], json!(false));
    assert_eq!(picky.end().await.expect("it says why").code, CloseCode::Again);
    until_told(&world, follower).await;
    let mut picky = Ws::open_at(&world.servers[follower], "/v1/ws?leader=required").await;
    picky.say(&lock(7, "b", "picky")).await;
    assert_eq!(picky.hear().await["result"], json!("renewed"));
}

/// Where a member sends those who want the leader, or nothing if it serves them.
async fn sent_on(world: &World, place: usize) -> Option<String> {
    let mut ws = Ws::open_at(&world.servers[place], "/v1/ws?leader=required").await;
    ws.acquire("hop", "hopper").await;
    let told = ws.hear().await;
    if told["success"] == json!(true) {
        return None;
    }
    assert_eq!(ws.end().await.expect("it says why").code, CloseCode::Again);
    Some(told["leaderAddr"].as_str().unwrap_or_default().to_owned())
}

// Requirements: S1-067.
#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_found_over_several_hops() {
    let world = world(3).await;
    world.tell_addresses().await;
    let first = world.leader();
    let (asked, last) = ((first + 1) % 3, (first + 2) % 3);
    until_told(&world, asked).await;
    let address = |place: usize| world.servers[place].address().to_string();
    let place = |at: &str| (0..3).find(|&place| address(place) == at).expect("a member is named");
    let hop = place(&sent_on(&world, asked).await.expect("it follows"));
    assert_eq!(hop, first);
    // Before that one is asked, another one leads.
    let to = world.cluster.nodes()[last].handle().status().id;
    let moved = soon(world.admin(first).await.move_leader(v1::MoveLeaderRequest { to })).await;
    moved.expect("it is handed over");
    until_told(&world, hop).await;
    let hop = place(&sent_on(&world, hop).await.expect("it leads no more"));
    assert_eq!(hop, last);
    until_told(&world, hop).await;
    assert_eq!(sent_on(&world, hop).await, None, "it leads");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_keeps_its_place_when_the_leader_is_killed() {
    let mut world = world(3).await;
    let leader = world.leader();
    let (one, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut holder = Ws::open(&world.servers[one]).await;
    holder.acquire("a", "holder").await;
    let first = holder.granted("a").await;
    let mut locks = world.locks(one).await;
    // They wait on members that stay, in this order.
    let mut second = Ws::open(&world.servers[other]).await;
    second.acquire("a", "second").await;
    until_waiters(&mut locks, "a", 1).await;
    let mut third = Line::open(&world.servers[one]).await;
    let payload = json!({ "key": "a", "owner": "third", "ttl": 60_000, "wait_ms": 600_000 });
    third.say(&json!({ "type": "acquire_lock", "payload": payload }).to_string()).await;
    until_waiters(&mut locks, "a", 2).await;
    let places = |lock: &v1::Lock| -> BTreeMap<String, String> {
        let place = |one: &v1::Waiter| (one.client_id.clone(), one.key.clone());
        lock.waiters.iter().map(place).collect()
    };
    let before = places(&get_lock(&mut locks, "a").await);
    world.cluster.take(leader).kill();
    // Asked at once, before there is another leader: it waits for one. It is the same request, so
    // the place is the same.
    second.acquire("a", "second").await;
    // A release that nobody is told of is done as soon as it can be.
    holder.release("a", "holder").await;
    let token = second.granted("a").await;
    assert!(token > first);
    assert_eq!(second.granted("a").await, token);
    let now = soon(async {
        loop {
            let get = v1::GetLockRequest {
                name: "a".into(),
                waiters_max: 9,
                ..v1::GetLockRequest::default()
            };
            if let Ok(told) = locks.get_lock(get).await {
                return told.into_inner().lock.expect("every lock can be looked at");
            }
        }
    })
    .await;
    assert_eq!(now.holders[0].key, before["second"], "it kept its place");
    assert_eq!(places(&now).get("third"), before.get("third"), "it kept its place");
    second.release("a", "second").await;
    let told = third.hear().await;
    assert_eq!(told["success"], json!(true), "{told}");
    assert_eq!(get_lock(&mut locks, "a").await.holders[0].key, before["third"]);
}

/// What every answer about the members says of the leader.
async fn assert_names_leader(told: &Value, world: &World) {
    let leader = world.leader();
    let mut admin = world.admin(leader).await;
    let status = admin.status(v1::StatusRequest {}).await.expect("it is answered").into_inner();
    let header = status.header.expect("it has one");
    assert_eq!(told["leaderId"].as_u64(), Some(header.member_id), "{told}");
    assert_eq!(told["leaderAddr"], json!(world.servers[leader].address().to_string()));
    assert_eq!(told["term"].as_u64(), Some(header.raft_term));
    assert!(header.raft_term > 0);
}

// Requirements: S1-026, S1-027, S1-030, S1-031, S1-106.
#[tokio::test(flavor = "multi_thread")]
async fn members_are_listed_added_and_removed() {
    let world = world(3).await;
    world.tell_addresses().await;
    let leader = world.leader();
    until_told(&world, leader).await;
    let mut ws = Ws::open(&world.servers[leader]).await;
    let add = json!({
        "commandType": 4, "serverId": 4_444, "serverName": "n4", "serverAddr": "127.0.0.1:1",
        "requestId": 1,
    });
    ws.say(&add).await;
    let told = ws.hear().await;
    assert_eq!(told["success"], json!(true), "{told}");
    assert_names_leader(&told, &world).await;
    // Any term may be named, as in the founding message: it changes nothing.
    ws.say(&json!({ "commandType": 8, "term": 1, "requestId": 2 })).await;
    let told = ws.hear().await;
    assert_eq!((&told["success"], &told["requestId"]), (&json!(true), &json!(2)), "{told}");
    assert_names_leader(&told, &world).await;
    let (set, addresses) = (&told["peerSet"], &told["peerAddress"]);
    let mut listed = Vec::new();
    for node in world.cluster.nodes() {
        let status = node.handle().status();
        let key = status.id.to_string();
        let role = if status.id == told["leaderId"] { "leader" } else { "voter" };
        assert_eq!(set[&key]["role"], json!(role), "{told}");
        assert_eq!(addresses[&key], json!(status.peer));
        listed.push(key);
    }
    assert_eq!(set["4444"]["name"], json!("n4"));
    assert_eq!(set["4444"]["role"], json!("learner"));
    assert_eq!(addresses["4444"], json!("127.0.0.1:1"));
    listed.push("4444".to_owned());
    listed.sort();
    for answered in [set, addresses] {
        let mut keys: Vec<&String> = answered.as_object().expect("an object").keys().collect();
        keys.sort();
        assert_eq!(keys, listed.iter().collect::<Vec<_>>());
    }
    // Another member names the leader in the place of the list.
    let asked = (leader + 1) % 3;
    until_told(&world, asked).await;
    let mut follower = Ws::open(&world.servers[asked]).await;
    follower.say(&json!({ "commandType": 8, "requestId": 3 })).await;
    let told = follower.hear().await;
    assert_eq!(told["success"], json!(false), "{told}");
    assert_eq!((told.get("peerSet"), told.get("peerAddress")), (None, None), "{told}");
    assert_names_leader(&told, &world).await;
    assert_eq!(told["error"]["code"], json!("not_leader"));
    // A key of the answers names a member.
    ws.say(&json!({ "commandType": 5, "serverId": "4444" })).await;
    let told = ws.hear().await;
    assert_eq!(told["success"], json!(true), "{told}");
    assert_names_leader(&told, &world).await;
    ws.say(&json!({ "commandType": 8 })).await;
    let set = ws.hear().await["peerSet"].as_object().cloned().expect("an object");
    assert!(set.len() == 3 && !set.contains_key("4444"), "{set:?}");
    // The founding message has a number and an address, and no name.
    let founding = json!({ "commandType": 4, "serverId": 5_555, "serverAddr": "127.0.0.1:2" });
    ws.say(&founding).await;
    let told = ws.hear().await;
    assert_eq!(told["success"], json!(true), "{told}");
    ws.say(&json!({ "commandType": 8 })).await;
    let told = ws.hear().await;
    assert_eq!(told["peerAddress"]["5555"], json!("127.0.0.1:2"), "{told}");
    assert!(told["peerSet"]["5555"]["name"].as_str().is_some_and(|name| !name.is_empty()));
}

// Requirements: S1-031, S1-106.
#[tokio::test(flavor = "multi_thread")]
async fn former_leader_names_the_new_one_and_lists_no_members() {
    let world = world(3).await;
    world.tell_addresses().await;
    let (first, next) = (world.leader(), (world.leader() + 1) % 3);
    until_told(&world, first).await;
    let mut ws = Ws::open(&world.servers[first]).await;
    ws.say(&json!({ "commandType": 8, "term": 1 })).await;
    let led = ws.hear().await;
    assert_eq!(led["success"], json!(true), "{led}");
    let to = world.cluster.nodes()[next].handle().status().id;
    let moved = soon(world.admin(first).await.move_leader(v1::MoveLeaderRequest { to })).await;
    moved.expect("it is handed over");
    until_told(&world, first).await;
    ws.say(&json!({ "commandType": 8, "term": 1 })).await;
    let told = ws.hear().await;
    assert_eq!(told["success"], json!(false), "{told}");
    assert_eq!((told.get("peerSet"), told.get("peerAddress")), (None, None), "{told}");
    assert_eq!(told["error"]["code"], json!("not_leader"));
    assert_eq!(told["leaderId"].as_u64(), Some(to), "{told}");
    assert!(told["term"].as_u64() > led["term"].as_u64(), "{told}");
    assert_names_leader(&told, &world).await;
}

// Requirements: S1-033.
#[tokio::test(flavor = "multi_thread")]
async fn member_list_is_answered_without_a_quorum() {
    let mut world = world(3).await;
    let leader = world.leader();
    let mut ws = Ws::open(&world.servers[leader]).await;
    for place in (0..3).rev().filter(|&place| place != leader) {
        world.cluster.take(place).kill();
    }
    // Until it notices that it is alone it lists the members, and later it knows no leader.
    for number in 0..20 {
        ws.say(&json!({ "commandType": 8, "requestId": number })).await;
        let told = ws.hear().await;
        assert_eq!(told["requestId"], json!(number), "{told}");
        if told["success"] == json!(true) {
            assert_eq!(told["peerSet"].as_object().map(serde_json::Map::len), Some(3), "{told}");
        } else {
            assert_eq!(told["error"]["code"], json!("not_leader"), "{told}");
        }
    }
}
