//! A member that stood still reads what was sent to it meanwhile. A release by owner name that names
//! no token must not end what its owner has acquired through another member since.
//!
//! `FENCEPOST_LATE_RELEASES=100` repeats each schedule so often.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use fencepost_client::proto::TextCommandRequest;
use fencepost_client::proto::lock_service_client::LockServiceClient;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::support::{PATIENCE, free_port, until};

/// How long a client waits for an answer that does not come, and then closes its connection.
const SHORT_PATIENCE: Duration = Duration::from_millis(600);
/// How long one waits that leaves its connection open.
const LONG_PATIENCE: Duration = Duration::from_millis(1_600);
/// How long the second client waits for the lock. A late release would give it to that client.
const WAIT_MS: u64 = 1_500;
/// How long the first one may hold it.
const TTL_MS: u64 = 60_000;

/// Three members that also speak JSON over TCP.
struct World {
    cluster: Cluster,
    json_tcp: Vec<u16>,
}

impl World {
    fn form() -> World {
        let json_tcp: Vec<u16> = (0..3).map(|_| free_port()).collect();
        let args =
            |place: usize| vec!["--json-tcp".to_owned(), format!("127.0.0.1:{}", json_tcp[place])];
        World { cluster: Cluster::form_with(args), json_tcp }
    }

