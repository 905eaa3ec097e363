//! Questions of operators, and the cluster's own.

use fencepost_client::{Error, NewMember};

use crate::client;
use crate::support::grpc::Server;

#[tokio::test]
async fn locks_are_listed_and_explained() {
    let server = Server::start();
    let client = client(&server, "operator").await;
    let _a = client.lock("jobs/a").acquire().await.expect("it is free");
    let _b = client.lock("other").acquire().await.expect("it is free");
    let (locks, more) = client.list_locks("jobs/", "", 10).await.expect("the server answers");
    assert_eq!(locks.len(), 1);
    assert_eq!(locks[0].name, "jobs/a");
    assert!(!more);
    let reasons = client.explain("jobs/a", None).await.expect("the server answers");
    assert_eq!(reasons, [format!("jobs/a is held by {}", client.name())]);
}

#[tokio::test]
async fn the_cluster_tells_about_itself() {
    let server = Server::start();
    let client = client(&server, "operator").await;
    let status = client.status().await.expect("the server answers");
    assert_eq!(status.header.expect("it comes with every answer").cluster_id, 7);
    assert_eq!(client.members().await.expect("the server answers")[0].name, "n1");
    let member = |name: &str| NewMember { id: 2, name: name.to_owned(), ..NewMember::default() };
    assert_eq!(client.add_member(member("n2")).await, Ok(()));
    let refused = client.add_member(member("n1")).await;
    assert!(matches!(refused, Err(Error::Rejected { .. })), "{refused:?}");
    assert_eq!(client.promote_member(2).await, Ok(()));
    assert_eq!(client.move_leader(Some(2)).await, Ok(()));
    assert_eq!(client.remove_member(2).await, Ok(()));
}

#[tokio::test]
async fn a_backup_is_whole_or_an_error() {
    let server = Server::start();
    let client = client(&server, "operator").await;
    let mut backup = client.snapshot().await.expect("the server answers");
    let mut whole = Vec::new();
    while let Some(piece) = backup.next().await {
        whole.extend_from_slice(&piece.expect("it is not damaged"));
    }
    assert_eq!(whole, b"one two three ");
    server.damage_backups();
    let mut backup = client.snapshot().await.expect("the server answers");
    let mut last = None;
    while let Some(piece) = backup.next().await {
        last = Some(piece);
    }
    assert!(matches!(last, Some(Err(Error::Damaged { .. }))), "{last:?}");
}
