//! Bodies that make no sense, from a file: each is refused with a problem, and changes nothing.

use serde_json::json;

use super::client::Http;
use crate::support::world;

/// A path, the code that is expected, and a body, on each line.
const BODIES: &str = include_str!("bodies.txt");

/// Bodies that cannot stand in a file of lines.
fn unprintable() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |open: &str, count: usize| open.repeat(count).into_bytes();
    let nested = |open: &str, close: &str, count: usize| {
        format!(r#"{{"key":{}1{}}}"#, open.repeat(count), close.repeat(count)).into_bytes()
    };
    let mut many = br#"{"key":"a""#.to_vec();
    for number in 0..10_000 {
        many.extend_from_slice(format!(r#","f{number}":0"#).as_bytes());
    }
    many.push(b'}');
    vec![
        ("nothing", Vec::new()),
        ("a zero", vec![0]),
        ("no UTF-8", b"{\"key\":\"\xff\"}".to_vec()),
        ("a mark of order", b"\xef\xbb\xbf{\"key\":\"a\"}".to_vec()),
        ("two documents", b"{\"key\":\"a\"}\n{\"key\":\"b\"}".to_vec()),
        ("a raw line end", b"{\"key\":\"a\nb\"}".to_vec()),
        ("open lists", deep("[", 100_000)),
        ("open objects", deep("{\"a\":", 100_000)),
        ("nested lists", nested("[", "]", 100_000)),
        ("nested objects", nested("{\"a\":", "}", 50_000)),
        (
            "digits",
            format!(r#"{{"key":"a","create_revision":{}}}"#, "9".repeat(100_000)).into_bytes(),
        ),
        (
            "decimals",
            format!(r#"{{"key":"a","create_revision":0.{}}}"#, "1".repeat(100_000)).into_bytes(),
        ),
        ("an exponent", br#"{"key":"a","create_revision":1e999999999}"#.to_vec()),
        ("many fields", many),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_make_no_sense_are_refused_and_change_nothing() {
    let world = world(1).await;
    let mut http = Http::to(&world.servers[0]).await;
    let before = http.get("/v1/status").await.ok();
    let lines = BODIES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut count = 0;
    for line in lines {
        let mut parts = line.splitn(3, ' ');
        let mut part = || parts.next().unwrap_or_else(|| panic!("{line} has three parts"));
        let (path, code, body) = (part(), part(), part());
        let answer = http.post_raw(path, body.as_bytes()).await;
        assert_eq!(answer.json()["code"], code, "{line}: {}", answer.json());
        answer.problem(400, code);
        count += 1;
    }
    assert!(count > 60, "{count}");
    for (what, body) in unprintable() {
        let answer = http.post_raw("/v1/kv/put", &body).await;
        assert_eq!(answer.json()["code"], "request_unreadable", "{what}");
        answer.problem(400, "request_unreadable");
    }
    let after = http.get("/v1/status").await.ok();
    assert_eq!(before, after);
    assert_eq!(http.get("/v1/kv?prefix=true").await.ok()["kvs"], json!([]));
}
