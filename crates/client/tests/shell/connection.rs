//! Connections that come and go.

use std::time::Duration;

use fencepost_client::{Client, Error, Released, Transport};

use crate::support::grpc::Server;
use crate::support::store::Store;
use crate::{SOON, client};

// Requirements: S1-095.
#[tokio::test]
async fn a_waiting_call_survives_a_leader_change() {
    let server = Server::start();
    let (holder, other) = (client(&server, "holder").await, client(&server, "other").await);
    let guard = holder.lock("a").acquire().await.expect("it is free");
    let waits = tokio::spawn(other.lock("a").wait(SOON).acquire());
    server.until(|store| store.claims.len() == 2).await;
    let place = server.with(|store| store.queues["a"].clone());
    server.break_streams();
    server.until(|store| store.streams.values().flatten().count() == 2).await;
    assert_eq!(server.with(|store| store.queues["a"].clone()), place, "nobody lost its place");
    assert!(guard.is_valid());
    assert_eq!(guard.release().await, Ok(Released::InTime));
    let guard = waits.await.expect("no panic").expect("its turn comes");
    assert!(guard.is_valid());
}

// Requirements: S1-066.
#[tokio::test]
async fn the_client_goes_to_the_leader() {
    let follower = Server::start();
    let leader = follower.beside(2);
    let address = leader.address();
    follower.with(|store| store.leader = Some((2, address)));
    let client = client(&follower, "lost").await;
    let guard = client.lock("a").acquire().await.expect("it is free");
    let is_there =
        |store: &mut Store| store.streams.len() == 1 && store.members.values().copied().eq([2]);
    follower.until(is_there).await;
    assert!(guard.is_valid());
    // Other calls have moved along with the session.
    assert!(client.status().await.is_ok());
    assert_eq!(guard.release().await, Ok(Released::InTime));
    follower.with(|store| assert!(store.claims.is_empty()));
}

#[tokio::test]
async fn a_leader_that_answers_nothing_is_done_without() {
    let follower = Server::start();
    // It accepts connections, and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = silent.local_addr().expect("it is bound").to_string();
    follower.with(|store| store.leader = Some((2, address)));
    let client = client(&follower, "patient").await;
    let guard = client.lock("a").ttl(Duration::from_millis(500)).acquire().await;
    let guard = guard.expect("the follower passes it on");
    // Renewals go on as if there were no hint.
    follower.until(|store| store.renewals >= 15).await;
    assert!(guard.is_valid());
    follower.with(|store| assert_eq!(store.streams_seen, 1));
}

#[tokio::test]
async fn a_leader_that_cannot_be_reached_is_done_without() {
    let follower = Server::start();
    follower.with(|store| store.leader = Some((2, "127.0.0.1:1".to_owned())));
    let client = client(&follower, "patient").await;
    let _guard = client.lock("a").acquire().await.expect("the follower passes it on");
    follower.with(|store| assert_eq!(store.claims.len(), 1));
}

// Requirements: S1-066.
#[tokio::test]
async fn the_endpoint_that_answers_is_found() {
    let server = Server::start();
    let client = Client::builder()
        .endpoints(["http://127.0.0.1:1".to_owned(), server.endpoint()])
        .connect()
        .await
        .expect("one of them answers");
    drop(client.lock("a").acquire().await.expect("it is free"));
}

#[tokio::test]
async fn nobody_there_is_said_in_time() {
    let outcome = Client::builder()
        .endpoint("127.0.0.1:1")
        .request_timeout(Duration::from_millis(200))
        .connect()
        .await;
    let error = outcome.expect_err("nobody is there");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_unknown() {
    let server = Server::start();
    let client = client(&server, "writer").await;
    assert!(client.kv().put("k", "1").await.expect("the server answers") > 0);
    server.be_silent(true);
    let write = tokio::spawn({
        let kv = client.kv();
        async move { kv.put("k", "2").await }
    });
    let outcome = write.await.expect("no panic").expect_err("nobody answers");
    assert!(outcome.is_indeterminate(), "{outcome}");
    assert!(!outcome.is_retryable());
    server.be_silent(false);
    let found = client.kv().get("k").await.expect("the server answers");
    assert_eq!(found.expect("it was written").value, "1");
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    for builder in [Client::builder().name(""), Client::builder().endpoint("not an address")] {
        let error = builder.connect().await.expect_err("it makes no sense");
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
}

async fn over(server: &Server, transport: Transport) -> Result<Client, Error> {
    Client::builder()
        .endpoint(server.endpoint())
        .request_timeout(Duration::from_secs(2))
        .transport(transport)
        .connect()
        .await
}

/// A lock, and a call that goes beside the session.
async fn use_it(client: &Client) {
    let guard = client.lock("a").acquire().await.expect("it is free");
    assert!(client.status().await.is_ok());
    assert_eq!(guard.release().await, Ok(Released::InTime));
}

#[tokio::test]
async fn sessions_go_without_http_by_default_and_over_grpc_where_that_is_wanted() {
    let server = Server::start();
    use_it(&over(&server, Transport::default()).await.expect("it is there")).await;
    assert_eq!(server.carried(), (1, 0));
    use_it(&over(&server, Transport::Framed).await.expect("it is there")).await;
    assert_eq!(server.carried(), (2, 0));
    use_it(&over(&server, Transport::Grpc).await.expect("it is there")).await;
    assert_eq!(server.carried(), (2, 1));
    let configured = Client::builder().endpoint(server.endpoint()).configure(|one| one);
    use_it(&configured.connect().await.expect("it is there")).await;
    assert_eq!(server.carried(), (2, 2), "what was configured is not gone around");
}

#[tokio::test]
async fn a_server_that_only_knows_grpc_is_used_over_grpc() {
    let server = Server::start_grpc_only();
    let client = over(&server, Transport::Auto).await.expect("it speaks gRPC");
    use_it(&client).await;
    // It stays so after a lost connection, and nothing is lost.
    let guard = client.lock("b").acquire().await.expect("it is free");
    server.break_streams();
    server.until(|store| store.streams.values().flatten().count() == 1).await;
    assert_eq!(guard.release().await, Ok(Released::InTime));
    assert_eq!(server.carried(), (0, 2));
    let error = over(&server, Transport::Framed).await.expect_err("it does not speak that");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("speaks something else"), "{error}");
}

#[tokio::test]
async fn calls_beside_the_session_have_a_connection_only_if_there_are_any() {
    let server = Server::start();
    let client = over(&server, Transport::Auto).await.expect("it is there");
    drop(client.lock("a").acquire().await.expect("it is free"));
    assert_eq!(server.connections(), 1);
    for _ in 0..3 {
        assert!(client.status().await.is_ok());
    }
    assert_eq!(server.connections(), 2);
}
