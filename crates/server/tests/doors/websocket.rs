//! What is said over WebSocket.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::{acquired, get_lock, lease, soon, unlock, until_waiters, world};
use crate::talk::{ACQUIRE, RELEASE, Ws, lock};

// Requirements: S1-015, S1-021, S1-022, S1-024, S1-025, S1-069.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_pushed_and_a_release_is_not_answered() {
    let world = world(1).await;
    let (mut one, mut two) = (Ws::open(&world.servers[0]).await, Ws::open(&world.servers[0]).await);
    one.acquire("a", "client-1").await;
    let told = one.hear().await;
    assert_eq!(told["success"], json!(true));
    assert_eq!(told["fencingToken"]["key"], json!("a"));
    let first = told["fencingToken"]["value"].as_u64().expect("a token is a number");
    two.acquire("a", "client-2").await;
    until_waiters(&mut world.locks(0).await, "a", 1).await;
    one.release("a", "client-1").await;
    let second = two.granted("a").await;
    assert!(second > first, "tokens grow");
    // The next thing that the first one hears is not about its release.
    one.say(&json!({ "commandType": 6, "key": "a", "requestId": "after" })).await;
    assert_eq!(one.hear().await["requestId"], json!("after"));
    let lock = get_lock(&mut world.locks(0).await, "a").await;
    assert_eq!(lock.holders[0].client_id, "client-2");
    assert_eq!(lock.holders[0].fencing_token, i64::try_from(second).expect("it is small"));
}

// Requirements: S1-024.
#[tokio::test(flavor = "multi_thread")]
async fn every_answer_carries_the_request_id() {
    let world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    let with = |id: Value, mut message: Value| {
        message["requestId"] = id;
        message
    };
    let mut ask = async |message: Value| {
        let id = message["requestId"].clone();
        ws.say(&message).await;
        let told = ws.hear().await;
        assert_eq!(told["requestId"], id, "{told}");
        assert_eq!(told["commandType"], message["commandType"], "{told}");
        told
    };
    let told = ask(with(json!(7), lock(ACQUIRE, "a", "c"))).await;
    assert_eq!((&told["success"], &told["result"]), (&json!(true), &json!("acquired")));
    let again = ask(with(json!("again"), lock(ACQUIRE, "a", "c"))).await;
    assert_eq!(
        (&again["result"], &again["fencingToken"]),
        (&json!("renewed"), &told["fencingToken"])
    );
    let renewed = ask(with(json!("r"), lock(7, "a", "c"))).await;
    assert_eq!(renewed["result"], json!("renewed"));
    // Without time to wait, somebody else is told at once who has it.
    let mut other = with(json!("try"), lock(ACQUIRE, "a", "d"));
    other["wait"] = json!(0);
    let denied = ask(other.clone()).await;
    assert_eq!((&denied["success"], &denied["key"]), (&json!(false), &json!("a")));
    assert_eq!(denied["error"]["code"], json!("lock_held"));
    assert_eq!(denied["error"]["message"], json!("Lock held by c"));
    assert!(denied.get("fencingToken").is_none(), "a token comes only with a grant");
    other["wait"] = json!("50ms");
    assert_eq!(ask(other).await["error"]["code"], json!("lock_held"));
    let foreign = ask(with(json!("x"), lock(RELEASE, "a", "d"))).await;
    assert_eq!(foreign["error"]["message"], json!("Not the lock owner"));
    let released = ask(with(json!(1.5), lock(RELEASE, "a", "c"))).await;
    assert_eq!((&released["success"], &released["result"]), (&json!(true), &json!("released")));
    let nothing = ask(with(json!(2), lock(RELEASE, "a", "c"))).await;
    assert_eq!((&nothing["success"], &nothing["result"]), (&json!(true), &json!("not_found")));
    let lost = ask(with(json!(3), lock(7, "a", "c"))).await;
    assert_eq!(lost["error"]["code"], json!("not_holder"));
}

#[tokio::test(flavor = "multi_thread")]
async fn data_is_appended_and_read_through_the_log() {
    let world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    ws.say(&json!({ "commandType": 6, "key": "k" })).await;
    assert_eq!(ws.hear().await["found"], json!(false));
    ws.say(&json!({ "commandType": 3, "key": "k", "clientId": "c", "data": "grüße" })).await;
    let written = ws.hear().await;
    assert_eq!(written["success"], json!(true));
    ws.say(&json!({ "commandType": 6, "key": "k" })).await;
    let read = ws.hear().await;
    assert_eq!((&read["found"], &read["data"]), (&json!(true), &json!("grüße")));
    assert_eq!(read["modRevision"], written["revision"]);
}

// Requirements: S0-134, S1-023.
#[tokio::test(flavor = "multi_thread")]
async fn both_spellings_and_units_are_understood() {
    let world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    let mut locks = world.locks(0).await;
    ws.say(&json!({ "commandType": 1, "key": "a", "clientID": "c", "ttl": "90s" })).await;
    let told = ws.hear().await;
    assert_eq!(told["remainingMs"], json!(90_000));
    assert_eq!(get_lock(&mut locks, "a").await.holders[0].client_id, "c");
    // Half a minute, if nothing is said.
    ws.say(&json!({ "commandType": 1, "key": "b", "clientId": "c" })).await;
    assert_eq!(ws.hear().await["remainingMs"], json!(30_000));
    ws.say(&json!({ "commandType": 1, "key": "c", "clientId": "c", "ttl": 1_500 })).await;
    assert_eq!(ws.hear().await["remainingMs"], json!(1_500));
    // It ends by itself, and the next one is told.
    ws.acquire("c", "d").await;
    ws.granted("c").await;
}

