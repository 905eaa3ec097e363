//! Leases of the user's own, and plain keys.

use std::time::Duration;

use fencepost_client::Error;

use crate::client;
use crate::support::grpc::Server;

#[tokio::test]
async fn keys_go_away_with_their_lease() {
    let server = Server::start();
    let client = client(&server, "owner").await;
    let lease = client.lease(Duration::from_secs(5)).await.expect("the server grants");
    assert!(lease.is_valid());
    client.kv().put_leased("hosts/1", "up", &lease).await.expect("the server answers");
    assert!(lease.renew().await.expect("it is alive") > Duration::from_secs(3));
    let found = client.kv().range("hosts/", 0).await.expect("the server answers");
    assert_eq!(found.kvs.len(), 1);
    assert_eq!(found.kvs[0].lease_id, lease.id());
    assert_eq!(lease.revoke().await, Ok(1));
    assert_eq!(client.kv().get("hosts/1").await, Ok(None));
}

#[tokio::test]
async fn a_lease_is_kept_alive_only_while_it_is_wanted() {
    let server = Server::start();
    let client = client(&server, "keeper").await;
    let kept = client.lease(Duration::from_secs(3)).await.expect("the server grants");
    let left = client
        .lease(Duration::from_millis(500))
        .without_keep_alive()
        .await
        .expect("the server grants");
    let (kept_id, left_id) = (kept.id(), left.id());
    server.until(|store| !store.leases.contains_key(&left_id)).await;
    server.with(|store| assert!(store.leases.contains_key(&kept_id)));
    assert!(kept.is_valid());
    assert!(!left.is_valid());
    let gone = left.renew().await.expect_err("it has ended");
    assert!(matches!(gone, Error::LeaseLost { .. }), "{gone}");
    drop(kept);
    server.until(|store| !store.leases.contains_key(&kept_id)).await;
}

#[tokio::test]
async fn a_lease_can_be_taken_over_by_its_id() {
    let server = Server::start();
    let (maker, keeper) = (client(&server, "maker").await, client(&server, "keeper").await);
    let made = maker
        .lease(Duration::from_millis(800))
        .id(4_711)
        .without_keep_alive()
        .await
        .expect("the server grants");
    assert_eq!(made.id(), 4_711);
    let adopted = keeper.adopt_lease(4_711).await.expect("it exists");
    assert_eq!(adopted.epoch(), made.epoch());
    let before = server.with(|store| store.renewals);
    server.until(|store| store.renewals >= before + 4).await;
    assert!(adopted.is_valid());
    let (listed, more) = keeper.list_leases(0, 0).await.expect("the server answers");
    assert!(listed.iter().any(|lease| lease.id == 4_711));
    assert!(!more);
    assert_eq!(keeper.revoke_lease(4_711).await, Ok(0));
    adopted.lost().await;
    assert!(keeper.adopt_lease(4_711).await.is_err());
}

#[tokio::test]
async fn keys_are_written_read_and_removed() {
    let server = Server::start();
    let client = client(&server, "kv").await;
    let kv = client.kv();
    let first = kv.put("a/1", "one").await.expect("the server answers");
    let second = kv.put("a/2", "two").await.expect("the server answers");
    assert!(second > first);
    assert_eq!(kv.range("a/", 1).await.expect("the server answers").kvs.len(), 1);
    assert_eq!(kv.delete("a/1").await, Ok(true));
    assert_eq!(kv.delete("a/1").await, Ok(false));
    assert_eq!(kv.delete_prefix("a/").await, Ok(1));
}
