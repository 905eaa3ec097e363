//! Whoever waits is told how it stands.

use fencepost_proto::v1::session_acquired::State as Stage;

use crate::support::{Talk, acquire, get_lock, release, world};

// Requirements: S0-065.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_wait_hear_who_holds_and_how_they_move_up() {
    let world = world(3).await;
    // The one who waits is served by a member that follows.
    let mut locks = world.locks((world.leader() + 1) % 3).await;
    let mut ahead = Vec::new();
    for number in 0..3 {
        let mut talk = Talk::open(&mut locks, &format!("ahead-{number}")).await;
        let lease = talk.lease(2, 1, 0).await;
        talk.say(3, Some(1), acquire(&["a"], lease, -1)).await;
        talk.acquired().await;
        ahead.push((talk, lease));
    }
    let mut talk = Talk::open(&mut locks, "last").await;
    let lease = talk.lease(2, 1, 0).await;
    talk.say(9, Some(1), acquire(&["a"], lease, -1)).await;
    let (id, told) = talk.acquired().await;
    assert_eq!((id, told.state(), told.position), (9, Stage::Queued, 3));
    assert_eq!(told.holder, "ahead-0");
    for (number, (holder, lease)) in ahead.iter_mut().enumerate() {
        let token = get_lock(&mut locks, "a").await.holders[0].fencing_token;
        holder.say(5, Some(2), release("a", *lease, token)).await;
        let (id, told) = talk.acquired().await;
        assert_eq!(id, 9);
        match 2_usize.checked_sub(number) {
            Some(position @ 1..) => {
                assert_eq!((told.state(), told.position), (Stage::Queued, position as u64));
                assert_eq!(told.holder, format!("ahead-{}", number + 1));
            }
            _ => assert_eq!(told.state(), Stage::Acquired),
        }
    }
}