// Requirements: S1-071.
#[tokio::test(flavor = "multi_thread")]
async fn many_locks_are_held_and_waited_for_on_one_connection() {
    const LOCKS: usize = 200;
    let world = world(1).await;
    let (mut one, mut two) = (Ws::open(&world.servers[0]).await, Ws::open(&world.servers[0]).await);
    for number in 0..LOCKS {
        one.acquire(&format!("many/{number}"), "one").await;
    }
    let mut tokens = std::collections::BTreeMap::new();
    for _ in 0..LOCKS {
        let told = one.hear().await["fencingToken"].take();
        let key = told["key"].as_str().expect("it is a text").to_owned();
        tokens.insert(key, told["value"].as_u64().expect("it is a number"));
    }
    assert_eq!(tokens.len(), LOCKS);
    for number in 0..LOCKS {
        two.acquire(&format!("many/{number}"), "two").await;
    }
    let mut locks = world.locks(0).await;
    until_waiters(&mut locks, &format!("many/{}", LOCKS - 1), 1).await;
    // One that waits does not hold up the others: they are given back from the last to the first.
    for number in (0..LOCKS).rev() {
        let key = format!("many/{number}");
        until_waiters(&mut locks, &key, 1).await;
        one.release(&key, "one").await;
        assert!(two.granted(&key).await > tokens[&key]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_one_owner_for_one_lock_keep_their_order() {
    const ROUNDS: u64 = 100;
    let world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    for round in 0..ROUNDS {
        let mut acquire = lock(ACQUIRE, "a", "c");
        acquire["requestId"] = json!(round);
        ws.say(&acquire).await;
        ws.release("a", "c").await;
        ws.acquire(&format!("other/{round}"), "c").await;
    }
    let mut tokens = std::collections::BTreeMap::new();
    for _ in 0..2 * ROUNDS {
        let told = ws.hear().await;
        // Were a release overtaken, the acquire behind it would find the lock held.
        assert_eq!(told["result"], json!("acquired"), "{told}");
        if told["fencingToken"]["key"] == json!("a") {
            let token = told["fencingToken"]["value"].as_u64().expect("it is a number");
            tokens.insert(told["requestId"].as_u64().expect("it is ours"), token);
        }
    }
    // Answers may overtake each other, what they tell of may not.
    assert_eq!(tokens.len() as u64, ROUNDS);
    assert!(tokens.values().is_sorted_by(|one, next| one < next), "{tokens:?}");
    let mut locks = world.locks(0).await;
    soon(async { while !get_lock(&mut locks, "a").await.holders.is_empty() {} }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_ends_the_wait() {
    let world = world(1).await;
    let (mut one, mut two) = (Ws::open(&world.servers[0]).await, Ws::open(&world.servers[0]).await);
    one.acquire("a", "one").await;
    one.granted("a").await;
    two.acquire("a", "two").await;
    two.release("a", "two").await;
    let told = two.hear().await;
    assert_eq!((&told["success"], &told["error"]["code"]), (&json!(false), &json!("wait_ended")));
    assert_eq!(get_lock(&mut world.locks(0).await, "a").await.waiters_total, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_ends_gives_up_its_waits_and_keeps_its_locks() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let (mut one, mut two) = (Ws::open(&world.servers[0]).await, Ws::open(&world.servers[0]).await);
    one.acquire("a", "one").await;
    let first = one.granted("a").await;
    two.acquire("a", "two").await;
    two.acquire("a", "three").await;
    two.acquire("b", "two").await;
    two.granted("b").await;
    until_waiters(&mut locks, "a", 2).await;
    drop(two);
    until_waiters(&mut locks, "a", 0).await;
    assert_eq!(get_lock(&mut locks, "b").await.holders.len(), 1);
    drop(one);
    // It comes back over another connection, and holds what it held.
    let mut again = Ws::open(&world.servers[0]).await;
    again.acquire("a", "one").await;
    assert_eq!(again.granted("a").await, first);
}

// Requirements: S1-024.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_releases_may_go_at_once() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    for round in 0..50 {
        let mut ws = Ws::open(&world.servers[0]).await;
        ws.acquire("a", "c").await;
        ws.granted("a").await;
        ws.release("a", "c").await;
        // In order, as browsers do it, or as a process that ends.
        if round % 2 == 0 {
            ws.send(Message::Close(None)).await;
            assert_eq!(ws.end().await, None);
            assert!(ws.is_over().await, "both ends have agreed that it is over");
        }
        drop(ws);
        soon(async { while !get_lock(&mut locks, "a").await.holders.is_empty() {} }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_connections_of_one_owner_wait_on_one_place() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let native = lease(&mut locks, "native").await;
    let token = acquired(&mut locks, "a", native).await;
    let (mut one, mut two) = (Ws::open(&world.servers[0]).await, Ws::open(&world.servers[0]).await);
    one.acquire("a", "c").await;
    until_waiters(&mut locks, "a", 1).await;
    two.acquire("a", "c").await;
    two.say(&json!({ "commandType": 6, "key": "k", "requestId": 1 })).await;
    two.hear().await;
    drop(two);
    assert!(unlock(&mut locks, "a", native, token).await);
    one.granted("a").await;
}
