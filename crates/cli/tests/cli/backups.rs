//! `snapshot`.

use std::fs;

use crate::support::{Done, Plan, Server, command, folder, shape};

#[test]
fn a_backup_becomes_a_cluster_that_goes_on() {
    let home = folder();
    let server = Server::alone(home.path());
    server.run(&["kv", "put", "a", "1"]).good();
    let before = server.json(&["status"]);
    let file = home.path().join("backup");
    let path = file.to_str().expect("it is text");
    let saved = server.json(&["snapshot", "save", path]);
    assert_eq!(shape(&saved), "{bytes:number,file:string}");
    assert_eq!(saved["bytes"], fs::metadata(&file).expect("it is there").len());
    let text = server.run(&["snapshot", "save", path]).refused(1);
    assert!(text.contains("there is a file of that name"), "{text}");
    drop(server);

    let restore = ["snapshot", "restore", path, "--data-dir", "restored", "--grant-after", "1s"];
    let restored = Done::of(command(home.path(), restore.iter().chain(&["-o", "json"]))).json();
    assert_eq!(
        shape(&restored),
        "{cluster_id:string,data_dir:string,grant_after_ms:number,grants_at:string,id:string,\
         incarnation:number,name:string,revision:number}"
    );
    assert_eq!(restored["cluster_id"], before["cluster_id"]);
    assert_eq!(restored["grant_after_ms"], 1_000);
    let incarnation = restored["incarnation"].as_u64().expect("it is a number");
    assert!(0 < incarnation && incarnation < 1 << 53, "{incarnation}");
    let text = Done::of(command(home.path(), restore)).refused(1);
    assert!(text.contains("holds files already"), "{text}");

    let server = Plan { data: "restored".to_owned(), ..Plan::new(home.path()) }.start();
    assert_eq!(server.run(&["kv", "get", "a"]).good(), "1\n");
    let after = server.json(&["status"]);
    assert_eq!(after["cluster_id"], before["cluster_id"]);
    assert!(after["revision"].as_i64() > before["revision"].as_i64(), "{after}");
    assert_eq!(after["members"][0]["peer"], server.peer);
}

