//! `store --replicated`: data in the cluster, written only by the holder of the lock.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fencepost_client::{Client, Guard, HeldPut, proto};
use fencepost_fence::signed::{Grant, PublicKey, Signer};
use fencepost_fence::{Presented, Token};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::store::Store;
use crate::support::{Done, Server, command, folder, until};

/// The answer to a write.
struct Answer {
    status: u16,
    error: String,
    is_indeterminate: bool,
}

impl Answer {
    fn of((head, body): (String, String)) -> Answer {
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.expect("a status");
        let body: Value = serde_json::from_str(&body).expect("it is JSON");
        assert_eq!(body["success"], status == 200, "{body}");
        let error = body["error"].as_str().unwrap_or_default().to_owned();
        Answer { status, error, is_indeterminate: body["indeterminate"] == true }
    }

    #[track_caller]
    fn refused(&self, status: u16, text: &str) {
        assert_eq!(self.status, status, "{}", self.error);
        assert!(self.error.contains(text), "{} does not say {text:?}", self.error);
        assert!(!self.is_indeterminate, "{}", self.error);
    }
}

fn body(client: &str, key: &str, token: i64, data: &str) -> String {
    let token = json!({ "key": key, "value": token });
    json!({ "clientID": client, "fencingToken": token, "data": data }).to_string()
}

impl Store {
    fn replicated(cluster: &Cluster, more: &[&str]) -> Store {
        let endpoints = cluster.endpoints();
        let usual = ["--replicated", "--endpoints", &endpoints];
        Store::start(cluster.home.path(), &[&usual, more].concat())
    }

    fn put(&self, client: &str, key: &str, token: i64, data: &str) -> Answer {
        Answer::of(self.post("/", &body(client, key, token, data)))
    }

    fn record(&self, key: &str) -> Value {
        serde_json::from_str(&self.get(&format!("/?key={key}"))).expect("it is JSON")
    }
}

async fn client(endpoints: &str, name: &str) -> Client {
    let builder = Client::builder().endpoints(endpoints.split(',')).name(name);
    let builder = builder.request_timeout(Duration::from_secs(30));
    builder.connect().await.expect("the service answers")
}

/// Holds a lock for longer than any test takes.
async fn hold(client: &Client, lock: &str) -> Guard {
    let lock = client.lock(lock).ttl(Duration::from_secs(600)).wait(Duration::from_secs(60));
    lock.acquire().await.expect("it becomes free")
}

// Requirements: S1-002, S1-102, S1-111.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_holder_is_refused_before_the_new_one_writes() {
    let mut cluster = Cluster::form();
    let store = Store::replicated(&cluster, &[]);
    let endpoints = cluster.endpoints();
    let (a, b) = (client(&endpoints, "a").await, client(&endpoints, "b").await);
    let guard = hold(&a, "jobs/2a").await;
    let old = guard.token().get();
    assert_eq!(store.put(a.name(), "jobs/2a", old, "by a").status, 200);
    guard.release().await.expect("it is held");
    // The lock is free: its last token holds nothing.
    let late = store.put(a.name(), "jobs/2a", old, "late");
    late.refused(409, &format!("Token {old} does not hold the lock \"jobs/2a\""));
    let leader = cluster.leader();
    cluster.kill(leader);
    let guard = hold(&b, "jobs/2a").await;
    let new = guard.token().get();
    let late = store.put(a.name(), "jobs/2a", old, "late");
    late.refused(409, &format!("Token {old} is stale, last seen was {new}"));
    let record = store.record("jobs/2a");
    let written = json!({
        "key": "jobs/2a", "value": old, "mode": "exclusive", "clientID": a.name(), "data": "by a"
    });
    assert_eq!(record, written, "what was acknowledged survives the leader");
    // A number that was made up, higher than any.
    let forged = store.put(b.name(), "jobs/2a", i64::MAX, "forged");
    forged.refused(409, "does not hold the lock");
    // The number of the holder, from another client.
    let other = store.put("mallory", "jobs/2a", new, "forged");
    other.refused(409, "was not granted to the client \"mallory\"");
    assert_eq!(store.record("jobs/2a"), written);
    assert_eq!(store.put("", "jobs/2a", new, "by b").status, 200);
    let record = store.record("jobs/2a");
    assert_eq!((&record["clientID"], &record["value"]), (&json!(b.name()), &json!(new)));
    assert_eq!(record["data"], "by b");
}

