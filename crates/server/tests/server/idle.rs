//! Connections on which nothing happens, and floods of them.

use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use fencepost_server::{Server, Tuning};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
#[cfg(target_os = "linux")]
use tokio::net::TcpSocket;
use tokio::net::TcpStream;

use crate::framed_support::{Framed, ping};
use crate::port::get;
use crate::support::{Talk, acquire, code, lease, release, soon, world_with};

fn impatient() -> Tuning {
    // No other rule closes a connection that says nothing.
    let headers_patience = Duration::from_secs(86_400);
    Tuning { idle_patience: Duration::from_millis(100), headers_patience, ..Tuning::default() }
}

/// Reads until the server hangs up.
async fn until_hung_up(stream: &mut TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    // However it ends, it ends.
    drop(soon(stream.read_to_end(&mut said)).await);
    said
}

/// Waits until sessions that were idle from now on have been closed several times.
async fn until_idle_ones_are_closed(server: &Server) {
    for _ in 0..3 {
        let mut idle = Framed::open(server, "idle").await;
        assert_eq!(idle.last_words().await.code, "connection_idle");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_session_is_closed_and_says_why() {
    let world = world_with(1, &NodeConfig::new(0), impatient()).await;
    let mut framed = Framed::open(&world.servers[0], "c").await;
    let failure = framed.last_words().await;
    assert_eq!((&*failure.code, failure.retryable), ("connection_idle", true));
    let mut talk = Talk::open(&mut world.locks(0).await, "c").await;
    let status = soon(talk.answers.message()).await.expect_err("it ends with a reason");
    assert_eq!(code(&status), "connection_idle");
}

#[tokio::test(flavor = "multi_thread")]
async fn session_with_a_lease_or_a_watch_is_not_idle() {
    let world = world_with(1, &NodeConfig::new(0), impatient()).await;
    let server = &world.servers[0];
    let mut holder = Framed::open(server, "holder").await;
    let lease = holder.lease(2, 1, 0).await;
    holder.say(3, Some(1), acquire(&["a"], lease, -1)).await;
    let (_, held) = holder.decided().await;
    let mut watcher = Framed::open(server, "watcher").await;
    let watch =
        fencepost_proto::v1::WatchRequest { key: "k".into(), watch_id: 1, ..Default::default() };
    watcher.say(2, None, Request::Watch(watch)).await;
    assert!(matches!(watcher.hear().await.response, Some(Response::Watch(_))));
    until_idle_ones_are_closed(server).await;
    watcher.put(&ping(3)).await;
    assert_eq!(watcher.hear().await.request_id, 3);
    holder.say(4, Some(2), release("a", lease, held.fencing_token)).await;
    assert!(
        matches!(holder.hear().await.response, Some(Response::Released(told)) if told.released)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connection_over_http_is_closed() {
    let world = world_with(1, &NodeConfig::new(0), impatient()).await;
    let server = &world.servers[0];
    let connect = async || TcpStream::connect(server.address()).await.expect("it listens");
    let mut watch = connect().await;
    let ask = "GET /v1/watch?key=k HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    watch.write_all(ask.as_bytes()).await.expect("it reads");
    let mut head = [0; 15];
    soon(watch.read_exact(&mut head)).await.expect("it answers");
    assert_eq!(&head, b"HTTP/1.1 200 OK");
    let mut kept = connect().await;
    let ask = "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    kept.write_all(ask.as_bytes()).await.expect("it reads");
    assert!(until_hung_up(&mut kept).await.starts_with(b"HTTP/1.1 200 OK"));
    // HTTP/2, with settings and nothing else.
    let mut http2 = connect().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    http2.write_all(preface).await.expect("it reads");
    let said = until_hung_up(&mut http2).await;
    // A frame of type 7 says goodbye.
    assert!(said.windows(5).any(|head| head == [0, 0, 8, 7, 0]), "{said:?}");
    // The one that has a request open goes on.
    let mut locks = world.locks(0).await;
    let put = fencepost_proto::v1::PutRequest { key: "k".into(), ..Default::default() };
    locks.put(put).await.expect("it is done");
    let mut told = Vec::new();
    while !told.ends_with(b"\n\n\r\n") {
        told.push(soon(watch.read_u8()).await.expect("it goes on"));
    }
}

/// What listens on this machine is reached from many of its addresses.
#[cfg(target_os = "linux")]
async fn connect_from(address: &str, server: &Server) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("the system has sockets");
    socket.bind(address.parse().expect("it is an address")).expect("it is of this machine");
    socket.connect(server.address()).await.expect("it listens")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn flood_from_one_address_leaves_room_for_others() {
    const ALL: usize = 16;
    const SHARE: usize = 12;
    let tuning = Tuning { connections_max: ALL, ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let server = &world.servers[0];
    let mut early = Framed::open(server, "early").await;
    let mut flood = Vec::new();
    for _ in 0..2 * ALL {
        flood.push(connect_from("127.0.0.2:0", server).await);
    }
    // Those beyond its share are refused.
    for refused in &mut flood[SHARE..] {
        assert_eq!(until_hung_up(refused).await, b"");
    }
    lease(&mut world.locks(0).await, "other").await;
    early.put(&ping(2)).await;
    assert_eq!(early.hear().await.request_id, 2);
    let (_, text) = get(server, "/metrics").await;
    let refused = format!(
        "fencepost_door_connections_refused_total{{limit=\"address\"}} {}",
        2 * ALL - SHARE
    );
    assert!(text.contains(&refused), "{text}");
    // Whoever goes makes room.
    flood.truncate(1);
    soon(async {
        let ask = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
        loop {
            let mut next = connect_from("127.0.0.2:0", server).await;
            // It may be refused while it writes.
            drop(next.write_all(ask).await);
            if until_hung_up(&mut next).await.starts_with(b"HTTP/1.1 200") {
                return;
            }
        }
    })
    .await;
}
