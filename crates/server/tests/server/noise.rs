//! Clients that are too many, too slow, or never listen.

use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use fencepost_server::{Server, Tuning};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::port::get;
use crate::support::{Talk, code, lease, soon, world, world_with};

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).await.expect("it listens")
}

/// Waits until the server hangs up. What it has said until then.
async fn until_hung_up(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    // However it ends, it ends.
    drop(soon(stream.read_to_end(&mut said)).await);
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_bound_are_refused_and_those_within_are_served() {
    let tuning = Tuning { connections_max: 3, ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let server = &world.servers[0];
    let mut locks = world.locks(0).await;
    lease(&mut locks, "c").await;
    let (second, third) = (connect(server).await, connect(server).await);
    let mut refused = connect(server).await;
    assert_eq!(until_hung_up(&mut refused).await, "");
    lease(&mut locks, "c").await;
    // One goes, and there is room again.
    drop(second);
    soon(async {
        loop {
            let mut next = connect(server).await;
            let ask = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
            // It may be refused while it writes.
            drop(next.write_all(ask).await);
            if until_hung_up(&mut next).await.contains("200 OK") {
                return;
            }
        }
    })
    .await;
    drop(third);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_too_long_to_say_what_it_wants_is_cut_off() {
    let headers_patience = Duration::from_millis(300);
    let tuning = Tuning { headers_patience, ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let server = &world.servers[0];
    // Nothing at all; the beginning of HTTP/2; half a header of HTTP/1, twice as long.
    let beginnings: [&[u8]; 4] = [
        b"",
        b"PRI * HT",
        b"GET /livez HTTP/1.1\r\nHo",
        b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept:",
    ];
    for beginning in beginnings {
        let mut stream = connect(server).await;
        stream.write_all(beginning).await.expect("it reads");
        let said = until_hung_up(&mut stream).await;
        assert!(!said.contains("200 OK"), "{said}");
    }
    assert_eq!(get(server, "/livez").await.0, "HTTP/1.1 200 OK");
    // Whoever has said what it wants may then be silent for as long as it likes.
    let mut locks = world.locks(0).await;
    let mut talk = Talk::open(&mut locks, "c").await;
    let mut slow = connect(server).await;
    assert_eq!(until_hung_up(&mut slow).await, "");
    talk.say(2, None, Request::Ping(v1::Ping {})).await;
    talk.hear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_loses_its_stream_and_nobody_else_does() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let value = vec![7; 1 << 20];
    let put = v1::PutRequest { key: "k".into(), value: value.into(), ..Default::default() };
    locks.put(put).await.expect("a value of a MiB is allowed");
    // Far more answers than a stream may keep waiting, and not one of them is read.
    let mut deaf = Talk::open(&mut world.locks(0).await, "deaf").await;
    for number in 10..110 {
        let range = v1::RangeRequest { key: "k".into(), ..Default::default() };
        deaf.say(number, None, Request::Range(range)).await;
    }
    let mut other = Talk::open(&mut locks, "other").await;
    for number in 10..60 {
        other.say(number, None, Request::Ping(v1::Ping {})).await;
        assert_eq!(other.hear().await.request_id, number);
    }
    // It finds what was sent before it was cut off, and then why.
    let mut heard = 0;
    let status = loop {
        match soon(deaf.answers.message()).await {
            Ok(Some(_)) => heard += 1,
            Ok(None) => panic!("it ends with a reason"),
            Err(status) => break status,
        }
    };
    assert_eq!(code(&status), "slow_reader");
    assert!(heard < 30, "{heard} answers of a MiB were kept");
}
