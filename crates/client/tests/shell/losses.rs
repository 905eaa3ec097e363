//! Losing a lock, and noticing.

use std::time::Duration;

use fencepost_client::{Error, Forced, Loss, Released};

use crate::support::grpc::Server;
use crate::{SOON, client};

/// A machine that stands still for half of this makes a lock look lost.
const TTL: Duration = Duration::from_secs(6);

// Requirements: S2-006, S2-009, S2-011, S2-020.
#[tokio::test]
async fn work_stops_before_the_service_can_grant_to_another() {
    let server = Server::start();
    let client = client(&server, "cut-off").await;
    let guard = client.lock("a").ttl(TTL).acquire().await.expect("it is free");
    let token = guard.cancel_token();
    server.be_silent(true);
    let lost = guard.run(std::future::pending::<()>()).await.expect_err("nothing is confirmed");
    assert_eq!(lost.loss, Loss::Unconfirmed);
    assert!(token.is_cancelled());
    assert!(!guard.is_valid());
    // There is time left to wind down in, and the lock is still kept for this holder.
    assert!(guard.remaining() > Duration::ZERO);
    server.with(|store| assert_eq!(store.claims.len(), 1));
    server.be_silent(false);
    assert_eq!(guard.release().await, Ok(Released::AfterLoss));
    server.until(|store| store.claims.is_empty()).await;
}

#[tokio::test]
async fn a_finished_piece_of_work_is_returned() {
    let server = Server::start();
    let client = client(&server, "quick").await;
    let guard = client.lock("a").acquire().await.expect("it is free");
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    assert!(guard.loss().is_none());
}

// Requirements: S2-016.
#[test]
fn renewals_go_on_while_the_users_runtime_is_blocked() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(&server, "blocked").await;
        let guard = client.lock("a").ttl(TTL).acquire().await.expect("it is free");
        // This thread, and with it the whole runtime, stands still for longer than the TTL.
        let before = server.with(|store| store.renewals);
        server.block_until(|store| store.renewals >= before + 4);
        assert!(guard.is_valid());
    });
}

#[tokio::test]
async fn a_deleted_key_is_noticed_at_once_or_with_the_next_renewal() {
    let server = Server::start();
    let client = client(&server, "robbed").await;
    let guard = client.lock("a").ttl(TTL).acquire().await.expect("it is free");
    server.with(|store| store.delete_key_of("a"));
    assert_eq!(guard.lost().await, Loss::Taken { cause: "deleted".to_owned() });

    // The notice is lost with its connection: the count of changes tells.
    let guard = client.lock("b").ttl(TTL).acquire().await.expect("it is free");
    server.with(|store| {
        store.delete_key_of("b");
        store.take_frames();
    });
    assert!(matches!(guard.lost().await, Loss::Taken { .. }));
}

#[tokio::test]
async fn a_revoked_lease_is_a_lost_lock() {
    let server = Server::start();
    let (holder, operator) = (client(&server, "holder").await, client(&server, "operator").await);
    let guard = holder.lock("a").ttl(TTL).acquire().await.expect("it is free");
    assert_eq!(operator.revoke_lease(guard.lease_id()).await, Ok(1));
    assert!(matches!(guard.lost().await, Loss::Taken { .. } | Loss::LeaseGone));
    assert!(!guard.is_valid());
}

#[tokio::test]
async fn an_operator_asks_and_the_holder_lets_go() {
    let server = Server::start();
    let (holder, operator) = (client(&server, "holder").await, client(&server, "operator").await);
    let guard = holder.lock("a").acquire().await.expect("it is free");
    let waits = operator.lock("a").wait(SOON).acquire();
    let forced = operator.force_release("a", guard.token(), "maintenance", false).await;
    assert!(matches!(forced, Ok(Forced::Pending(_))), "{forced:?}");
    assert_eq!(guard.lost().await, Loss::Asked { reason: "maintenance".to_owned() });
    // Letting go is the answer that the operator waits for.
    drop(guard);
    let guard = waits.await.expect("it passes on long before the TTL");
    let wrong = operator.force_release("a", fencepost_client::Token(1), "x", true).await;
    assert!(matches!(wrong, Err(Error::Rejected { .. })), "{wrong:?}");
    let forced = operator.force_release("a", guard.token(), "now", true).await;
    assert_eq!(forced, Ok(Forced::Released));
}

#[tokio::test]
async fn closing_the_client_ends_its_guards() {
    let server = Server::start();
    let client = client(&server, "leaving").await;
    let guard = client.lock("a").acquire().await.expect("it is free");
    client.clone().close().await;
    assert!(!guard.is_valid());
    let refused = client.lock("b").acquire().await;
    assert_eq!(refused.expect_err("it is closed"), Error::Closed);
}
