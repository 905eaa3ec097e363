//! Every answer of every call says who answers, who leads and how far the state is, also on a member
//! that follows.

use std::collections::BTreeSet;

use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::support::{Locks, Talk, World, acquire, lease, lock_request, release, soon, world};

/// What a header must say, and which calls have said it.
struct Walk {
    expected: v1::Header,
    walked: BTreeSet<String>,
}

impl Walk {
    fn check(&mut self, call: &str, header: Option<v1::Header>) {
        let header = header.unwrap_or_else(|| panic!("{call} has no header"));
        assert!(header.revision > 0, "{call}: {header:?}");
        let expected = v1::Header { revision: header.revision, ..self.expected.clone() };
        assert_eq!(header, expected, "{call}");
        self.walked.insert(call.to_owned());
    }
}

/// Calls one method and looks at the header of its answer.
macro_rules! walk {
    ($walk:ident, $client:ident, $call:literal, $method:ident($request:expr)) => {{
        let answer = soon($client.$method($request)).await;
        let answer = answer.unwrap_or_else(|why| panic!("{}: {why:?}", $call)).into_inner();
        $walk.check($call, answer.header.clone());
        answer
    }};
}

async fn expected(world: &World, place: usize) -> v1::Header {
    let status = world.cluster.nodes()[place].handle().status();
    let leader = world.cluster.nodes()[world.leader()].handle().status();
    v1::Header {
        cluster_id: leader.cluster_id,
        member_id: status.id,
        revision: 0,
        raft_term: leader.role.term,
        leader_id: leader.id,
        leader_address: world.servers[world.leader()].address().to_string(),
        incarnation: 0,
    }
}

