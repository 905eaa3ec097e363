//! Backups, and clusters that are made from them.

use std::path::PathBuf;

use fencepost_core::command::LeaseGrant;
use fencepost_core::{Action, ClientId, LeaseId, Millis, Outcome, Reason};
use fencepost_node::io::Class;
use fencepost_node::shell::backup::{BackupInfo, Restore, restore, verify};
use fencepost_node::shell::{Freshness, Settings, start};

use crate::support::{PATIENCE, cluster, encoded, has, until, write};

const HOUR_MS: u64 = 60 * 60 * 1_000;
const DAY_MS: u64 = 24 * HOUR_MS;

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
        grant_after: Some(600_000),
        ..Restore::default()
    };
    let restored = restore(wanted.clone()).expect("the backup is sound");
    assert_eq!(restored.grant_after, 600_000);
    let identity = restored.identity;
    let before = handle.status();
    assert_eq!(identity.cluster_id, before.cluster_id);
    assert_ne!(identity.incarnation, before.incarnation);
    assert!(identity.incarnation < 1 << 53, "a JSON number cannot carry it");
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
    let incarnation = format!("incarnation {}", identity.incarnation);
    until(&cluster.nodes()[leader], |status| {
        let trouble = status.links.get(&gone_id).and_then(|link| link.trouble.as_ref());
        trouble.is_some_and(|trouble| trouble.contains(&incarnation))
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
    // In the magic, the version, the time, the length, the snapshot and the checksum.
    for at in [0, 8, 13, 30, 40, 90, whole.len() - 1] {
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

/// A backup of a cluster of one with a key, and what it holds.
fn saved() -> (tempfile::TempDir, PathBuf, BackupInfo) {
    let (folder, _, cluster) = cluster(1);
    let handle = cluster.nodes()[0].handle();
    write(handle, "a");
    let backup = folder.path().join("backup");
    let id = handle.save_backup(&backup).expect("there is room");
    let info = verify(&backup).expect("it is sound");
    let status = handle.status();
    assert_eq!((info.cluster_id, info.incarnation), (status.cluster_id, 0));
    assert_eq!((info.index, info.term, info.keys), (id.index, id.term, 1));
    assert_eq!(info.bytes, std::fs::metadata(&backup).expect("it is there").len());
    assert_eq!((info.ttl_max_ms, info.grant_after_ms), (HOUR_MS, HOUR_MS));
    (folder, backup, info)
}

/// A member needs a name.
fn one_member() -> Restore {
    Restore { name: "n1".to_owned(), ..Restore::default() }
}

#[test]
fn the_same_backup_restored_twice_repeats_no_token() {
    let (folder, from, info) = saved();
    let made = info.created_unix_ms.expect("this build says when");
    let restored = [made, made + 1].map(|now| {
        let data_dir = folder.path().join(format!("restored-{now}"));
        let now_unix_ms = Some(now);
        let from = from.clone();
        restore(Restore { from, data_dir, now_unix_ms, ..one_member() }).expect("sound")
    });
    assert!(restored[0].revision > info.revision);
    assert!(restored[1].revision >= restored[0].revision + 1024);
    assert_ne!(restored[0].identity.incarnation, restored[1].identity.incarnation);
    assert_eq!(restored.map(|restored| restored.grant_after), [HOUR_MS; 2]);
}

#[test]
fn a_clock_that_the_backup_contradicts_is_refused() {
    let (folder, from, info) = saved();
    let made = info.created_unix_ms.expect("this build says when");
    let data_dir = folder.path().join("restored");
    let base = Restore { from, data_dir: data_dir.clone(), ..one_member() };
    let at = |now: u64| Restore { now_unix_ms: Some(now), ..base.clone() };
    let refused = [
        (at(made - 1), "must be later"),
        (at(0), "1970-01-01T00:00:00Z"),
        (at(u64::MAX), "--accept-clock"),
        (at(made + 30 * DAY_MS + 1), "--accept-clock"),
        (Restore { lost_at: Some(made + 2), ..at(made + 1) }, "in the future"),
        (Restore { lost_at: Some(made - 1_000), ..at(made + 1) }, "the backup was made later"),
        (Restore { min_revision: (1 << 53) - 1, ..at(made) }, "fewer than 2^40 revisions"),
        (Restore { accept_clock: true, ..at(1 << 43) }, "fewer than 2^40 revisions"),
    ];
    for (wanted, why) in refused {
        let text = restore(wanted).expect_err(why).to_string();
        assert!(text.contains(why), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(!data_dir.join("identity").exists(), "{text}");
    }
    let late = Restore { accept_clock: true, ..at(made + 31 * DAY_MS) };
    // The lost cluster stopped thirty days ago, so that nothing is left to wait for.
    let late = Restore { lost_at: Some(made + DAY_MS), min_revision: 1 << 52, ..late };
    let restored = restore(late).expect("it is confirmed");
    assert_eq!((restored.grant_after, restored.revision), (0, (1 << 52) + 1));
}

#[test]
fn a_backup_of_an_older_build_is_read() {
    let (folder, backup, info) = saved();
    let whole = std::fs::read(&backup).expect("it is there");
    let from = folder.path().join("bare");
    // What is inside the wrapper is a snapshot file.
    std::fs::write(&from, &whole[36..whole.len() - 4]).expect("there is room");
    let bare = verify(&from).expect("it is sound");
    let bytes = info.bytes - 40;
    assert_eq!(bare, BackupInfo { created_unix_ms: None, bytes, ..info });
    let data_dir = folder.path().join("restored");
    let unset = Restore { from, data_dir, now_unix_ms: Some(5), ..one_member() };
    let text = restore(unset.clone()).expect_err("a clock that was never set").to_string();
    assert!(text.contains("must be later"), "{text}");
    restore(Restore { now_unix_ms: None, ..unset }).expect("the clock is sound");
}
