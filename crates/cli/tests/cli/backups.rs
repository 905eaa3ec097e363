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
        "{cluster_id:string,data_dir:string,id:string,incarnation:number,name:string}"
    );
    assert_eq!(restored["cluster_id"], before["cluster_id"]);
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
}
