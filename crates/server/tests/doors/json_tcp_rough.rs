//! Lines that mean nothing, that are too long, or that never end.

use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_server::Tuning;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::support::{soon, world, world_with};
use crate::talk::{Line, revision};

/// Whether a refusal leaves the outcome open, and whether it passes.
fn marks(refusal: &Value) -> (Value, Value) {
    (refusal["indeterminate"].clone(), refusal["retryable"].clone())
}

// Requirements: S3-020.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_refused_and_the_connection_stays() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut line = Line::open(&world.servers[0]).await;
    let before = revision(&mut locks).await;
    let long = json!({ "type": "x".repeat(300) }).to_string();
    let acquire = |payload: &str| format!("{{\"type\":\"acquire_lock\",\"payload\":{payload}}}");
    let wrong = [
        ("{}".to_owned(), "field_invalid"),
        ("{\"type\":7}".to_owned(), "field_invalid"),
        ("{\"type\":\"steal_lock\"}".to_owned(), "field_invalid"),
        (long, "field_invalid"),
        ("{\"type\":\"ping\",\"request_id\":[]}".to_owned(), "field_invalid"),
        ("{\"type\":\"ping\",\"payload\":7}".to_owned(), "field_invalid"),
        ("{\"type\":\"get_lock\"}".to_owned(), "field_invalid"),
        ("{\"type\":\"heartbeat\",\"payload\":{\"leader_id\":\"n1\"}}".to_owned(), "field_invalid"),
        (acquire("null"), "field_invalid"),
        (acquire("{\"key\":\"a\"}"), "field_invalid"),
        (acquire("{\"key\":\"a\",\"owner\":1}"), "field_invalid"),
        (acquire("{\"key\":\"\",\"owner\":\"o\"}"), "name_empty"),
        (acquire("{\"key\":\"a\",\"owner\":\"\"}"), "client_empty"),
        (acquire("{\"key\":\"a\",\"owner\":\"o\",\"ttl\":10}"), "field_invalid"),
        (acquire("{\"key\":\"a\",\"owner\":\"o\",\"ttl\":1.5}"), "field_invalid"),
        (acquire("{\"key\":\"a\",\"owner\":\"o\",\"ttl\":\"soon\"}"), "field_invalid"),
        (acquire("{\"key\":\"a\",\"owner\":\"o\",\"ttl\":400}"), "ttl_too_short"),
        (acquire("{\"key\":\"a\",\"owner\":\"o\",\"ttl\":9007199254740993}"), "ttl_too_long"),
        (acquire("{\"key\":\"a\",\"owner\":\"o\",\"wait_ms\":-1}"), "field_invalid"),
    ];
    for (text, code) in wrong {
        line.say(&text).await;
        let told = line.hear().await;
        assert_eq!(
            (&told["success"], &told["payload"]["code"]),
            (&json!(false), &json!(code)),
            "{text}"
        );
        assert!(!told["payload"]["message"].as_str().expect("it says why").is_empty());
        assert_eq!(marks(&told["payload"]), (json!(false), json!(false)), "{text}");
    }
    // What could be read is echoed.
    line.say("{\"type\":\"steal_lock\",\"request_id\":\"r\"}").await;
    let told = line.hear().await;
    assert_eq!((&told["type"], &told["request_id"]), (&json!("steal_lock"), &json!("r")));
    assert!(line.ask("ping", Value::Null).await.0);
    assert_eq!(revision(&mut locks).await, before);
    // A refusal that passes says so.
    let lock = |owner: &str| json!({ "key": "held", "owner": owner });
    assert!(line.ask("acquire_lock", lock("one")).await.0);
    let (ok, held) = line.ask("acquire_lock", lock("two")).await;
    assert_eq!((ok, &held["code"]), (false, &json!("lock_held")));
    assert_eq!(marks(&held), (json!(false), json!(true)));
}