    fn address(&self, place: usize) -> String {
        format!("127.0.0.1:{}", self.cluster.plans[place].clients)
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the port is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a time");
    stream
}

fn request(path: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The status and the document of an answer.
fn post(address: &str, path: &str, body: &Value) -> (u16, Value) {
    let mut stream = connect(address);
    stream.write_all(request(path, body).as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is answered");
    let status = answer.get(9..12).and_then(|status| status.parse().ok());
    let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
    (status.expect("it has a status"), serde_json::from_str(body).expect("it is JSON"))
}

/// Asks until it is done: there may be no leader yet.
fn done(address: &str, path: &str, body: &Value) -> Value {
    until(|| match post(address, path, body) {
        (200, told) => Ok(told),
        refused => Err(refused),
    })
}

/// Waits for an answer that does not come.
fn give_up(stream: &mut TcpStream, patience: Duration) {
    stream.set_read_timeout(Some(patience)).expect("it is a time");
    let read = stream.read(&mut [0; 1]).expect_err("a process that is stopped does not answer");
    assert!(matches!(read.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{read}");
}

/// A client's way to a member, and how it says that it gives lock `job` back.
enum Late {
    Plain(TcpStream, Vec<u8>),
    /// Calls, and waits for so long.
    Call(Box<dyn FnMut(Duration)>),
}

fn http(world: &World, place: usize) -> Late {
    let release = request("/v1/locks/release", &json!({"name": "job", "client_id": "me"}));
    let release = release.replace("Connection: close\r\n", "");
    Late::Plain(connect(&world.address(place)), release.into_bytes())
}

fn json_tcp(world: &World, place: usize) -> Late {
    let stream = connect(&format!("127.0.0.1:{}", world.json_tcp[place]));
    let release = json!({"type": "release_lock", "payload": {"key": "job", "owner": "me"}});
    Late::Plain(stream, format!("{release}\n").into_bytes())
}

fn websocket(world: &World, place: usize) -> Late {
    let mut stream = connect(&world.address(place));
    let hello = "GET /v1/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(hello.as_bytes()).expect("it is sent");
    let mut answer = Vec::new();
    let mut byte = [0; 1];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("it is answered");
        answer.extend_from_slice(&byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    // It is asked at once whether it is alive.
    stream.read_exact(&mut [0; 2]).expect("it is pinged");
    // It asks for no answer, and its client may go at once.
    let text = json!({"commandType": 2, "key": "job", "clientId": "me"}).to_string();
    let len = u8::try_from(text.len()).expect("it is short");
    // One whole text, masked with zeros.
    let mut frame = vec![0x81, 0x80 | len, 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    Late::Plain(stream, frame)
}

fn text(world: &World, place: usize) -> Late {
    let runtime = tokio::runtime::Runtime::new().expect("there is room for it");
    let endpoint = format!("http://{}", world.address(place));
    let locks = runtime.block_on(LockServiceClient::connect(endpoint)).expect("it listens");
    let mut calls = Vec::new();
    Late::Call(Box::new(move |patience| {
        let mut locks = locks.clone();
        let request = TextCommandRequest { line: "RELEASE:job:me".to_owned() };
        let mut call = runtime.spawn(async move { locks.text_command(request).await.is_ok() });
        let waited = async { tokio::time::timeout(patience, &mut call).await.is_err() };
        assert!(runtime.block_on(waited), "a stopped process does not answer");
        // It goes on as long as its connection does.
        calls.push(call);
    }))
}

impl Late {
    /// Sends the release to a stopped member, and times out.
    fn send(&mut self, patience: Duration) {
        match self {
            Late::Plain(stream, release) => {
                stream.write_all(release).expect("it is sent");
                give_up(stream, patience);
            }
            Late::Call(call) => call(patience),
        }
    }
}

/// The client of the stopped member gives up, has its release done elsewhere, and takes the lock once
/// more, before the member goes on.
fn schedule(world: &World, stopped: usize, open: fn(&World, usize) -> Late, stays_open: bool) {
    let elsewhere = world.address((stopped + 1) % 3);
    let take = json!({"name": "job", "client_id": "me", "ttl_ms": TTL_MS});
    done(&elsewhere, "/v1/locks/acquire", &take);
    let mut late = open(world, stopped);
    let member = &world.cluster.at(stopped).process;
    member.signal(Signal::STOP);
    late.send(if stays_open { LONG_PATIENCE } else { SHORT_PATIENCE });
    let late = stays_open.then_some(late);
    let release = json!({"name": "job", "client_id": "me"});
    done(&elsewhere, "/v1/locks/release", &release);
    let held = done(&elsewhere, "/v1/locks/acquire", &take);
    member.signal(Signal::CONT);
    let wants = json!({
        "name": "job", "client_id": "other", "ttl_ms": TTL_MS, "wait_ms": WAIT_MS
    });
    let (status, told) = post(&elsewhere, "/v1/locks/acquire", &wants);
    assert_eq!((status, &told["code"]), (409, &json!("lock_held")), "two hold the lock: {told}");
    let shown = world.cluster.json(&["show", "job"]);
    assert_eq!(shown["holders"][0]["token"], held["token"], "{shown}");
    // The right token is taken at once, also by the member that stood still.
    let release = json!({"name": "job", "client_id": "me", "token": held["token"]});
    let told = done(&world.address(stopped), "/v1/locks/release", &release);
    assert_eq!((&told["released"], &told["token"]), (&json!(true), &held["token"]));
    drop(late);
}

fn runs() -> usize {
    let runs = std::env::var("FENCEPOST_LATE_RELEASES").ok();
    runs.map_or(2, |runs| runs.parse().expect("it is a number"))
}

fn follower_stands_still(open: fn(&World, usize) -> Late, stays_open: bool) {
    let world = World::form();
    for _ in 0..runs() {
        let leader = world.cluster.leader();
        schedule(&world, (leader + 1) % 3, open, stays_open);
    }
}

#[test]
fn late_release_over_http_ends_no_later_holding() {
    follower_stands_still(http, false);
}

#[test]
fn late_release_over_an_open_connection_ends_no_later_holding() {
    follower_stands_still(http, true);
}

#[test]
fn late_release_over_websocket_ends_no_later_holding() {
    follower_stands_still(websocket, false);
}

#[test]
fn late_release_over_json_tcp_ends_no_later_holding() {
    follower_stands_still(json_tcp, false);
}

#[test]
fn late_release_as_text_ends_no_later_holding() {
    follower_stands_still(text, true);
}

#[test]
fn late_release_at_a_stopped_leader_ends_no_later_holding() {
    let world = World::form();
    for _ in 0..runs() {
        schedule(&world, world.cluster.leader(), http, true);
    }
}
