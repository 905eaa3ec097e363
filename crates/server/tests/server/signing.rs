//! Signed tokens: made by any member, verified offline with what any other one publishes.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fencepost_core::codec::encode_command;
use fencepost_core::command::{Action, Command, PublishKey};
use fencepost_core::{Limits, Millis, NodeId, PublicKey};
use fencepost_fence::Mode;
use fencepost_fence::signed::{Jwks, KeySource, SignedToken, Verifier, VerifyError};
use fencepost_node::io::Class;
use fencepost_node::shell::{Handle, Origin, Settings, backup, start};
use fencepost_proto::v1;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use fencepost_proto::v1::session_acquired::State;
use fencepost_proto::v1::session_request::Request;
use fencepost_server::Server;

use crate::port::get;
use crate::support::{
    Locks, PATIENCE, Talk, World, acquire, channel, lease, lock_request, refused, serve, soon,
    unlock, world,
};

const JWKS: &str = "/.well-known/jwks.json";

/// What a resource knows: the cluster, and the keys that a member has just told.
async fn verifier(server: &Server, handle: &Handle) -> Verifier {
    let (status, body) = get(server, JWKS).await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let cluster = format!("{:016x}", handle.status().cluster_id);
    Verifier::new(cluster, KeySource::fixed(Jwks::parse(&body).expect("it is a key set")))
}

impl World {
    async fn verifier(&self, place: usize) -> Verifier {
        verifier(&self.servers[place], self.cluster.nodes()[place].handle()).await
    }

    async fn keys(&self, place: usize) -> v1::ListSigningKeysResponse {
        let mut admin = self.admin(place).await;
        let listed = admin.list_signing_keys(v1::ListSigningKeysRequest {}).await;
        listed.expect("it is answered").into_inner()
    }

    fn id(&self, place: usize) -> u64 {
        self.cluster.nodes()[place].handle().status().id
    }
}

fn signed(name: &str, lease_id: i64, timeout_ms: i64) -> v1::LockRequest {
    v1::LockRequest { signed: true, ..lock_request(name, lease_id, timeout_ms) }
}

async fn lock_signed(locks: &mut Locks, name: &str, lease: i64) -> v1::LockResponse {
    let told = locks.lock(signed(name, lease, -1)).await.expect("it is answered").into_inner();
    assert!(told.acquired && !told.signed_token.is_empty(), "{told:?}");
    told
}

/// The name of the key that has signed.
fn kid_of(signed: &str) -> String {
    let header = signed.split('.').next().expect("it has a header");
    let header = URL_SAFE_NO_PAD.decode(header).expect("it is base64url");
    let header = String::from_utf8(header).expect("it is JSON");
    let (_, kid) = header.split_once(r#""kid":""#).expect("it names its key");
    kid.split('"').next().expect("it ends").to_owned()
}

fn state_of<'a>(keys: &'a v1::ListSigningKeysResponse, kid: &str) -> &'a str {
    keys.keys.iter().find(|key| key.kid == kid).map_or("", |key| &key.state)
}