/// The lock may pass on after it was looked at: the transaction looks at it again.
// Requirements: S1-002, S1-102, S2-023.
#[tokio::test(flavor = "multi_thread")]
async fn the_transaction_refuses_a_holder_of_before() {
    let home = folder();
    let server = Server::alone(home.path());
    let (a, b) = (client(&server.endpoint, "a").await, client(&server.endpoint, "b").await);
    let guard = hold(&a, "k").await;
    let holder = a.get_lock("k").await.expect("it is held").holders.remove(0);
    let kv = a.kv();
    let put = |replaces, value: &'static str, holder| kv.put_held("d", value, replaces, holder);
    let written = match put(0, "one", &holder).await.expect("it is answered") {
        HeldPut::Written(revision) => revision,
        other => panic!("{other:?}"),
    };
    // Each write names the version that it replaces.
    assert_eq!(put(0, "two", &holder).await, Ok(HeldPut::Changed));
    assert_eq!(put(written - 1, "two", &holder).await, Ok(HeldPut::Changed));
    guard.release().await.expect("it is held");
    assert_eq!(put(written, "late", &holder).await, Ok(HeldPut::NotHeld));
    let guard = hold(&b, "k").await;
    assert_eq!(put(written, "late", &holder).await, Ok(HeldPut::NotHeld));
    // The key of the present holder with the number of the one before, and the other way round.
    let present = a.get_lock("k").await.expect("it is held").holders.remove(0);
    assert_eq!(present.fencing_token, guard.token().get());
    let (create_revision, lease_id) = (holder.create_revision, holder.lease_id);
    let mixed = [
        proto::Holder { create_revision, ..present.clone() },
        proto::Holder { lease_id, ..present.clone() },
    ];
    for mixed in &mixed {
        assert_eq!(put(written, "late", mixed).await, Ok(HeldPut::NotHeld));
    }
    assert_eq!(server.run(&["kv", "get", "d"]).good(), "one\n");
    assert!(matches!(put(written, "two", &present).await, Ok(HeldPut::Written(_))));
}

// Requirements: S1-002, S1-111.
#[tokio::test(flavor = "multi_thread")]
async fn two_stores_of_one_cluster_agree() {
    let cluster = Cluster::form();
    let stores = [(); 2].map(|()| Store::replicated(&cluster, &["--strict"]));
    let a = client(&cluster.endpoints(), "a").await;
    for round in 0..5 {
        let guard = hold(&a, "k").await;
        let token = guard.token().get();
        // Each exclusive token writes once, whichever store it is sent to.
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            for lane in 0..8 {
                let (store, name, done) = (&stores[lane % 2], a.name(), &done);
                scope.spawn(move || {
                    let answer = store.put(name, "k", token, &format!("{round} by {lane}"));
                    match answer.status {
                        200 => drop(done.fetch_add(1, Ordering::SeqCst)),
                        _ => answer.refused(409, &format!("Token {token} already used")),
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::SeqCst), 1);
        assert_eq!(stores[0].record("k"), stores[1].record("k"));
        assert_eq!(stores[0].record("k")["value"], token);
        guard.release().await.expect("it is held");
        for store in &stores {
            store.put(a.name(), "k", token, "late").refused(409, "does not hold the lock");
        }
    }
}

// Requirements: S1-002.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_without_a_quorum_says_what_it_does_not_know() {
    let mut cluster = Cluster::form();
    let store = Store::replicated(&cluster, &["--timeout", "1s"]);
    let a = client(&cluster.endpoints(), "a").await;
    let guard = hold(&a, "k").await;
    let token = guard.token().get();
    assert_eq!(store.put(a.name(), "k", token, "before").status, 200);
    let leader = cluster.leader();
    let killed = [leader, (leader + 1) % 3];
    // Writes are under way while the quorum is lost.
    let acknowledged = AtomicU64::new(0);
    let is_lost = AtomicBool::new(false);
    let unknown = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut unknown = Vec::new();
            for number in 1.. {
                let answer = store.put(a.name(), "k", token, &number.to_string());
                match answer.status {
                    200 => acknowledged.store(number, Ordering::SeqCst),
                    503 => assert!(!answer.is_indeterminate, "{}", answer.error),
                    504 => {
                        assert!(answer.is_indeterminate, "{}", answer.error);
                        assert!(answer.error.contains("may or may not have happened"));
                        unknown.push(number);
                    }
                    other => panic!("{other}: {}", answer.error),
                }
                if answer.status != 200 && is_lost.load(Ordering::SeqCst) {
                    break;
                }
            }
            unknown
        });
        until(|| if acknowledged.load(Ordering::SeqCst) > 20 { Ok(()) } else { Err(()) });
        killed.iter().for_each(|&place| cluster.kill(place));
        is_lost.store(true, Ordering::SeqCst);
        writer.join().expect("it found what it should")
    });
    let (status, _) = store.raw("GET /?key=k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    killed.iter().for_each(|&place| cluster.start(place));
    // What was acknowledged is there, or a write behind it whose outcome was unknown.
    let record = until(|| match store.record("k") {
        record if record["data"].is_string() => Ok(record),
        refused => Err(refused),
    });
    let found: u64 = record["data"].as_str().and_then(|text| text.parse().ok()).expect("a number");
    let last = acknowledged.load(Ordering::SeqCst);
    assert!(found == last || unknown.contains(&found), "{last} acknowledged, {found} found");
    assert!(found >= last, "{last} acknowledged, {found} found");
    assert_eq!(store.put(a.name(), "k", token, "after").status, 200);
}

