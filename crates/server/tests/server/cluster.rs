//! Members, leadership, backups.

use fencepost_node::boot;
use fencepost_node::data_dir::{DataDir, Identity};
use fencepost_node::shell::{Origin, Settings, backup, start};
use fencepost_node::wal::WalConfig;
use fencepost_proto::v1;

use crate::support::{PATIENCE, lease, refused, soon, world};

// Requirements: S3-005.
#[tokio::test(flavor = "multi_thread")]
async fn the_status_names_everyone() {
    let world = world(3).await;
    let leader = world.leader();
    let mut admin = world.admin((leader + 1) % 3).await;
    lease(&mut world.locks(0).await, "c").await;
    let leases = soon(async {
        loop {
            let status = admin.status(v1::StatusRequest {}).await.expect("it is answered");
            let status = status.into_inner();
            // A follower hears of the lease a moment later.
            if status.leases == 1 {
                return status;
            }
        }
    })
    .await;
    assert_eq!(leases.members.len(), 3);
    assert!(leases.applied_index > 0 && !leases.version.is_empty());
    let leaders: Vec<_> = leases.members.iter().filter(|one| one.role == "leader").collect();
    assert_eq!(leaders.len(), 1);
    assert_eq!(leaders[0].id, leases.header.expect("it has one").leader_id);
    assert_eq!(leaders[0].name, format!("n{}", leader + 1));
    let members = admin.members(v1::MembersRequest {}).await.expect("it is answered");
    // For how long nothing was heard differs from one moment to the next.
    let known = |members: Vec<v1::Member>| -> Vec<v1::Member> {
        members.into_iter().map(|member| v1::Member { silent_ms: 0, ..member }).collect()
    };
    assert_eq!(known(members.into_inner().members), known(leases.members));
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over() {
    let world = world(3).await;
    let leader = world.leader();
    let mut admin = world.admin(leader).await;
    let to = world.cluster.nodes()[(leader + 1) % 3].handle().status().id;
    let moved = soon(admin.move_leader(v1::MoveLeaderRequest { to })).await;
    let header = moved.expect("it is handed over").into_inner().header.expect("it has one");
    assert_eq!(header.leader_id, to);
    // Where clients reach the leader is not known, so it cannot be asked.
    let refusal = admin.move_leader(v1::MoveLeaderRequest { to }).await;
    assert_eq!(refused(refusal), "not_leader");
    let mut next = world.admin((leader + 1) % 3).await;
    let unknown = next.move_leader(v1::MoveLeaderRequest { to: 12_345 }).await;
    assert_eq!(refused(unknown), "member_unknown");
    let chosen = soon(next.move_leader(v1::MoveLeaderRequest { to: 0 })).await;
    let header = chosen.expect("it is handed over").into_inner().header.expect("it has one");
    assert_ne!(header.leader_id, to);
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over_by_any_member() {
    let world = world(3).await;
    world.tell_addresses().await;
    let ids: Vec<u64> =
        world.cluster.nodes().iter().map(|node| node.handle().status().id).collect();
    for _ in 0..3 {
        let leader = world.leader();
        let (asked, other) = ((leader + 1) % 3, (leader + 2) % 3);
        let mut admin = world.admin(asked).await;
        let unknown = admin.move_leader(v1::MoveLeaderRequest { to: 12_345 }).await;
        assert_eq!(refused(unknown), "member_unknown");
        let moved = soon(admin.move_leader(v1::MoveLeaderRequest { to: ids[other] })).await;
        let header = moved.expect("it is handed over").into_inner().header.expect("it has one");
        assert_eq!((header.leader_id, header.member_id), (ids[other], ids[asked]));
        assert_eq!(world.leader(), other);
    }
    // Whoever leads chooses.
    let leader = world.leader();
    let mut admin = world.admin((leader + 1) % 3).await;
    let moved = soon(admin.move_leader(v1::MoveLeaderRequest { to: 0 })).await;
    let header = moved.expect("it is handed over").into_inner().header.expect("it has one");
    assert_ne!(header.leader_id, ids[leader]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_added_by_hand_is_promoted_by_hand() {
    const ID: u64 = 4_444;
    let world = world(3).await;
    let mut admin = world.admin((world.leader() + 1) % 3).await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let peer_listen = listener.local_addr().expect("it is bound");
    drop(listener);
    let add = v1::AddMemberRequest {
        id: ID,
        name: "n4".into(),
        peer_address: peer_listen.to_string(),
        ..Default::default()
    };
    admin.add_member(add).await.expect("it is added");
    // Its directory is prepared for exactly this.
    let data_dir = world.dirs[0].with_extension("fourth");
    let mut dir = DataDir::open(&data_dir).expect("it is new");
    let config = WalConfig { segment_bytes: WalConfig::SEGMENT_BYTES, salt: 7 };
    drop(boot::open(dir.disk(), config, false).expect("it is empty"));
    let cluster_id = world.cluster.nodes()[0].handle().status().cluster_id;
    let name = "n4".to_owned();
    let identity = Identity { cluster_id, node_id: ID, name, incarnation: 0, boot: 0 };
    dir.adopt(identity).expect("it has none yet");
    drop(dir);
    let settings = Settings { peer_listen, ..Settings::new(data_dir, "n4") };
    let fourth = start(settings).expect("it is a member");
    // It is tried for a while, because the newcomer has to catch up first.
    let promoted = soon(admin.promote(v1::PromoteRequest { id: ID })).await;
    promoted.expect("it has caught up").into_inner().header.expect("it has one");
    let votes = fourth
        .handle()
        .board()
        .wait_until(PATIENCE, |status| status.members.voters().contains(&ID));
    votes.expect("it votes");
    let members = admin.members(v1::MembersRequest {}).await.expect("it is answered");
    let members = members.into_inner().members;
    assert!(members.iter().any(|one| one.id == ID && one.role == "voter"), "{members:?}");
    // Once more does no harm.
    soon(admin.promote(v1::PromoteRequest { id: ID })).await.expect("it votes already");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_any_member_holds_what_was_answered_elsewhere() {
    let world = world(3).await;
    let leader = world.leader();
    let mut locks = world.locks(leader).await;
    let mut admin = world.admin((leader + 1) % 3).await;
    for round in 0..10 {
        let put = v1::PutRequest { key: format!("k{round}"), ..Default::default() };
        let told = locks.put(put).await.expect("it is written").into_inner();
        let written = told.header.expect("it has one").revision;
        let chunks = admin.snapshot(v1::SnapshotRequest::default()).await.expect("it is made");
        let first = soon(chunks.into_inner().message()).await.expect("it goes on");
        let header = first.and_then(|chunk| chunk.header).expect("it comes first");
        assert!(header.revision >= written, "{} is before {written}", header.revision);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_through_any_member() {
    let world = world(3).await;
    let leader = world.leader();
    let mut admin = world.admin((leader + 1) % 3).await;
    let taken = v1::AddMemberRequest { id: 77, name: "n1".into(), ..Default::default() };
    assert_eq!(refused(admin.add_member(taken).await), "member_name_taken");
    let add = v1::AddMemberRequest {
        id: 77,
        name: "n4".into(),
        peer_address: "127.0.0.1:1".into(),
        client_address: "127.0.0.1:2".into(),
    };
    admin.add_member(add).await.expect("it is added");
    let members = soon(async {
        loop {
            let told = admin.members(v1::MembersRequest {}).await.expect("it is answered");
            let members = told.into_inner().members;
            if members.len() == 4 {
                return members;
            }
        }
    })
    .await;
    let fourth = members.iter().find(|one| one.id == 77).expect("it is there");
    assert_eq!((&*fourth.role, &*fourth.client_address), ("learner", "127.0.0.1:2"));
    admin.remove_member(v1::RemoveMemberRequest { id: 77 }).await.expect("it is removed");
    let again = v1::AddMemberRequest { id: 77, name: "n5".into(), ..Default::default() };
    assert_eq!(refused(admin.add_member(again).await), "member_removed");
    assert_eq!(refused(admin.promote(v1::PromoteRequest { id: 99 }).await), "member_unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_arrives_whole_and_can_be_restored() {
    let world = world(1).await;
    let mut locks = world.locks(0).await;
    for key in 0..4 {
        let (key, value) = (format!("k{key}"), vec![7; 200 << 10].into());
        let put = v1::PutRequest { key, value, ..Default::default() };
        locks.put(put).await.expect("it is written");
    }
    let mut admin = world.admin(0).await;
    let chunks = admin.snapshot(v1::SnapshotRequest::default()).await.expect("it is made");
    let mut chunks = chunks.into_inner();
    let (mut data, mut count) = (Vec::new(), 0);
    let last = loop {
        let chunk = soon(chunks.message()).await.expect("it goes on").expect("it goes on");
        assert_eq!(chunk.header.is_some(), count == 0);
        count += 1;
        data.extend_from_slice(&chunk.data);
        if chunk.is_last {
            break chunk;
        }
    };
    assert!(count > 2, "{count}");
    assert_eq!(last.crc32c, crc32c::crc32c(&data));
    assert_eq!(soon(chunks.message()).await.expect("it ends well"), None);
    let from = world.dirs[0].with_extension("backup");
    let data_dir = world.dirs[0].with_extension("restored");
    std::fs::write(&from, &data).expect("there is room");
    let restore = backup::Restore {
        from,
        data_dir: data_dir.clone(),
        name: "r".into(),
        ..Default::default()
    };
    let identity = backup::restore(restore).expect("it is whole").identity;
    assert_ne!(identity.incarnation, 0);
    let settings = Settings { origin: Origin::Alone, ..Settings::new(data_dir, "r") };
    let node = start(settings).expect("it begins");
    let waited = node.handle().board().wait_until(PATIENCE, |status| status.role.leads);
    waited.expect("it leads");
    let server = crate::support::serve(&node).await;
    let mut restored =
        v1::lock_service_client::LockServiceClient::new(crate::support::channel(&server).await);
    let all = v1::RangeRequest { prefix: true, keys_only: true, ..Default::default() };
    let found = restored.range(all).await.expect("it is answered").into_inner();
    assert_eq!(found.count, 4);
    assert_eq!(found.header.expect("it has one").incarnation, identity.incarnation);
}