fn assert_says(token: &SignedToken, told: &v1::LockResponse, lease: i64, holder: &str) {
    assert_eq!(token.presented.token.get(), u64::try_from(told.fencing_token).expect("it is one"));
    assert_eq!((token.lease.as_str(), token.holder.as_str()), (&*format!("{lease:x}"), holder));
    assert_eq!(token.expires_at, None);
    assert!(token.revision >= token.presented.token.get());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_any_member_signs_is_verified_with_the_keys_of_another() {
    let world = world(3).await;
    let mut kids = BTreeSet::new();
    for place in 0..3 {
        let mut locks = world.locks(place).await;
        let (name, holder) = (format!("jobs/{place}"), format!("worker-{place}"));
        let lease = lease(&mut locks, &holder).await;
        let told = lock_signed(&mut locks, &name, lease).await;
        // Its key was published before it signed, so every other member can tell of it.
        let verifier = world.verifier((place + 1) % 3).await;
        let token = verifier.verify(&told.signed_token, &name).expect("it is genuine");
        assert_says(&token, &told, lease, &holder);
        assert_eq!(token.presented.mode, Mode::Exclusive);
        assert!(matches!(
            verifier.verify(&told.signed_token, "jobs/other"),
            Err(VerifyError::Lock { .. })
        ));
        kids.insert(kid_of(&told.signed_token));
        // Asked again, the same hold is signed again.
        let again =
            v1::TryLockRequest { name, lease_id: lease, signed: true, ..Default::default() };
        let again = locks.try_lock(again).await.expect("it is answered").into_inner();
        assert_eq!((again.acquired, again.fencing_token), (true, told.fencing_token));
        verifier.verify_any_lock(&again.signed_token).expect("it is genuine");
    }
    assert_eq!(kids.len(), 3, "each member has a key of its own");
    let keys = world.keys(0).await;
    assert_eq!(keys.keys.iter().filter(|key| key.state == "active").count(), 3);
    assert_eq!(keys.pending, Vec::<u64>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_with_any_character_changed_is_refused() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let lease = lease(&mut locks, "c").await;
    let token = lock_signed(&mut locks, "a", lease).await.signed_token;
    let verifier = world.verifier(0).await;
    verifier.verify(&token, "a").expect("it is genuine");
    for at in 0..token.len() {
        let mut changed = token.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).expect("it is ASCII");
        assert!(verifier.verify(&changed, "a").is_err(), "character {at}");
    }
    // Nothing is signed that was not asked for, and nothing for those who do not hold.
    let other = lease_of(&mut locks).await;
    let plain = locks.lock(lock_request("b", other, 0)).await.expect("it is answered");
    assert_eq!(plain.into_inner().signed_token, "");
    let denied = locks.lock(signed("a", other, 0)).await.expect("it is answered").into_inner();
    assert_eq!((denied.acquired, &*denied.signed_token), (false, ""));
}

async fn lease_of(locks: &mut Locks) -> i64 {
    lease(locks, "somebody else").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mode_is_signed_and_a_grant_that_was_waited_for_too() {
    let world = world(3).await;
    let place = (world.leader() + 1) % 3;
    let mut locks = world.locks(place).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let modes = [(v1::LockMode::Shared, 0, Mode::Shared), (v1::LockMode::Permit, 2, Mode::Permit)];
    for (mode, permits, expected) in modes {
        for lease in [one, two] {
            let name = format!("{expected:?}");
            let request =
                v1::LockRequest { mode: mode.into(), permits, ..signed(&name, lease, -1) };
            let told = locks.lock(request).await.expect("it is answered").into_inner();
            let verifier = world.verifier(world.leader()).await;
            let token = verifier.verify(&told.signed_token, &name).expect("it is genuine");
            assert_eq!(token.presented.mode, expected);
        }
    }
    let held = lock_signed(&mut locks, "queue", one).await;
    let mut waits = world.locks(place).await;
    let waiting = tokio::spawn(async move { waits.lock(signed("queue", two, -1)).await });
    crate::support::until_waiters(&mut locks, "queue", 1).await;
    assert!(unlock(&mut locks, "queue", one, held.fencing_token).await);
    let told = soon(waiting).await.expect("it does not panic").expect("it is granted").into_inner();
    let token = world.verifier(0).await.verify(&told.signed_token, "queue").expect("it is genuine");
    assert_says(&token, &told, two, "two");
}

fn acquire_signed(names: &[&str], lease: (i64, u64), timeout_ms: i64) -> Request {
    match acquire(names, lease, timeout_ms) {
        Request::Acquire(plain) => Request::Acquire(v1::SessionAcquire { signed: true, ..plain }),
        _ => unreachable!("it is an acquire"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_answered_with_a_token_for_each_lock() {
    let world = world(3).await;
    let place = (world.leader() + 1) % 3;
    let mut locks = world.locks(place).await;
    // The key is there as soon as a call has waited for it.
    let first = lease(&mut locks, "first").await;
    lock_signed(&mut locks, "first", first).await;
    let mut talk = Talk::open(&mut locks, "me").await;
    let lease = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire_signed(&["x", "y"], lease, 0)).await;
    let (_, both) = talk.decided().await;
    let verifier = world.verifier((place + 1) % 3).await;
    assert_eq!(both.signed_tokens.len(), 2);
    assert_eq!(both.signed_token, both.signed_tokens[0]);
    for (name, signed) in ["x", "y"].into_iter().zip(&both.signed_tokens) {
        let token = verifier.verify(signed, name).expect("it is genuine");
        let number = u64::try_from(both.fencing_token).expect("it is one");
        assert_eq!((token.presented.token.get(), &*token.holder), (number, "me"));
    }
    // One that waits is told its place first, and gets its token with the grant.
    let other = talk.lease(4, 2, 0).await;
    talk.say(5, Some(1), acquire_signed(&["x"], other, -1)).await;
    assert_eq!(talk.acquired().await.1.state(), State::Queued);
    talk.say(
        6,
        Some(2),
        Request::Release(v1::SessionRelease {
            names: vec!["x".into(), "y".into()],
            lease_id: lease.0,
            lease_epoch: lease.1,
            fencing_token: both.fencing_token,
        }),
    )
    .await;
    let granted = loop {
        let heard = talk.hear().await;
        match heard.response {
            Some(v1::session_response::Response::Acquired(told))
                if told.state() == State::Acquired =>
            {
                break told;
            }
            _ => assert!(heard.failure.is_none(), "{heard:?}"),
        }
    };
    let token = verifier.verify(&granted.signed_token, "x").expect("it is genuine");
    assert_eq!(token.lease, format!("{:x}", other.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_believed_no_longer_and_replaced_at_once() {
    let world = world(3).await;
    let place = (world.leader() + 1) % 3;
    let mut locks = world.locks(place).await;
    let one = lease(&mut locks, "one").await;
    let old = lock_signed(&mut locks, "a", one).await.signed_token;
    let kid = kid_of(&old);
    world.verifier(0).await.verify(&old, "a").expect("it is genuine");
    // Any member can be asked.
    let mut admin = world.admin((place + 1) % 3).await;
    let revoke = |kid: &str| v1::RevokeSigningKeyRequest { kid: kid.into() };
    assert_eq!(refused(admin.revoke_signing_key(revoke("nobody")).await), "signing_key_unknown");
    let told = admin.revoke_signing_key(revoke(&kid)).await.expect("it is done").into_inner();
    assert!(told.keys.iter().any(|key| key.kid == kid && key.state == "revoked"), "{told:?}");
    for server in 0..3 {
        let refusal = world.verifier(server).await.verify(&old, "a").expect_err("it is revoked");
        assert!(matches!(refusal, VerifyError::UnknownKey(_)), "{refusal}");
    }
    // Until the new key is there, calls wait; then they are signed with it.
    let new = soon(async {
        loop {
            let new = lock_signed(&mut locks, "b", one).await.signed_token;
            if kid_of(&new) != kid {
                return new;
            }
        }
    })
    .await;
    world.verifier(place).await.verify(&new, "b").expect("it is genuine");
    // The file of the old one is gone with it.
    let left = soon(async {
        loop {
            let files = std::fs::read_dir(world.dirs[place].join("signing")).expect("it is there");
            let files: Vec<_> = files.map(|file| file.expect("it is listed").file_name()).collect();
            if files.len() == 1 {
                return files;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(left, ["000002.key"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_rotated_by_whoever_is_asked() {
    let world = world(3).await;
    let place = (world.leader() + 1) % 3;
    let mut locks = world.locks(place).await;
    let one = lease(&mut locks, "one").await;
    let first = lock_signed(&mut locks, "a", one).await.signed_token;
    let mut admin = world.admin((place + 1) % 3).await;
    let unknown = v1::RotateSigningKeyRequest { member_id: 12_345, after_ms: 0 };
    assert_eq!(refused(admin.rotate_signing_key(unknown).await), "member_unknown");
    let negative = v1::RotateSigningKeyRequest { member_id: world.id(place), after_ms: -1 };
    assert_eq!(refused(admin.rotate_signing_key(negative).await), "field_invalid");
    // A key that gets around first does not sign.
    let later = v1::RotateSigningKeyRequest { member_id: world.id(place), after_ms: 86_400_000 };
    let told = admin.rotate_signing_key(later).await.expect("it is done").into_inner();
    assert_eq!(told.pending, Vec::<u64>::new());
    let next: Vec<_> = told.keys.iter().filter(|key| key.state == "next").collect();
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].member_id, world.id(place));
    assert!(next[0].due_ms > 86_000_000, "{next:?}");
    let second = lock_signed(&mut locks, "b", one).await.signed_token;
    assert_eq!(kid_of(&second), kid_of(&first));
    // One that is wanted at once does, and what was signed before stays genuine.
    let now = v1::RotateSigningKeyRequest { member_id: world.id(place), after_ms: 0 };
    let told = admin.rotate_signing_key(now).await.expect("it is done").into_inner();
    assert_eq!(told.pending, Vec::<u64>::new());
    let third = soon(async {
        loop {
            // The member itself may see the change a moment after the one that was asked.
            let third = lock_signed(&mut locks, "c", one).await.signed_token;
            if kid_of(&third) != kid_of(&first) {
                return third;
            }
        }
    })
    .await;
    let keys = world.keys(place).await;
    assert_eq!(state_of(&keys, &kid_of(&first)), "retired");
    assert_eq!(state_of(&keys, &kid_of(&third)), "active");
    let verifier = world.verifier(place).await;
    verifier.verify(&first, "a").expect("a retired key is believed");
    verifier.verify(&third, "c").expect("it is genuine");
    // All at once, through any of them.
    let all = v1::RotateSigningKeyRequest::default();
    let told = admin.rotate_signing_key(all).await.expect("it is done").into_inner();
    assert_eq!(told.pending, Vec::<u64>::new());
    assert_eq!(told.keys.iter().filter(|key| key.state == "active").count(), 3);
    let kids: BTreeSet<&str> = told.keys.iter().map(|key| key.kid.as_str()).collect();
    assert_eq!(kids.len(), told.keys.len());
    assert_eq!(state_of(&world.keys(0).await, &kid_of(&third)), "retired");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_keeps_its_key_over_a_restart_and_one_that_is_removed_leaves_it_retired() {
    let mut world = world(3).await;
    let place = (world.leader() + 1) % 3;
    let other = (place + 1) % 3;
    let mut locks = world.locks(place).await;
    let one = lease(&mut locks, "one").await;
    let before = lock_signed(&mut locks, "a", one).await.signed_token;
    let gone = world.cluster.take(place);
    let (id, address) = (gone.handle().status().id, gone.handle().status().peer);
    gone.kill();
    drop(gone);
    world.servers.remove(place).stop().await;
    let settings = Settings {
        peer_listen: address.parse().expect("it is an address"),
        ..Settings::new(world.dirs[place].clone(), "ignored")
    };
    let back = start(settings).expect("its directory is sound");
    let server = serve(&back).await;
    let mut locks = LockServiceClient::new(channel(&server).await);
    let after = soon(async {
        loop {
            // It may have to hear of the leader first.
            if let Ok(told) = locks.lock(signed("b", one, -1)).await {
                return told.into_inner().signed_token;
            }
        }
    })
    .await;
    assert_eq!(kid_of(&after), kid_of(&before));
    let verifier = verifier(&server, back.handle()).await;
    verifier.verify(&before, "a").expect("it is genuine");
    verifier.verify(&after, "b").expect("it is genuine");
    // Taken out of the cluster, it signs nothing more, and what it has signed stays genuine.
    let server_left = usize::from(other > place && other > 0);
    let remaining = &world.servers[other - server_left];
    let mut admin = v1::cluster_service_client::ClusterServiceClient::new(channel(remaining).await);
    admin.remove_member(v1::RemoveMemberRequest { id }).await.expect("it is removed");
    soon(async {
        loop {
            let listed = admin.list_signing_keys(v1::ListSigningKeysRequest {}).await;
            let listed = listed.expect("it is answered").into_inner();
            if state_of(&listed, &kid_of(&before)) == "retired" {
                return;
            }
        }
    })
    .await;
    let (_, body) = get(remaining, JWKS).await;
    assert!(body.contains(&kid_of(&before)), "{body}");
    server.stop().await;
}

fn propose(handle: &Handle, action: Action) {
    let mut bytes = Vec::new();
    encode_command(&Command::from(action), &mut bytes);
    handle.propose_and_wait(Class::Ordinary, bytes).expect("it is done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_key_is_not_published_says_so_and_grants_only_what_it_can() {
    let folder = tempfile::TempDir::new().expect("there is room");
    let settings =
        Settings { origin: Origin::Alone, ..Settings::new(folder.path().join("n1"), "n1") };
    let node = start(settings).expect("its directory is new");
    node.handle().board().wait_until(PATIENCE, |status| status.role.leads).expect("it leads");
    // Another key takes all the room that there is.
    let tight = Limits { signing_keys_max: 1, ..Limits::default() };
    propose(node.handle(), Action::SetLimits(Box::new(tight)));
    let (key, after) = (PublicKey([7; 32]), Millis::ZERO);
    propose(node.handle(), Action::PublishKey(PublishKey { node: NodeId(99), key, after }));
    let server = serve(&node).await;
    let mut locks = LockServiceClient::new(channel(&server).await);
    let one = lease(&mut locks, "one").await;
    assert_eq!(refused(locks.lock(signed("a", one, -1)).await), "signing_unavailable");
    assert_eq!(crate::support::get_lock(&mut locks, "a").await.holders.len(), 0);
    let mut talk = Talk::open(&mut locks, "me").await;
    let lease = talk.lease(2, 1, 0).await;
    talk.say(3, Some(1), acquire_signed(&["a"], lease, 0)).await;
    let failure = talk.failure().await;
    assert_eq!((&*failure.code, failure.retryable), ("signing_unavailable", true));
    let Request::Acquire(welcome) = acquire(&["a"], lease, 0) else { unreachable!() };
    let welcome = v1::SessionAcquire { signed_if_possible: true, ..welcome };
    talk.say(4, Some(2), Request::Acquire(welcome)).await;
    let (_, told) = talk.decided().await;
    assert_eq!((told.state(), &*told.signed_token), (State::Acquired, ""));
    // It tries again until there is room.
    propose(node.handle(), Action::SetLimits(Box::default()));
    let told = soon(async {
        loop {
            if let Ok(told) = locks.lock(signed("b", one, -1)).await {
                return told.into_inner();
            }
        }
    })
    .await;
    verifier(&server, node.handle()).await.verify(&told.signed_token, "b").expect("it is genuine");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_gives_a_statement_for_resources() {
    let world = world(3).await;
    let mut locks = world.locks((world.leader() + 1) % 3).await;
    let (one, two) = (lease(&mut locks, "one").await, lease(&mut locks, "two").await);
    let held = lock_signed(&mut locks, "a", one).await;
    let force = v1::ForceReleaseRequest {
        name: "a".into(),
        fencing_token: held.fencing_token,
        reason: "stuck".into(),
        now: true,
        signed: true,
        ..Default::default()
    };
    let told = locks.force_release(force.clone()).await.expect("it is done").into_inner();
    assert!(told.released);
    let verifier = world.verifier(0).await;
    let floor = verifier.verify_floor(&told.signed_floor, "a").expect("it is genuine");
    let below = floor.floor.below.expect("it was exclusive").get();
    assert_eq!(below, u64::try_from(held.fencing_token).expect("it is one") + 1);
    // It is no token, and a token is no floor.
    assert!(verifier.verify(&told.signed_floor, "a").is_err());
    assert!(verifier.verify_floor(&held.signed_token, "a").is_err());
    // Asked again, there is nothing to release, and the statement is given once more.
    let again = locks.force_release(force).await.expect("it is done").into_inner();
    assert!(!again.released && verifier.verify_floor(&again.signed_floor, "a").is_ok());
    // Of shared holders one token is listed. It is fenced off while the release is pending.
    let shared = v1::LockRequest { mode: v1::LockMode::Shared.into(), ..signed("s", two, -1) };
    let shared = locks.lock(shared).await.expect("it is answered").into_inner();
    let force = v1::ForceReleaseRequest {
        name: "s".into(),
        fencing_token: shared.fencing_token,
        reason: "stuck".into(),
        now: false,
        signed: true,
        ..Default::default()
    };
    let told = locks.force_release(force).await.expect("it is done").into_inner();
    assert!(!told.released && told.pending_ms > 0);
    let floor = verifier.verify_floor(&told.signed_floor, "s").expect("it is genuine").floor;
    assert_eq!((floor.below, floor.taken.len()), (None, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_old_tokens_stay_genuine_and_new_ones_have_a_new_key() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    let one = lease(&mut locks, "one").await;
    let before = lock_signed(&mut locks, "a", one).await.signed_token;
    let chunks = world.admin(0).await.snapshot(v1::SnapshotRequest::default()).await;
    let mut chunks = chunks.expect("it is made").into_inner();
    let mut data = Vec::new();
    while let Some(chunk) = soon(chunks.message()).await.expect("it goes on") {
        data.extend_from_slice(&chunk.data);
    }
    let from = world.dirs[0].with_extension("backup");
    std::fs::write(&from, &data).expect("there is room");
    let data_dir = world.dirs[0].with_extension("restored");
    let restore = backup::Restore {
        from,
        data_dir: data_dir.clone(),
        name: "r".into(),
        grant_after: Some(0),
        ..Default::default()
    };
    backup::restore(restore).expect("it is whole");
    let settings = Settings { origin: Origin::Alone, ..Settings::new(data_dir, "r") };
    let node = start(settings).expect("it begins");
    node.handle().board().wait_until(PATIENCE, |status| status.role.leads).expect("it leads");
    let server = serve(&node).await;
    let mut locks = LockServiceClient::new(channel(&server).await);
    let two = lease(&mut locks, "two").await;
    let told = lock_signed(&mut locks, "a", two).await;
    assert_ne!(kid_of(&told.signed_token), kid_of(&before));
    let verifier = verifier(&server, node.handle()).await;
    let new = verifier.verify(&told.signed_token, "a").expect("it is genuine");
    // The member of the lost cluster signs nothing for this one, and what it has signed is lower.
    let old = verifier.verify(&before, "a").expect("it is genuine");
    assert!(old.presented.token < new.presented.token);
    server.stop().await;
}
