//! Watches as Server-Sent Events: no gap, nothing twice.

use serde_json::{Value, json};

use super::client::Http;
use crate::support::{PATIENCE, world};

/// One message of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
struct Message {
    id: String,
    event: String,
    data: Option<Value>,
    comment: String,
}

/// A stream of events, read as the standard says.
struct Events {
    http: Http,
    text: String,
}

impl Events {
    async fn open(http: Http, query: &str, last: Option<&str>) -> Events {
        let mut http = http;
        let headers: Vec<(&str, &str)> = last.map(|id| ("Last-Event-ID", id)).into_iter().collect();
        http.request(&format!("GET /v1/watch{query}"), &headers, b"").await;
        let head = http.head().await;
        assert_eq!((head.status, &*head.headers["content-type"]), (200, "text/event-stream"));
        assert_eq!(head.headers["cache-control"], "no-store");
        assert!(head.headers.contains_key("fencepost-revision"), "{head:?}");
        let mut events = Events { http, text: String::new() };
        let first = events.message().await.expect("it says that it has begun");
        assert_eq!((first.comment.as_str(), first.data), ("the watch has begun", None));
        events
    }

    /// The next message; nothing, at the end of the stream.
    async fn message(&mut self) -> Option<Message> {
        loop {
            if let Some((message, rest)) = self.text.split_once("\n\n") {
                let mut read = Message::default();
                for line in message.lines() {
                    match line.split_once(": ").expect("it is a field") {
                        ("id", id) => id.clone_into(&mut read.id),
                        ("event", event) => event.clone_into(&mut read.event),
                        ("data", data) => read.data = serde_json::from_str(data).ok(),
                        ("", comment) => comment.clone_into(&mut read.comment),
                        other => panic!("{other:?}"),
                    }
                }
                self.text = rest.to_owned();
                return Some(read);
            }
            self.text.push_str(&self.http.chunk().await?);
        }
    }

    /// How it ends, past comments.
    async fn last(&mut self) -> Message {
        loop {
            let message = self.message().await.expect("it says how it ends");
            if message.data.is_some() {
                assert_eq!(message.event, "end");
                return message;
            }
        }
    }