// Requirements: S0-027, S0-039, S0-043, S0-044, S0-045, S0-046, S0-049.
#[tokio::test(flavor = "multi_thread")]
async fn every_call_on_a_follower_answers_with_a_header() {
    let world = world(3).await;
    world.tell_addresses().await;
    let place = (world.leader() + 1) % 3;
    let mut locks = world.locks(place).await;
    let walked = BTreeSet::new();
    let mut walk = Walk { expected: expected(&world, place).await, walked };
    soon(async {
        // It hears of the addresses a moment later.
        while world.cluster.nodes()[place]
            .handle()
            .status()
            .members
            .members
            .values()
            .any(|one| one.client.is_empty())
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
    calls(&mut walk, &mut locks).await;
    streams(&mut walk, &mut locks).await;
    session(&mut walk, &mut locks).await;
    cluster(&mut walk, &world, place).await;
    assert_eq!(walk.walked, all_methods());
}

/// All that the native schemas name.
fn all_methods() -> BTreeSet<String> {
    let files = FileDescriptorSet::decode(fencepost_proto::DESCRIPTORS);
    let files = files.expect("they were encoded with this build").file;
    let own = files.iter().filter(|file| file.package() == "fencepost.v1");
    let services = own.flat_map(|file| &file.service);
    services.flat_map(|service| &service.method).map(|one| one.name().to_owned()).collect()
}

async fn calls(walk: &mut Walk, locks: &mut Locks) {
    let grant = v1::LeaseGrantRequest { ttl: 60, ..Default::default() };
    let id = walk!(walk, locks, "LeaseGrant", lease_grant(grant)).id;
    let held = walk!(walk, locks, "Lock", lock(lock_request("a", id, -1)));
    let fencing_token = held.fencing_token;
    let again = v1::TryLockRequest { name: "a".into(), lease_id: id, ..Default::default() };
    walk!(walk, locks, "TryLock", try_lock(again));
    let get = v1::GetLockRequest { name: "a".into(), ..Default::default() };
    walk!(walk, locks, "GetLock", get_lock(get));
    walk!(walk, locks, "ListLocks", list_locks(v1::ListLocksRequest::default()));
    let why = v1::ExplainRequest { name: "a".into(), lease_id: 0 };
    walk!(walk, locks, "Explain", explain(why));
    let (name, lease_id) = ("a".to_owned(), id);
    let unlock = v1::UnlockRequest { name, lease_id, fencing_token, ..Default::default() };
    walk!(walk, locks, "Unlock", unlock(unlock));
    let line = v1::TextCommandRequest { line: "ACQUIRE:t:c:30000".into() };
    walk!(walk, locks, "TextCommand", text_command(line));
    let forced = locks.lock(lock_request("b", id, -1)).await.expect("it is free").into_inner();
    let force = v1::ForceReleaseRequest {
        name: "b".into(),
        fencing_token: forced.fencing_token,
        reason: "wanted".into(),
        now: true,
        signed: false,
        ..Default::default()
    };
    walk!(walk, locks, "ForceRelease", force_release(force));
    let lock = v1::DeleteLockRequest { name: "nobody/wants/it".into() };
    walk!(walk, locks, "DeleteLock", delete_lock(lock));
    let clients = v1::ListClientsRequest::default();
    walk!(walk, locks, "ListClients", list_clients(clients));
    let client_id = "c".into();
    walk!(walk, locks, "GetClient", get_client(v1::GetClientRequest { client_id }));
    walk!(walk, locks, "GetLease", get_lease(v1::GetLeaseRequest { id }));
    walk!(walk, locks, "ListLeases", list_leases(v1::ListLeasesRequest::default()));
    walk!(walk, locks, "LeaseRevoke", lease_revoke(v1::LeaseRevokeRequest { id, epoch: 0 }));
    let key = || "k".to_owned();
    walk!(walk, locks, "Put", put(v1::PutRequest { key: key(), ..Default::default() }));
    walk!(walk, locks, "Range", range(v1::RangeRequest { key: key(), ..Default::default() }));
    let delete = v1::DeleteRangeRequest { key: key(), ..Default::default() };
    walk!(walk, locks, "DeleteRange", delete_range(delete));
}

async fn streams(walk: &mut Walk, locks: &mut Locks) {
    let id = lease(locks, "c").await;
    let (sender, frames) = tokio::sync::mpsc::channel(4);
    sender.send(v1::LeaseKeepAliveRequest { id, ..Default::default() }).await.expect("it is open");
    let alive = locks.lease_keep_alive(ReceiverStream::new(frames)).await.expect("it is opened");
    let told = soon(alive.into_inner().message()).await.expect("it goes on").expect("it goes on");
    walk.check("LeaseKeepAlive", told.header);
    let (sender, frames) = tokio::sync::mpsc::channel(4);
    let request = v1::WatchRequest { key: "k".into(), watch_id: 1, ..Default::default() };
    sender.send(request).await.expect("it is open");
    let watch = locks.watch(ReceiverStream::new(frames)).await.expect("it is opened");
    let mut watch = watch.into_inner();
    let told = soon(watch.message()).await.expect("it goes on").expect("it goes on");
    walk.check("Watch", told.header);
    locks.put(v1::PutRequest { key: "k".into(), ..Default::default() }).await.expect("it is done");
    let told = soon(watch.message()).await.expect("it goes on").expect("it goes on");
    assert_eq!(told.events.len(), 1);
    walk.check("Watch", told.header);
}

/// Each kind of request on a session, and one that fails.
async fn session(walk: &mut Walk, locks: &mut Locks) {
    let mut talk = Talk::silent(locks).await;
    let hello = v1::SessionHello {
        client_id: "s".into(),
        version_min: 1,
        version_max: 1,
        ..Default::default()
    };
    talk.say(1, None, Request::Hello(hello)).await;
    walk.check("Session", talk.hear().await.header);
    let held = talk.lease(2, 1, 0).await;
    let (lease_id, lease_epoch) = held;
    let watch = v1::WatchRequest { key: "w".into(), watch_id: 1, ..Default::default() };
    let renewal = v1::LeaseKeepAliveRequest { id: lease_id, epoch: lease_epoch, number: 1 };
    let key = || "k".to_owned();
    let requests = [
        Request::Renew(v1::RenewMany { renewals: vec![renewal] }),
        acquire(&["s"], held, -1),
        release("s", held, 1),
        Request::Cancel(v1::SessionCancel { lease_id, lease_epoch, seq: 900 }),
        Request::Watch(watch),
        Request::GetLock(v1::GetLockRequest { name: "s".into(), ..Default::default() }),
        Request::Put(v1::PutRequest { key: key(), ..Default::default() }),
        Request::Range(v1::RangeRequest { key: key(), ..Default::default() }),
        Request::DeleteRange(v1::DeleteRangeRequest { key: key(), ..Default::default() }),
        Request::Ping(v1::Ping {}),
        // This one fails.
        Request::Range(v1::RangeRequest::default()),
    ];
    for (number, request) in (10..).zip(requests) {
        talk.say(number, Some(number), request).await;
        let heard = talk.hear().await;
        assert_eq!(heard.request_id, number);
        walk.check("Session", heard.header);
    }
    // Something that was not asked for.
    let taken = v1::DeleteRangeRequest { key: format!("s/{lease_id:x}"), ..Default::default() };
    locks.delete_range(taken).await.expect("it is there");
    let lost = talk.hear().await;
    assert!(matches!(lost.response, Some(Response::HoldLost(_))), "{lost:?}");
    walk.check("Session", lost.header);
    let revoke = v1::LeaseRevokeRequest { id: lease_id, epoch: lease_epoch };
    talk.say(99, Some(2), Request::LeaseRevoke(revoke)).await;
    walk.check("Session", talk.hear().await.header);
}

async fn cluster(walk: &mut Walk, world: &World, place: usize) {
    let mut admin = world.admin(place).await;
    walk!(walk, admin, "Status", status(v1::StatusRequest {}));
    walk!(walk, admin, "Members", members(v1::MembersRequest {}));
    let kid = loop {
        let none = v1::ListSigningKeysRequest {};
        let listed = walk!(walk, admin, "ListSigningKeys", list_signing_keys(none));
        // The members publish them when they have found a leader.
        if let Some(key) = listed.keys.first() {
            break key.kid.clone();
        }
    };
    let all = v1::RotateSigningKeyRequest::default();
    walk!(walk, admin, "RotateSigningKey", rotate_signing_key(all));
    let revoke = v1::RevokeSigningKeyRequest { kid };
    walk!(walk, admin, "RevokeSigningKey", revoke_signing_key(revoke));
    walk!(walk, admin, "Limits", limits(v1::LimitsRequest {}));
    walk!(walk, admin, "ChangeLimits", change_limits(v1::ChangeLimitsRequest::default()));
    let add = v1::AddMemberRequest { id: 77, name: "n4".into(), ..Default::default() };
    walk!(walk, admin, "AddMember", add_member(add));
    // One that votes already.
    let id = walk.expected.member_id;
    walk!(walk, admin, "Promote", promote(v1::PromoteRequest { id }));
    walk!(walk, admin, "RemoveMember", remove_member(v1::RemoveMemberRequest { id: 77 }));
    let chunks = admin.snapshot(v1::SnapshotRequest::default()).await.expect("it is made");
    let chunk = soon(chunks.into_inner().message()).await.expect("it goes on");
    walk.check("Snapshot", chunk.expect("it goes on").header);
    // The last: from here on another one leads.
    let leader = world.leader();
    let to = world.cluster.nodes()[place].handle().status().id;
    let moved = soon(admin.move_leader(v1::MoveLeaderRequest { to })).await;
    let header = moved.expect("any member can hand over").into_inner().header;
    walk.expected.raft_term += 1;
    walk.expected.leader_id = to;
    walk.expected.leader_address = world.servers[place].address().to_string();
    assert_ne!(leader, place);
    walk.check("MoveLeader", header);
}
