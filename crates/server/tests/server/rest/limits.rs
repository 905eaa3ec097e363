//! What is too much, too deep, or not what it says it is.

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use super::client::Http;
use crate::support::world;

/// As much as a request may have.
const BODY_BYTES_MAX: usize = 3 << 19;

/// A body of exactly so many bytes that writes a key.
fn put_of(len: usize) -> Vec<u8> {
    let frame = br#"{"key":"a","value":"x"}"#;
    let mut body = br#"{"key":"a","value":"x""#.to_vec();
    // Room between the fields is room as well.
    body.resize(len - (frame.len() - body.len()), b' ');
    body.push(b'}');
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_has_a_bound() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    http.post_raw("/v1/kv/put", &put_of(BODY_BYTES_MAX)).await.ok();
    let mut http = Http::to(&world.servers[0]).await;
    let answer = http.post_raw("/v1/kv/put", &put_of(BODY_BYTES_MAX + 1)).await;
    answer.problem(413, "request_too_large");
    // The value has a bound of its own, which every door has.
    let mut http = Http::to(&world.servers[0]).await;
    let large = json!({"key": "a", "value": "x".repeat((1 << 20) + 1)});
    http.post("/v1/kv/put", &large).await.problem(413, "value_too_large");
    let full = json!({"key": "a", "value": "x".repeat(1 << 20)});
    http.post("/v1/kv/put", &full).await.ok();
    let asked = json!({"name": "a", "client_id": "c", "ttl_ms": 1_000, "metadata": "x".repeat((1 << 20) + 1)});
    http.post("/v1/locks/acquire", &asked).await.problem(413, "metadata_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_a_length_has_the_same_bound() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    http.send(b"POST /v1/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        .await;
    http.send(b"Transfer-Encoding: chunked\r\n\r\n").await;
    let piece = vec![b' '; 64 << 10];
    for _ in 0..=BODY_BYTES_MAX / piece.len() {
        http.send(format!("{:x}\r\n", piece.len()).as_bytes()).await;
        http.send(&piece).await;
        http.send(b"\r\n").await;
    }
    http.send(b"0\r\n\r\n").await;
    http.answer().await.problem(413, "request_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_that_says_so_is_read() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let body = br#"{"key":"a"}"#;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "json"]
    {
        http.request("POST /v1/kv/put", &[("Content-Type", kind)], body).await;
        http.answer().await.problem(415, "content_type_wrong");
    }
    http.request("POST /v1/kv/put", &[], body).await;
    http.answer().await.problem(415, "content_type_wrong");
    for kind in ["application/json", "Application/JSON ; charset=utf-8"] {
        http.request("POST /v1/kv/put", &[("Content-Type", kind)], body).await;
        http.answer().await.ok();
    }
    let nothing = http.get("/v1/kv?key=b").await.ok();
    assert_eq!(nothing["count"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_pages_have_the_bounds_of_every_door() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let acquire = |name: &str, client: &str, ttl_ms: u64, wait_ms: u64| json!({"name": name, "client_id": client, "ttl_ms": ttl_ms, "wait_ms": wait_ms});
    let long = "x".repeat(1_025);
    for (asked, code) in [
        (acquire("", "c", 1_000, 0), "name_empty"),
        (acquire(&long, "c", 1_000, 0), "name_too_long"),
        (acquire("a", "", 1_000, 0), "client_empty"),
        (acquire("a", &long, 1_000, 0), "text_too_long"),
        (acquire("a", "c", 499, 0), "ttl_too_short"),
        (acquire("a", "c", 86_400_001, 0), "ttl_too_long"),
        (acquire("a", "c", 1_000, 2_592_000_001), "span_too_long"),
    ] {
        http.post("/v1/locks/acquire", &asked).await.problem(400, code);
    }
    assert_eq!(http.get("/v1/locks").await.ok()["locks"], json!([]));
    for path in ["/v1/locks?limit=4294967296", "/v1/leases?limit=x", "/v1/kv?key=a&limit=1e3"] {
        http.get(path).await.problem(400, "field_invalid");
    }
    assert_eq!(http.get("/v1/locks?limit=4294967295").await.ok()["next"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_changes_nothing() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let head = "POST /v1/kv/put HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
    let whole = br#"{"key":"broken"}"#;
    let mut stream =
        tokio::net::TcpStream::connect(world.servers[0].address()).await.expect("it listens");
    let head = format!("{head}Content-Length: {}\r\n\r\n", whole.len() + 1);
    stream.write_all(&[head.as_bytes(), whole].concat()).await.expect("it reads");
    drop(stream);
    // What comes after it on another connection is answered after it, if it was taken at all.
    http.post("/v1/kv/put", &json!({"key": "whole"})).await.ok();
    assert_eq!(http.get("/v1/kv?prefix=true").await.ok()["count"], 1);
}