    /// The next event, past comments.
    async fn event(&mut self) -> (String, Value) {
        loop {
            let message = self.message().await.expect("the stream goes on");
            if let Some(data) = message.data {
                assert_eq!(message.event, "", "{data}");
                let id = format!("{}.{}", data["revision"], data["sub"]);
                assert_eq!(message.id, id);
                return (id, data);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_as_they_happen_and_again_from_where_one_left() {
    let world = world(3).await;
    let follower = &world.servers[(world.leader() + 1) % 3];
    let mut http = Http::to(&world.servers[0]).await;
    let mut live = Events::open(Http::to(follower).await, "?key=a/&prefix=true", None).await;
    let take = json!({"name": "a", "client_id": "alice", "ttl_ms": 60_000});
    let release = json!({"name": "a", "client_id": "alice"});
    for _ in 0..3 {
        http.post("/v1/locks/acquire", &take).await.ok();
        http.post("/v1/kv/put", &json!({"key": "elsewhere"})).await.ok();
        http.post("/v1/locks/release", &release).await.ok();
    }
    let mut seen = Vec::new();
    for _ in 0..9 {
        seen.push(live.event().await);
    }
    let kinds: Vec<_> = seen.iter().map(|(_, event)| event["type"].as_str()).collect();
    assert_eq!(kinds, ["put", "granted", "delete"].map(Some).repeat(3));
    let (put, granted, delete) = (&seen[0].1, &seen[1].1, &seen[2].1);
    assert_eq!(
        (&put["key"], &put["version"], &put["value"]),
        (&granted["key"], &json!(1), &json!(""))
    );
    assert_eq!((&granted["token"], &granted["client"]), (&put["revision"], &json!("alice")));
    assert_eq!(granted["lease"], put["lease"]);
    assert_eq!(delete["cause"], "released");

    // From the past, on every member; and from every event on, exactly what came after it.
    let first = put["revision"].as_u64().expect("it is a number");
    for server in &world.servers {
        let query = format!("?key=a/&prefix=true&from={first}");
        let mut again = Events::open(Http::to(server).await, &query, None).await;
        for expected in &seen {
            assert_eq!(again.event().await, *expected);
        }
    }
    for (place, (id, _)) in seen.iter().enumerate().take(8) {
        let mut rest =
            Events::open(Http::to(follower).await, "?key=a/&prefix=true", Some(id)).await;
        for expected in &seen[place + 1..] {
            assert_eq!(rest.event().await, *expected, "after {id}");
        }
    }
    // A bare revision is all of it.
    let mut rest = Events::open(Http::to(follower).await, "", Some(&first.to_string())).await;
    assert_eq!(rest.event().await.1["key"], "elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_and_is_taken_up_again_and_again_misses_nothing() {
    const WRITES: u64 = 60;
    let world = world(3).await;
    let mut http = Http::to(&world.servers[0]).await;
    let first = Events::open(Http::to(&world.servers[0]).await, "?key=k&prefix=true", None).await;
    let writes = tokio::spawn(async move {
        for number in 0..WRITES {
            let put = json!({"key": format!("k{number}"), "value": number.to_string()});
            http.post("/v1/kv/put", &put).await.ok();
        }
    });
    let (mut events, mut heard) = (first, 0);
    while heard < WRITES {
        let mut last = String::new();
        // A few, then the line is cut.
        for _ in 0..=(heard % 4) {
            let (id, event) = events.event().await;
            assert_eq!(event["key"], format!("k{heard}"));
            (last, heard) = (id, heard + 1);
            if heard == WRITES {
                break;
            }
        }
        let server = &world.servers[usize::try_from(heard % 3).expect("it is small")];
        events = Events::open(Http::to(server).await, "?key=k&prefix=true", Some(&last)).await;
    }
    writes.await.expect("all are written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_watch_shows_that_it_is_alive_and_moves_on() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut events = Events::open(Http::to(&world.servers[0]).await, "?key=quiet", None).await;
    for number in 0..5 {
        http.post("/v1/kv/put", &json!({"key": format!("noise{number}")})).await.ok();
    }
    let revision = http.get("/v1/status").await.ok()["revision"].as_u64().expect("it is a number");
    let beat = loop {
        let message = events.message().await.expect("the stream goes on");
        assert_eq!((&message.data, &*message.event), (&None, ""));
        if message.id == (revision - 1).to_string() {
            break message;
        }
    };
    assert_eq!(beat.comment, format!("{revision} is the present"));
    // Whoever comes back with that misses nothing. The beat takes as long as the server's patience with a
    // connection that asks for nothing, so the first one may be closed by now.
    drop(events);
    let mut http = Http::to(&world.servers[0]).await;
    http.post("/v1/kv/put", &json!({"key": "quiet"})).await.ok();
    let http = Http::to(&world.servers[0]).await;
    let mut events = Events::open(http, "?key=quiet", Some(&beat.id)).await;
    assert_eq!(events.event().await.1["key"], "quiet");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_too_slow_is_cut_off_and_can_go_on() {
    const BYTES: usize = 256 << 10;
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let mut slow =
        Events::open(Http::to(&world.servers[0]).await, "?key=big&prefix=true", None).await;
    // Sockets take some megabytes before anything is held up.
    let value = "x".repeat(BYTES);
    let writes = 128;
    for number in 0..writes {
        let put = json!({"key": format!("big{number}"), "value": value});
        http.post("/v1/kv/put", &put).await.ok();
    }
    let mut heard = 0;
    let end = loop {
        let message = slow.message().await.expect("it says how it ends");
        let Some(data) = message.data.filter(|_| message.event == "end") else {
            heard += u64::from(!message.comment.contains("present"));
            continue;
        };
        break (message.id, data);
    };
    assert_eq!(slow.message().await, None);
    let (id, problem) = end;
    assert_eq!((&problem["code"], &problem["retryable"]), (&json!("slow_reader"), &json!(true)));
    assert!(heard < writes, "{heard}");
    // Exactly what it has not heard.
    let server = &world.servers[0];
    let mut rest = Events::open(Http::to(server).await, "?key=big&prefix=true", Some(&id)).await;
    let (_, event) = rest.event().await;
    assert_eq!(event["key"], format!("big{heard}"));
    assert_eq!(event["revision"], problem["resume_revision"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_cannot_begin_is_refused() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    for (query, code) in [
        ("?key=&prefix=false", "key_empty"),
        ("?key=a&prefix=1", "field_invalid"),
        ("?key=a&from=-1", "field_invalid"),
        ("?key=a&since=1", "request_unreadable"),
    ] {
        http.get(&format!("/v1/watch{query}")).await.problem(400, code);
    }
    http.request("GET /v1/watch", &[("Last-Event-ID", "x")], b"").await;
    http.answer().await.problem(400, "field_invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_watches() {
    let mut world = world(1).await;
    let mut events = Events::open(Http::to(&world.servers[0]).await, "", None).await;
    let server = world.servers.remove(0);
    let stopping = tokio::spawn(server.stop());
    let last = events.last().await;
    assert_eq!(last.data.expect("it is a problem")["code"], "shutting_down");
    assert_eq!(events.message().await, None);
    tokio::time::timeout(PATIENCE, stopping).await.expect("it ends").expect("it does not panic");
}