#[tokio::test(flavor = "multi_thread")]
async fn line_that_is_no_object_ends_its_connection() {
    let world = world(1).await;
    let nested = "[".repeat(30_000).into_bytes();
    let deep =
        format!("{{\"type\":\"ping\",\"payload\":{}1{}}}", "{\"a\":".repeat(200), "}".repeat(200));
    let wrong: [&[u8]; 8] = [
        b"GET / HTTP/1.1",
        b"{",
        b"[1,2]",
        b"null",
        "\u{fffd}".as_bytes(),
        b"\xff\xfe",
        &nested,
        deep.as_bytes(),
    ];
    for text in wrong {
        let mut line = Line::open(&world.servers[0]).await;
        let said = [text, b"\n{\"type\":\"ping\"}\n"].concat();
        line.0.get_mut().write_all(&said).await.expect("it reads");
        let told = line.hear().await;
        assert_eq!((&told["type"], &told["request_id"]), (&json!("error"), &Value::Null));
        assert_eq!(told["payload"]["code"], json!("json_invalid"));
        assert!(!told["payload"]["message"].as_str().expect("it says why").is_empty());
        assert_eq!(line.hear_if_any().await, None, "{}", String::from_utf8_lossy(text));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_that_is_too_long_is_refused_before_it_ends() {
    let world = world(1).await;
    let mut line = Line::open(&world.servers[0]).await;
    // The answer comes although the line goes on.
    line.0.get_mut().write_all(&vec![b'x'; (64 << 10) + 1]).await.expect("it reads");
    assert_eq!(line.hear().await["payload"]["code"], json!("request_too_large"));
    line.0.get_mut().write_all(&vec![b'x'; 512 << 10]).await.expect("it reads");
    line.say("").await;
    assert!(line.ask("ping", Value::Null).await.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_a_gigabyte_ends_its_connection_after_a_megabyte() {
    const GIGABYTE: usize = 1 << 30;
    let world = world(1).await;
    let mut line = Line::open(&world.servers[0]).await;
    let piece = vec![b'x'; 256 << 10];
    let mut sent = 0;
    while sent < GIGABYTE {
        match soon(line.0.get_mut().write(&piece)).await {
            Ok(written) => sent += written,
            Err(_) => break,
        }
    }
    // What the system keeps on its way is far less than the rest.
    assert!(sent < GIGABYTE / 8, "{sent}");
    assert_eq!(line.hear().await["payload"]["code"], json!("request_too_large"));
    assert_eq!(line.hear_if_any().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_say_nothing_or_too_little_are_let_go() {
    let tuning = Tuning {
        idle_patience: Duration::from_millis(100),
        headers_patience: Duration::from_millis(100),
        ..Tuning::default()
    };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let mut silent = Line::open(&world.servers[0]).await;
    assert_eq!(silent.hear_if_any().await, None);
    let mut slow = Line::open(&world.servers[0]).await;
    slow.0.get_mut().write_all(b"{\"type\":").await.expect("it reads");
    assert_eq!(slow.hear_if_any().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_read_is_cut_off() {
    let tuning = Tuning { answer_patience: Duration::from_millis(200), ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let mut deaf = Line::open(&world.servers[0]).await;
    // The answers fill all that lies between, and then nothing more is read.
    let script = "{\"type\":\"get_cluster_info\"}\n".repeat(10_000);
    let flood = async { while deaf.0.get_mut().write_all(script.as_bytes()).await.is_ok() {} };
    soon(flood).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_so() {
    let mut world = world(1).await;
    let mut idle = Line::open(&world.servers[0]).await;
    assert!(idle.ask("ping", Value::Null).await.0);
    let server = world.servers.remove(0);
    let stopping = tokio::spawn(server.stop());
    assert_eq!(idle.hear().await["payload"]["code"], json!("shutting_down"));
    assert_eq!(idle.hear_if_any().await, None);
    soon(stopping).await.expect("it does not panic");
}