/// A proxy in front of a server. After a request with these bytes it still passes requests on, and
/// drops all answers.
fn proxy_until(server: &Server, mark: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = format!("http://{}", listener.local_addr().expect("it listens"));
    let server = server.endpoint.trim_start_matches("http://").to_owned();
    let drops_answers = Arc::new(AtomicBool::new(false));
    let pass = move |mut from: TcpStream, mut to: TcpStream, mut lets: Box<Lets>| {
        thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                if lets(&bytes[..read]) && to.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
        });
    };
    thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&server).expect("it listens");
            let again = |stream: &TcpStream| stream.try_clone().expect("it is a socket");
            let (marks, drops) = (drops_answers.clone(), drops_answers.clone());
            let pass_request = move |bytes: &[u8]| {
                let is_marked = bytes.windows(mark.len()).any(|part| part == mark.as_bytes());
                marks.fetch_or(is_marked, Ordering::SeqCst);
                true
            };
            pass(again(&near), again(&far), Box::new(pass_request));
            pass(far, near, Box::new(move |_: &[u8]| !drops.load(Ordering::SeqCst)));
        }
    });
    address
}

/// Whether bytes are passed on.
type Lets = dyn FnMut(&[u8]) -> bool + Send;

// Requirements: S1-002.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_is_lost_is_unknown_and_done_once() {
    let home = folder();
    let server = Server::alone(home.path());
    let a = client(&server.endpoint, "a").await;
    let guard = hold(&a, "k").await;
    let token = guard.token().get();
    let far = proxy_until(&server, "swallowed");
    let start = |endpoint: &str| {
        let usual = ["--replicated", "--timeout", "1s", "--endpoints", endpoint];
        Store::start(home.path(), &usual)
    };
    let (cut, other) = (start(&far), start(&server.endpoint));
    assert_eq!(cut.put("", "k", token, "first").status, 200);
    let lost = cut.put("", "k", token, "swallowed");
    assert_eq!((lost.status, lost.is_indeterminate), (504, true), "{}", lost.error);
    assert!(lost.error.contains("the write may or may not have happened"), "{}", lost.error);
    // It was done, and once.
    assert_eq!(other.record("k")["data"], "swallowed");
    let found = server.json(&["kv", "get", "data:k"]);
    assert_eq!(found["kvs"][0]["version"], 2, "{found}");
    // Before anything is sent that writes, nothing is unknown.
    let refused = cut.put("", "k", token, "third");
    refused.refused(503, "nothing was written");
}

// Requirements: S0-075.
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_of_the_same_data_passes_at_another_store() {
    let home = folder();
    let server = Server::alone(home.path());
    let start = || {
        let usual = ["--replicated", "--same-data", "--endpoints", &server.endpoint];
        Store::start(home.path(), &usual)
    };
    let a = client(&server.endpoint, "a").await;
    let guard = hold(&a, "k").await;
    let token = guard.token().get();
    assert_eq!(start().put("", "k", token, "five").status, 200);
    let other = start();
    assert_eq!(other.put("", "k", token, "five").status, 200);
    let refused = other.put("", "k", token, "another five");
    refused.refused(409, &format!("Token {token} already used"));
    assert_eq!(other.record("k")["data"], "five");
}

