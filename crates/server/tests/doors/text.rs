//! Lock commands as text.

use fencepost_proto::v1;

use crate::support::{Locks, refused, world};
use crate::talk::revision;

async fn say(locks: &mut Locks, line: &str) -> v1::TextCommandResponse {
    let request = v1::TextCommandRequest { line: line.into() };
    locks.text_command(request).await.expect("it is answered").into_inner()
}

// Requirements: S4-012, S4-013, S4-014, S4-017.
#[tokio::test(flavor = "multi_thread")]
async fn results_have_the_words_of_the_founding_document() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    for (line, result) in [
        ("ACQUIRE:db-migration:client-1:30000", "Acquired"),
        ("ACQUIRE:db-migration:client-1:30000", "Renewed"),
        ("ACQUIRE:db-migration:client-2:30000", "Denied(Lock held by client-1)"),
        ("HEARTBEAT:db-migration:client-1", "Renewed"),
        ("HEARTBEAT:db-migration:client-2", "Denied(Not the lock owner)"),
        ("RELEASE:db-migration:client-2", "Denied(Not the lock owner)"),
        ("RELEASE:db-migration:client-1", "Released"),
        ("RELEASE:db-migration:client-1", "NotFound"),
        ("HEARTBEAT:db-migration:client-1", "NotFound"),
        ("ACQUIRE:db-migration:client-2:30000", "Acquired"),
        ("ACQUIRE:host%3A80:client-2:30000", "Acquired"),
    ] {
        assert_eq!(say(&mut locks, line).await.result, result, "{line}");
    }
}

// Requirements: S4-015, S4-017.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_a_result_and_changes_nothing() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let before = revision(&mut locks).await;
    for line in
        ["", "nonsense", "ACQUIRE:a:b", "ACQUIRE:a:b:soon", "RELEASE:a", "acquire:a:b:30000"]
    {
        let told = say(&mut locks, line).await;
        assert_eq!(told.result, format!("Error(Invalid lock command: {line})"));
        assert_eq!((told.fencing_token, told.key.as_str()), (0, ""));
    }
    let short = say(&mut locks, "ACQUIRE:a:b:30").await;
    assert_eq!(short.result, "Error(a TTL of 30 ms is below 500 ms)");
    let long = v1::TextCommandRequest { line: "x".repeat(5_000) };
    assert_eq!(refused(locks.text_command(long).await), "request_too_large");
    assert_eq!(revision(&mut locks).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_carries_its_token() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let told = say(&mut locks, "ACQUIRE:a:one:30000").await;
    assert!(told.fencing_token > 0 && told.key.starts_with("a/"));
    assert_eq!(told.remaining_ms, 30_000);
    assert_eq!(say(&mut locks, "HEARTBEAT:a:one").await.fencing_token, told.fencing_token);
    say(&mut locks, "RELEASE:a:one").await;
    assert!(say(&mut locks, "ACQUIRE:a:two:30000").await.fencing_token > told.fencing_token);
}
