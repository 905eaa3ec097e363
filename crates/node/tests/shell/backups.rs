//! Backups, and clusters that are made from them.

use fencepost_core::command::LeaseGrant;
use fencepost_core::{Action, ClientId, LeaseId, Millis, Outcome, Reason};
use fencepost_node::io::Class;
use fencepost_node::shell::backup::{Restore, restore};
use fencepost_node::shell::{Freshness, Settings, start};

use crate::support::{PATIENCE, cluster, encoded, has, until, write};

fn lease(id: i64) -> Vec<u8> {
    let client = ClientId::from("somebody");
    encoded(Action::LeaseGrant(LeaseGrant {
        id: LeaseId(id),
        ttl: Millis(10_000),
        client,
        ..LeaseGrant::default()
    }))
}

#[test]
fn a_backup_becomes_the_next_incarnation_of_its_cluster() {
    let (folder, _, mut cluster) = cluster(3);
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    let handle = cluster.nodes()[leader].handle().clone();
    write(&handle, "kept");
    handle.propose_and_wait(Class::Ordinary, lease(1)).expect("it is granted");
    let backup = folder.path().join("backup");
    handle.save_backup(&backup).expect("there is room");
    write(&handle, "after the backup");

    let data_dir = folder.path().join("restored");
    let wanted = Restore {
        from: backup,
        data_dir: data_dir.clone(),
        name: "r1".to_owned(),
        peer: String::new(),
        grant_after: Some(600_000),
    };
    let identity = restore(wanted.clone()).expect("the backup is sound");
    let before = handle.status();
    assert_eq!(identity.cluster_id, before.cluster_id);
    assert_eq!(identity.incarnation, before.incarnation + 1);
    assert!(!before.members.contains(identity.node_id), "a number was used twice");
    let twice = restore(wanted).expect_err("the directory is not empty any more").to_string();
    assert_eq!(twice.lines().count(), 3, "{twice}");

    // It comes up where a member of the old incarnation was, and the others will not have it.
    let gone = cluster.take((leader + 1) % 3);
    let (gone_id, peer) = (gone.handle().status().id, gone.handle().status().peer);
    gone.kill();
    drop(gone);
    let peer_listen = peer.parse().expect("it is an address");
    let restored = start(Settings { peer_listen, ..Settings::new(data_dir, "r1") });
    let restored = restored.expect("the directory is sound");
    until(&restored, |status| status.role.leads);
    assert_eq!(has(restored.handle(), "kept", Freshness::Linearizable), Ok(true));
    assert_eq!(has(restored.handle(), "after the backup", Freshness::Linearizable), Ok(false));
    let answer = restored.handle().propose_and_wait(Class::Ordinary, lease(2));
    let outcome = answer.expect("it is answered").outcome;
    assert!(matches!(outcome, Outcome::Rejected(Reason::Recovering(_))), "{outcome:?}");
    let leader = cluster.leader(PATIENCE).expect("there is a leader");
    until(&cluster.nodes()[leader], |status| {
        let trouble = status.links.get(&gone_id).and_then(|link| link.trouble.as_ref());
        trouble.is_some_and(|trouble| trouble.contains("incarnation 1"))
    });
}

#[test]
fn a_damaged_backup_is_refused() {
    let (folder, _, cluster) = cluster(1);
    let handle = cluster.nodes()[0].handle();
    write(handle, "a");
    let backup = folder.path().join("backup");
    handle.save_backup(&backup).expect("there is room");
    let whole = std::fs::read(&backup).expect("it is there");
    for at in [0, 13, 40, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        let from = folder.path().join("damaged");
        std::fs::write(&from, damaged).expect("there is room");
        let data_dir = folder.path().join("restored");
        let refused = restore(Restore { from, data_dir, ..Restore::default() });
        let refused = refused.expect_err("it is damaged").to_string();
        assert!(refused.contains("cannot be restored"), "{refused}");
        assert_eq!(refused.lines().count(), 3, "{refused}");
    }
}