// Requirements: S1-002.
#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_change_nothing_in_the_cluster() {
    let home = folder();
    let server = Server::alone(home.path());
    let store = Store::start(home.path(), &["--replicated", "--endpoints", &server.endpoint]);
    let a = client(&server.endpoint, "a").await;
    let guard = hold(&a, "k").await;
    let token = guard.token().get();
    assert_eq!(store.put("", "k", token, "good").status, 200);
    let before = server.json(&["kv", "get", "--prefix", ""]);
    // Its slashes are escaped, and then it is longer than any key may be.
    let long = "a/".repeat(300);
    let held = hold(&a, &long).await;
    store.put("", &long, held.token().get(), "x").refused(400, "1024");
    held.release().await.expect("it is held");
    store.put("", "", token, "x").refused(400, "0 bytes");
    store.put("", "none", token, "x").refused(409, "does not hold the lock");
    store.put("", "k", 0, "x").refused(400, "token");
    store.put(a.name(), "k", token, &"x".repeat(1 << 20)).refused(400, "");
    let shared = body("", "k", token, "x").replace("\"value\"", "\"mode\":\"shared\",\"value\"");
    Answer::of(store.post("/", &shared)).refused(409, "is of mode exclusive");
    for bad in ["", "{}", "null", "[]", "{\"clientID\":\"a\"}"] {
        Answer::of(store.post("/", bad)).refused(400, "");
    }
    assert_eq!(server.json(&["kv", "get", "--prefix", ""])["kvs"], before["kvs"]);
    // A key that another program wrote is neither read nor written over.
    server.run(&["kv", "put", "data:k", "mine"]).good();
    store.put("", "k", token, "x").refused(409, "was not written by a store");
    assert!(store.get("/?key=k").contains("was not written by a store"));
    assert_eq!(store.get("/"), r#"{"entries":[],"more":false}"#);
    assert_eq!(server.run(&["kv", "get", "data:k"]).good(), "mine\n");
    let moved = before["kvs"][0]["value"].as_str().expect("it is text");
    server.run(&["kv", "put", "data:none", moved]).good();
    assert!(store.get("/?key=none").contains("it names another key"));
}

// Requirements: S1-002.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_from_the_cluster_comes_in_pages() {
    let home = folder();
    let server = Server::alone(home.path());
    let store = Store::start(home.path(), &["--replicated", "--endpoints", &server.endpoint]);
    let a = client(&server.endpoint, "a").await;
    let names = ["a", "a/b", "b", "c%2F", "d"];
    let mut guards = Vec::new();
    for name in names {
        let guard = hold(&a, name).await;
        assert_eq!(store.put("", name, guard.token().get(), "x").status, 200);
        guards.push(guard);
    }
    // Keys of other programs between them are no entries.
    for foreign in ["data:a!", "data:a!1", "data:a!2", "data:aa", "data:z", "data"] {
        server.run(&["kv", "put", foreign, "1"]).good();
    }
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = store.get(&format!("/?limit=2&after={after}"));
        let page: Value = serde_json::from_str(&page).expect("it is JSON");
        let entries = page["entries"].as_array().expect("a list");
        // Keys of other programs do not fill a page.
        assert!(!entries.is_empty() || page["more"] == false, "{page}");
        let keys = entries.iter().map(|one| one["key"].as_str().expect("it has one").to_owned());
        seen.extend(keys);
        if page["more"] == false {
            break;
        }
        after = seen.last().expect("a page has entries").replace('%', "%25");
    }
    assert_eq!(seen, names);
}

#[test]
fn a_replicated_store_needs_a_cluster_to_start() {
    let home = folder();
    let run = |args: &[&str]| {
        let usual = ["store", "--listen", "127.0.0.1:0", "--replicated", "--timeout", "500ms"];
        Done::of(command(home.path(), usual.iter().chain(args)))
    };
    let nothing = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let address = nothing.local_addr().expect("it listens").to_string();
    drop(nothing);
    let text = run(&["--endpoints", &address]).refused(1);
    assert!(text.contains("cannot reach the service"), "{text}");
    assert!(run(&["--prefix", "data/"]).refused(2).contains("the prefix \"data/\""));
    assert!(run(&["--file", "f"]).refused(2).contains("contradict each other"));
}

// Requirements: S1-102.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_a_cluster_can_demand_signed_tokens() {
    let cluster = Cluster::form();
    let signer = Signer::in_memory().expect("there is randomness");
    let keys = PublicKey::set([signer.public()]);
    std::fs::write(cluster.home.path().join("keys.json"), keys).expect("there is room");
    let flags = ["--require-signed", "--jwks", "keys.json", "--cluster", "c0ffee"];
    let store = Store::replicated(&cluster, &flags);
    let a = client(&cluster.endpoints(), "a").await;
    let guard = hold(&a, "k").await;
    let token = guard.token().get();
    // The holder's own number, but nothing that proves it.
    assert_eq!(store.put(a.name(), "k", token, "bare").status, 401);
    let signed = |number: i64, data: &str| {
        let number = number.unsigned_abs();
        let token = Token::new(number).expect("it is not zero");
        let grant = Grant {
            cluster: "c0ffee",
            incarnation: 0,
            lock: "k",
            presented: Presented::exclusive(token),
            lease: "1",
            holder: a.name(),
            revision: number,
            audience: &[],
            expires_at: None,
        };
        let text = signer.sign(&grant, 1_800_000_000);
        let token = json!({ "key": "k", "signed": text });
        let body = json!({ "clientID": a.name(), "fencingToken": token, "data": data });
        Answer::of(store.post("/", &body.to_string())).status
    };
    assert_eq!(signed(token + 1, "higher"), 409, "it was never granted");
    assert_eq!(signed(token, "signed"), 200);
    assert_eq!(store.record("k")["data"], "signed");
}
