//! One port for everything.

use fencepost_proto::v1;
use fencepost_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::support::{Talk, acquired, channel, lease, soon, unlock, world};

/// One request over HTTP/1.1: the status line and the body.
pub(crate) async fn get(server: &Server, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(server.address()).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.expect("it is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it is HTTP");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

// Requirements: S3-008.
#[tokio::test(flavor = "multi_thread")]
async fn health_and_probes_follow_the_leader() {
    let mut world = world(3).await;
    let leader = world.leader();
    let mut health = HealthClient::new(channel(&world.servers[leader]).await);
    for service in ["", "fencepost.v1.LockService", "fencepost.v1.ClusterService"] {
        let check = HealthCheckRequest { service: service.into() };
        let told = health.check(check).await.expect("it is known").into_inner();
        assert_eq!(told.status(), ServingStatus::Serving, "{service}");
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(&world.servers[leader], path).await.0, "HTTP/1.1 200 OK");
    }
    let watch = HealthCheckRequest { service: String::new() };
    let mut changes = health.watch(watch).await.expect("it is known").into_inner();
    let first = soon(changes.message()).await.expect("it goes on").expect("it goes on");
    assert_eq!(first.status(), ServingStatus::Serving);
    // The others go: there is no quorum, and after a while no leader.
    let server = world.servers.remove(leader);
    let node = world.cluster.take(leader);
    drop(world);
    let next = soon(changes.message()).await.expect("it goes on").expect("it goes on");
    assert_eq!(next.status(), ServingStatus::NotServing);
    assert_eq!(get(&server, "/readyz").await.0, "HTTP/1.1 503 Service Unavailable");
    assert_eq!(get(&server, "/livez").await.0, "HTTP/1.1 200 OK");
    node.kill();
    assert_eq!(get(&server, "/livez").await.0, "HTTP/1.1 503 Service Unavailable");
}

// Requirements: S0-027.
#[tokio::test(flavor = "multi_thread")]
async fn the_schemas_can_be_asked_for() {
    let world = world(1).await;
    let mut client = ServerReflectionClient::new(channel(&world.servers[0]).await);
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let answers = client.server_reflection_info(tokio_stream::once(ask)).await;
    let answer = answers.expect("it is answered").into_inner().message().await;
    let answer = answer.expect("it is answered").expect("it is answered");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = list.service.iter().map(|one| &*one.name).collect();
    for name in ["fencepost.v1.LockService", "fencepost.v1.ClusterService", "grpc.health.v1.Health"]
    {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_numbers_count_what_happened() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let one = lease(&mut locks, "alice").await;
    let token = acquired(&mut locks, "a", one).await;
    let other = v1::TryLockRequest { name: "a".into(), lease_id: 99, ..Default::default() };
    locks.try_lock(other).await.expect_err("there is no such lease");
    let (status, text) = get(&world.servers[0], "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let has = |text: &str, line: &str| text.lines().any(|one| one == line);
    for line in [
        "fencepost_lock_grants_total 1",
        "fencepost_lock_holders 1",
        "fencepost_lock_waiters 0",
        "fencepost_lease_live 1",
        "fencepost_raft_leads 1",
        "fencepost_door_requests_total{kind=\"lock\",code=\"ok\"} 1",
        "fencepost_door_requests_total{kind=\"try_lock\",code=\"lease_not_found\"} 1",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
    assert!(text.contains("fencepost_log_sync_seconds_bucket{le=\"0.001\"}"), "{text}");
    assert!(!text.contains("alice"), "no client is named:\n{text}");
    assert!(unlock(&mut locks, "a", one, token).await);
    let (_, text) = get(&world.servers[0], "/metrics").await;
    for line in [
        "fencepost_lock_holders 0",
        "fencepost_lock_ends_total{cause=\"released\"} 1",
        "fencepost_lock_hold_seconds_count 1",
        "fencepost_lock_wait_seconds_count 1",
    ] {
        assert!(has(&text, line), "{line}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_streams_with_a_clear_status() {
    let mut world = world(1).await;
    let mut talk = Talk::open(&mut world.locks(0).await, "c").await;
    let server = world.servers.remove(0);
    let address = server.address();
    let stopping = tokio::spawn(server.stop());
    let status = soon(talk.answers.message()).await.expect_err("the stream ends");
    assert_eq!(
        (status.code(), crate::support::code(&status)),
        (Code::Unavailable, "shutting_down".into())
    );
    soon(stopping).await.expect("it does not panic");
    TcpStream::connect(address).await.expect_err("nobody listens any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_ends_ends_its_streams() {
    let world = world(1).await;
    let mut talk = Talk::open(&mut world.locks(0).await, "c").await;
    world.cluster.nodes()[0].kill();
    let status = soon(talk.answers.message()).await.expect_err("the stream ends");
    assert_eq!(status.code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread")]
async fn noise_on_the_port_is_survived() {
    let world = world(1).await;
    let noises: [&[u8]; 5] = [
        b"",
        b"\0\0\0\0",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense",
        b"GET / HTTP/9\r\n\r\n",
        &[0xff; 4_096],
    ];
    for noise in noises {
        let mut stream = TcpStream::connect(world.servers[0].address()).await.expect("it listens");
        stream.write_all(noise).await.expect("it reads");
        stream.shutdown().await.expect("it is open");
        // However it answers, it hangs up.
        let mut answer = Vec::new();
        drop(soon(stream.read_to_end(&mut answer)).await);
    }
    assert_eq!(get(&world.servers[0], "/nowhere").await.0, "HTTP/1.1 404 Not Found");
    lease(&mut world.locks(0).await, "c").await;
}
