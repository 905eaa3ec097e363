//! What a page in a browser can send to a server that only this machine reaches.

use fencepost_node::config::NodeConfig;
use fencepost_server::{AllowedHosts, Server, Tuning};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{get_lock, soon, world, world_with};
use crate::talk::Line;

/// What the server says until it hangs up.
async fn said(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut said = Vec::new();
    // However it ends, it ends.
    drop(soon(stream.read_to_end(&mut said)).await);
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn form_of_a_page_is_not_taken_for_json_lines() {
    let world = world(1).await;
    let server = &world.servers[0];
    let mut line = Line::open(server).await;
    let payload = json!({ "key": "a", "owner": "me", "ttl": 60_000 });
    assert!(line.ask("acquire_lock", payload).await.0);
    let body = "\n{\"type\":\"release_lock\",\"payload\":{\"key\":\"a\",\"owner\":\"me\"}}\n";
    for method in ["POST", "PUT", "OPTIONS", "post"] {
        let request = format!(
            "{method} /{} HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nContent-Type: text/plain\r\n\
             Content-Length: {}\r\n\r\n{body}",
            "x".repeat(70_000),
            body.len()
        );
        for request in [request.clone(), request.replacen(&"x".repeat(70_000), "", 1)] {
            let address = server.json_tcp_address().expect("it is there");
            let said = said(address, &request).await;
            let answers: Vec<Value> =
                said.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
            assert!(answers.iter().all(|told| told["success"] == json!(false)), "{said}");
        }
    }
    assert_eq!(get_lock(&mut world.locks(0).await, "a").await.holders.len(), 1);
}

/// The status of a request that names this host.
async fn status(server: &Server, line: &str, host: &str, more: &str) -> u16 {
    let request = format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
    let said = said(server.address(), &request).await;
    let status = said.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("{said}"))
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                       Origin: http://evil.example\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn name_that_is_not_this_servers_is_refused() {
    let world = world(1).await;
    let server = &world.servers[0];
    let read = "GET /v1/kv?key=a";
    for host in ["evil.example", "evil.example:7420", "localhost.evil.example"] {
        assert_eq!(status(server, read, host, "").await, 421, "{host}");
        assert_eq!(status(server, "GET /metrics", host, "").await, 421, "{host}");
        assert_eq!(status(server, "GET /v1/ws", "evil.example", UPGRADE).await, 421, "{host}");
        let grpc = "Content-Type: application/grpc\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0";
        let call = "POST /fencepost.v1.ClusterService/Status";
        assert_eq!(status(server, call, host, grpc).await, 421, "{host}");
        let body = "Content-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"key\":\"a\"}";
        assert_eq!(status(server, "POST /v1/kv/put", host, body).await, 421, "{host}");
        // Probes and public keys tell nothing that is not public.
        assert_eq!(status(server, "GET /livez", host, "").await, 200, "{host}");
    }
    let request = format!("{read} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    let told = said(server.address(), &request).await;
    for part in ["host_not_allowed", "evil.example", "--allowed-hosts"] {
        assert!(told.contains(part), "{told}");
    }
    for host in ["127.0.0.1", "localhost:7420", "[::1]:7420", "10.1.2.3"] {
        assert_eq!(status(server, read, host, "").await, 200, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_were_given_are_served() {
    let allowed_hosts = AllowedHosts::new(["locks.example.com", "*.cluster.local"]);
    let tuning = Tuning { allowed_hosts, ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    let server = &world.servers[0];
    let read = "GET /v1/kv?key=a";
    for host in ["locks.example.com", "n1.locks.cluster.local:7420"] {
        assert_eq!(status(server, read, host, "").await, 200, "{host}");
    }
    assert_eq!(status(server, read, "evil.example", "").await, 421);
}