#[test]
fn verify_shows_what_a_backup_holds() {
    let home = folder();
    let server = Server::alone(home.path());
    server.run(&["kv", "put", "a", "1"]).good();
    let cluster = server.json(&["status"])["cluster_id"].clone();
    // On standard output there is the backup, and nothing else.
    let mut save = command(home.path(), ["--endpoints", &server.endpoint, "snapshot", "save", "-"]);
    let saved = save.output().expect("the command can be run");
    assert!(saved.status.success(), "{saved:?}");
    let report = String::from_utf8(saved.stderr).expect("it speaks UTF-8");
    assert_eq!(report, format!("wrote {} bytes\n", saved.stdout.len()));
    fs::write(home.path().join("backup"), &saved.stdout).expect("there is room");
    drop(server);

    let verify = ["snapshot", "verify", "backup"];
    let info = Done::of(command(home.path(), verify.iter().chain(&["-o", "json"]))).json();
    assert_eq!(
        shape(&info),
        "{bytes:number,cluster_id:string,created:string,file:string,grant_after_ms:number,\
         incarnation:number,keys:number,leases:number,locks:number,revision:number,\
         ttl_max_ms:number}"
    );
    assert_eq!(info["cluster_id"], cluster);
    assert_eq!(info["bytes"], saved.stdout.len());
    assert_eq!((&info["keys"], &info["leases"]), (&1.into(), &0.into()));
    assert_eq!(info["grant_after_ms"], info["ttl_max_ms"]);
    let text = Done::of(command(home.path(), verify)).good();
    let created = info["created"].as_str().expect("it is text");
    let shown = ["cluster", "incarnation", "revision", "keys", "leases", "largest TTL", "bytes"];
    for part in shown.iter().chain(&[created, "grants no lock for"]) {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn restore_says_when_locks_are_granted() {
    let home = folder();
    let server = Server::alone(home.path());
    let path = home.path().join("backup");
    server.run(&["snapshot", "save", path.to_str().expect("it is text")]).good();
    drop(server);
    let restore = |dir: &str, flags: &[&str]| {
        let args = ["snapshot", "restore", "backup", "--data-dir", dir];
        Done::of(command(home.path(), args.iter().chain(flags)))
    };
    let info = Done::of(command(home.path(), ["snapshot", "verify", "backup", "-o", "json"]));
    let info = info.json();
    let text = restore("a", &[]).good();
    assert!(text.contains(" after it starts: at 20"), "{text}");
    let first = restore("b", &["-o", "json"]).json();
    assert_eq!(first["grant_after_ms"], info["ttl_max_ms"]);
    // The same file again: every token is greater, and the cluster has another name.
    let created = info["created"].as_str().expect("it is text");
    let second = restore("c", &["--lost-at", created, "-o", "json"]).json();
    assert!(second["revision"].as_u64() > first["revision"].as_u64(), "{first} {second}");
    assert_ne!(second["incarnation"], first["incarnation"]);
    assert!(second["grant_after_ms"].as_u64() <= first["grant_after_ms"].as_u64(), "{second}");
    let text = restore("d", &["--grant-after", "0s", "--min-revision", "4503599627370496"]).good();
    assert!(text.contains("at revision 4503599627370497\n"), "{text}");
    assert!(text.contains("locks are granted as soon as it runs"), "{text}");
}

#[test]
fn restored_cluster_says_how_long_it_grants_nothing() {
    let home = folder();
    let server = Server::alone(home.path());
    let path = home.path().join("backup");
    server.run(&["snapshot", "save", path.to_str().expect("it is text")]).good();
    drop(server);
    let restore = ["snapshot", "restore", "backup", "--data-dir", "restored"];
    Done::of(command(home.path(), restore)).good();
    let server = Plan { data: "restored".to_owned(), ..Plan::new(home.path()) }.start();
    let text = server.run(&["status"]).good();
    assert!(text.contains("\ngrants      none before 59m"), "{text}");
    for wait in [&["--wait", "0s"][..], &["--try"]] {
        let lock = [&["lock", "x"][..], wait, &["--", "true"]].concat();
        let text = server.run(&lock).refused(124);
        assert!(text.contains("granted again in 59m"), "{text}");
        assert!(text.contains("fencepost status") && !text.contains("log time"), "{text}");
    }
}

#[test]
fn waiter_gets_its_lock_when_a_restored_cluster_begins_to_grant() {
    let home = folder();
    let server = Server::alone(home.path());
    let file = home.path().join("backup");
    let path = file.to_str().expect("it is text");
    server.run(&["snapshot", "save", path]).good();
    drop(server);
    let restore = ["snapshot", "restore", path, "--data-dir", "restored", "--grant-after", "3s"];
    Done::of(command(home.path(), restore)).good();
    let server = Plan { data: "restored".to_owned(), ..Plan::new(home.path()) }.start();
    let lock = ["lock", "job", "--ttl", "2s", "--wait", "60s", "--", "echo", "held"];
    assert_eq!(server.run(&lock).good(), "held\n");
}

#[test]
fn restore_refuses_a_name_that_no_member_can_have() {
    let home = folder();
    let server = Server::alone(home.path());
    let file = home.path().join("backup");
    let path = file.to_str().expect("it is text");
    server.run(&["snapshot", "save", path]).good();
    drop(server);
    for name in ["", &"n".repeat(5_000)] {
        let restore = ["snapshot", "restore", path, "--data-dir", "restored", "--name", name];
        let text = Done::of(command(home.path(), restore)).refused(1);
        assert!(text.contains("a member needs a name"), "{text}");
        assert!(!home.path().join("restored").exists(), "nothing is left behind");
    }
}

#[test]
fn restore_refuses_times_that_cannot_be() {
    let home = folder();
    let server = Server::alone(home.path());
    let path = home.path().join("backup");
    server.run(&["snapshot", "save", path.to_str().expect("it is text")]).good();
    drop(server);
    let restore = |flags: &[&str]| {
        let args = ["snapshot", "restore", "backup", "--data-dir", "d"];
        Done::of(command(home.path(), args.iter().chain(flags)))
    };
    let text = restore(&["--lost-at", "9999-01-01T00:00:00Z"]).refused(1);
    assert!(text.contains("in the future"), "{text}");
    let text = restore(&["--lost-at", "2020-01-01T00:00:00+01:00"]).refused(1);
    assert!(text.contains("the backup was made later"), "{text}");
    let text = restore(&["--min-revision", "9007199254740991"]).refused(1);
    assert!(text.contains("fewer than 2^40 revisions"), "{text}");
    for flags in [
        &["--lost-at", "yesterday"][..],
        &["--grant-after", "soon"],
        &["--min-revision", "-1"],
        &["--lost-at", "2026-11-18T09:30:00Z", "--grant-after", "1s"],
    ] {
        assert_eq!(restore(flags).code, 2, "{flags:?}");
    }
    assert!(!home.path().join("d/identity").exists());
}

#[test]
fn what_is_no_backup_is_refused() {
    let home = folder();
    fs::write(home.path().join("nonsense"), "nonsense").expect("there is room");
    let restore = |file: &str| {
        Done::of(command(home.path(), ["snapshot", "restore", file, "--data-dir", "d"]))
    };
    let text = restore("nonsense").refused(1);
    assert!(text.contains("nonsense cannot be restored"), "{text}");
    let text = restore("none").refused(1);
    assert!(text.contains("No such file"), "{text}");
    assert!(!home.path().join("d/identity").exists());
    let verify = |file: &str| Done::of(command(home.path(), ["snapshot", "verify", file]));
    let text = verify("nonsense").refused(1);
    assert!(text.contains("nonsense cannot be restored"), "{text}");
    let text = verify("none").refused(1);
    assert!(text.contains("check the path"), "{text}");
    // It has no end.
    let text = verify("/dev/zero").refused(1);
    assert!(text.contains("it is no backup"), "{text}");
    verify(".").refused(1);
}

#[test]
fn a_damaged_backup_is_called_by_its_own_name() {
    let home = folder();
    let server = Server::alone(home.path());
    server.run(&["kv", "put", "a", "1"]).good();
    let file = home.path().join("backup");
    server.run(&["snapshot", "save", file.to_str().expect("it is text")]).good();
    // A file of a build that wrote no header and no checksum around it, with damage in the middle.
    let bytes = fs::read(&file).expect("it is there");
    let mut bytes = bytes[36..bytes.len() - 4].to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("there is room");
    let text = Done::of(command(home.path(), ["snapshot", "verify", "backup"])).refused(1);
    assert!(text.contains("backup cannot be restored") && text.contains("damaged"), "{text}");
    assert!(!text.contains(".snapshot"), "there is no such file: {text}");
}
