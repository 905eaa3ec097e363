//! WebSocket clients that say nonsense, too much, or nothing.

use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_server::{Server, Tuning};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::support::{soon, until_waiters, world, world_with};
use crate::talk::{Ws, lock, revision};

// Requirements: S1-021.
#[tokio::test(flavor = "multi_thread")]
async fn messages_that_mean_nothing_are_refused_and_change_nothing() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    let before = revision(&mut locks).await;
    let nested = format!("{{\"commandType\":1,\"key\":{}", "[".repeat(10_000));
    let long_name =
        json!({ "commandType": 1, "key": "k".repeat(1_025), "clientId": "c" }).to_string();
    let long_id = json!({ "commandType": 1, "requestId": "x".repeat(257) }).to_string();
    let wrong = [
        ("", "json_invalid"),
        ("{", "json_invalid"),
        ("[]", "json_invalid"),
        ("\"ACQUIRE:a:b:30000\"", "json_invalid"),
        ("{\"commandType\":1e999}", "json_invalid"),
        (&nested, "json_invalid"),
        ("{}", "field_invalid"),
        ("{\"commandType\":0}", "field_invalid"),
        ("{\"commandType\":99}", "field_invalid"),
        ("{\"commandType\":-1}", "field_invalid"),
        ("{\"commandType\":\"1\"}", "field_invalid"),
        ("{\"commandType\":1}", "field_invalid"),
        ("{\"commandType\":1,\"key\":\"a\"}", "field_invalid"),
        ("{\"commandType\":1,\"key\":7,\"clientId\":\"c\"}", "field_invalid"),
        ("{\"commandType\":1,\"key\":\"a\",\"clientId\":\"c\",\"ttl\":30}", "field_invalid"),
        ("{\"commandType\":1,\"key\":\"a\",\"clientId\":\"c\",\"ttl\":-1}", "field_invalid"),
        ("{\"commandType\":1,\"key\":\"a\",\"clientId\":\"c\",\"ttl\":200}", "ttl_too_short"),
        (
            "{\"commandType\":1,\"key\":\"a\",\"clientId\":\"c\",\"ttl\":18446744073709551615}",
            "ttl_too_long",
        ),
        (
            "{\"commandType\":1,\"key\":\"a\",\"clientId\":\"c\",\"ttl\":18446744073709551616}",
            "field_invalid",
        ),
        (
            "{\"commandType\":1,\"key\":\"a\",\"clientId\":\"c\",\"wait\":18446744073709551615}",
            "span_too_long",
        ),
        ("{\"commandType\":1,\"key\":\"\",\"clientId\":\"c\"}", "name_empty"),
        ("{\"commandType\":1,\"key\":\"a\",\"clientId\":\"\"}", "client_empty"),
        (&long_name, "name_too_long"),
        (&long_id, "field_invalid"),
        ("{\"commandType\":6,\"key\":\"a\",\"requestId\":{}}", "field_invalid"),
        ("{\"commandType\":3,\"key\":\"a\"}", "field_invalid"),
        ("{\"commandType\":3,\"key\":\"\",\"data\":\"x\"}", "key_empty"),
        ("{\"commandType\":4,\"serverId\":0,\"serverAddr\":\"x:1\"}", "field_invalid"),
        ("{\"commandType\":5}", "field_invalid"),
        ("{\"commandType\":5,\"serverId\":\"not hex\"}", "field_invalid"),
        ("{\"commandType\":5,\"serverId\":\"abcdef\"}", "field_invalid"),
        ("{\"commandType\":5,\"serverId\":\"0000000000abcdef\"}", "member_unknown"),
    ];
    for (message, code) in wrong {
        ws.say_text(message).await;
        let told = ws.hear().await;
        assert_eq!(
            (&told["success"], &told["error"]["code"]),
            (&json!(false), &json!(code)),
            "{message}"
        );
        assert_eq!(told["error"]["indeterminate"], json!(false));
    }
    assert_eq!(revision(&mut locks).await, before);
    // Binary messages are read as well, and other text is refused by the protocol itself.
    ws.send(Message::binary(lock(1, "a", "c").to_string().into_bytes())).await;
    ws.granted("a").await;
    ws.send(Message::binary(vec![0xff, 0xfe])).await;
    assert_eq!(ws.hear().await["error"]["code"], json!("json_invalid"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_refused_and_a_huge_one_ends_the_connection() {
    let world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    ws.say_text(&"x".repeat((3 << 19) + 1)).await;
    assert_eq!(ws.hear().await["error"]["code"], json!("request_too_large"));
    ws.acquire("a", "c").await;
    ws.granted("a").await;
    // The head alone says how long it is going to be: a text of 4 MiB, masked with nothing.
    let mut huge = by_hand(&world.servers[0]).await;
    let mut head = vec![0x81, 0x80 | 127];
    head.extend((4_u64 << 20).to_be_bytes());
    head.extend([0; 4]);
    huge.write_all(&head).await.expect("it reads");
    let mut said = Vec::new();
    soon(huge.read_to_end(&mut said)).await.expect("it says why before it ends");
    let code = u16::from(CloseCode::Protocol).to_be_bytes();
    let is_closing = |frame: &[u8]| frame[0] == 0x88 && frame[2..] == code;
    assert!(said.windows(4).any(is_closing), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_so_many_requests_are_open() {
    const MAX: usize = 1_024;
    let world = world(1).await;
    let (mut one, mut two) = (Ws::open(&world.servers[0]).await, Ws::open(&world.servers[0]).await);
    one.acquire("a", "holder").await;
    one.granted("a").await;
    for number in 0..MAX {
        two.acquire("a", &format!("c{number}")).await;
    }
    until_waiters(&mut world.locks(0).await, "a", MAX as u64).await;
    two.acquire("a", "one-too-many").await;
    assert_eq!(two.hear().await["error"]["code"], json!("overloaded"));
    one.release("a", "holder").await;
    two.granted("a").await;
    drop(two);
    until_waiters(&mut world.locks(0).await, "a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_are_refused() {
    let world = world(1).await;
    let address = world.servers[0].address();
    let open = async |origin: String| {
        let mut request = format!("ws://{address}/v1/ws").into_client_request().expect("it is one");
        request.headers_mut().insert("Origin", origin.parse().expect("it is a value"));
        soon(connect_async(request)).await
    };
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let refused = open(origin.to_owned()).await.expect_err("it is refused");
        let Error::Http(response) = refused else { panic!("{refused:?}") };
        assert_eq!(response.status().as_u16(), 403, "{origin}");
    }
    open(format!("http://{address}")).await.expect("it is this very server's page");
}

/// Opens a WebSocket by hand, so that nothing answers pings.
async fn by_hand(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    let request = "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(stream.read_u8()).await.expect("it answers"));
    }
    let head = String::from_utf8(head).expect("it is text").to_lowercase();
    assert!(head.starts_with("http/1.1 101"), "{head}");
    assert!(head.contains("s3pplmbitxaq9kygzzhzrbk+xoo="), "{head}");
    stream
}

/// A text message of a client, masked with nothing.
fn frame(text: &str) -> Vec<u8> {
    let len = u16::try_from(text.len()).expect("it is short");
    let mut bytes = vec![0x81, 0x80 | 126];
    bytes.extend(len.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(text.as_bytes());
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_found_and_its_wait_given_up() {
    let tuning = Tuning { ping_interval: Duration::from_millis(200), ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let mut one = Ws::open(&world.servers[0]).await;
    one.acquire("a", "one").await;
    one.granted("a").await;
    let mut silent = by_hand(&world.servers[0]).await;
    silent.write_all(&frame(&lock(1, "a", "silent").to_string())).await.expect("it reads");
    let mut rest = Vec::new();
    // Only pings come, and then the end.
    soon(silent.read_to_end(&mut rest)).await.ok();
    assert!(rest.chunks(2).all(|ping| *ping == [0x89, 0]), "{rest:?}");
    until_waiters(&mut world.locks(0).await, "a", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_read_is_cut_off() {
    let tuning = Tuning { answer_patience: Duration::from_millis(200), ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let mut one = Ws::open(&world.servers[0]).await;
    one.say(&json!({ "commandType": 3, "key": "k", "data": "x".repeat(1 << 20) })).await;
    assert_eq!(one.hear().await["success"], json!(true));
    one.acquire("a", "one").await;
    one.granted("a").await;
    let mut deaf = by_hand(&world.servers[0]).await;
    deaf.write_all(&frame(&lock(1, "a", "deaf").to_string())).await.expect("it reads");
    let mut locks = world.locks(0).await;
    until_waiters(&mut locks, "a", 1).await;
    let read = frame(&json!({ "commandType": 6, "key": "k" }).to_string());
    for _ in 0..64 {
        if deaf.write_all(&read).await.is_err() {
            break;
        }
    }
    until_waiters(&mut locks, "a", 0).await;
    // The others are none the worse.
    one.release("a", "one").await;
    one.acquire("a", "two").await;
    one.granted("a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_says_so() {
    let mut world = world(1).await;
    let mut ws = Ws::open(&world.servers[0]).await;
    ws.acquire("a", "one").await;
    ws.granted("a").await;
    ws.acquire("a", "two").await;
    until_waiters(&mut world.locks(0).await, "a", 1).await;
    let server = world.servers.remove(0);
    let stopping = tokio::spawn(server.stop());
    let told = loop {
        // The wait may be told to end before the connection is.
        match ws.try_hear().await {
            Ok(told) => assert_eq!(told["error"]["code"], json!("shutting_down"), "{told}"),
            Err(frame) => break frame,
        }
    };
    assert_eq!(told.expect("it says why").code, CloseCode::Away);
    drop(ws);
    soon(stopping).await.expect("it does not panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_message_ends_its_connection() {
    let tuning = Tuning {
        body_patience: Duration::from_millis(200),
        ping_interval: Duration::from_millis(50),
        ..Tuning::default()
    };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let mut half = by_hand(&world.servers[0]).await;
    // A part of a message, behind which others follow.
    half.write_all(&[0x01, 0x80 | 3, 0, 0, 0, 0, b'{', b' ', b' ']).await.expect("it reads");
    let (mut heard, pong) = (Vec::new(), [0x8a, 0x80, 0, 0, 0, 0]);
    // Close, with the code for what a server does not want.
    let is_closing = |said: &[u8]| said[0] == 0x88 && said[2..] == 1008_u16.to_be_bytes();
    soon(async {
        while !heard.windows(4).any(is_closing) {
            let read = half.read_buf(&mut heard).await.expect("it says why before it ends");
            assert_ne!(read, 0, "it says why before it ends");
            // It is alive, and answers pings in the middle of its message.
            half.write_all(&pong).await.expect("it reads");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_is_closed_and_one_that_waits_is_not() {
    let tuning = Tuning { idle_patience: Duration::from_millis(100), ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let server = &world.servers[0];
    let mut one = Ws::open(server).await;
    one.acquire("a", "one").await;
    one.granted("a").await;
    let mut two = Ws::open(server).await;
    two.acquire("a", "two").await;
    until_waiters(&mut world.locks(0).await, "a", 1).await;
    assert_eq!(one.end().await.map(|frame| u16::from(frame.code)), Some(1001));
    for _ in 0..3 {
        let mut idle = Ws::open(server).await;
        assert_eq!(idle.end().await.map(|frame| u16::from(frame.code)), Some(1001));
    }
    // What is held outlives its connection.
    Ws::open(server).await.release("a", "one").await;
    two.granted("a").await;
}
