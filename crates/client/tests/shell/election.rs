//! Elections.

use fencepost_client::{Error, Released};

use crate::client;
use crate::support::grpc::Server;

#[tokio::test]
async fn leaders_follow_each_other_and_are_observed() {
    let server = Server::start();
    let (one, two) = (client(&server, "one").await, client(&server, "two").await);
    let election = one.election("primary");
    assert_eq!(election.leader().await, Ok(None));
    let mut observer = two.election("primary").observe();

    let first = election.campaign("at host-1").await.expect("nobody leads");
    let seen = observer.next().await.expect("it goes on").expect("a leader");
    assert_eq!(seen.token, first.token());
    assert_eq!(seen.client, one.name());
    assert_eq!(seen.value, "at host-1");

    first.proclaim("moved to host-2").await.expect("it leads");
    let seen = observer.next().await.expect("it goes on").expect("a leader");
    assert_eq!(seen.value, "moved to host-2");

    let next = tokio::spawn({
        let election = two.election("primary");
        async move { election.campaign("at host-3").await }
    });
    server.until(|store| store.claims.len() == 2).await;
    assert_eq!(first.resign().await, Ok(Released::InTime));
    let second = next.await.expect("no panic").expect("its turn comes");
    let seen = observer.next().await.expect("it goes on").expect("a leader");
    assert_eq!(seen.token, second.token());
    assert_eq!(seen.value, "at host-3");
    assert!(second.is_valid());
}

#[tokio::test]
async fn one_who_leads_no_more_proclaims_nothing() {
    let server = Server::start();
    let client = client(&server, "deposed").await;
    let leadership = client.election("primary").campaign("x").await.expect("nobody leads");
    server.with(|store| store.delete_key_of("primary"));
    let refused = leadership.proclaim("y").await.expect_err("it leads no more");
    assert!(matches!(refused, Error::LeaseLost { .. }), "{refused}");
    server.with(|store| assert!(store.keys.keys.is_empty(), "nothing was written"));
}
