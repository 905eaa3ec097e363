//! `status`, `member`, `move-leader`, on one server; several are the business of `cluster.rs`.

use crate::support::{Server, folder, shape};

const MEMBER: &str =
    "{client:string,id:string,name:string,peer:string,reachable:bool,role:string,silent_ms:number}";
const DISK: &str = "disk:{free_bytes:number,low:bool,reserve_bytes:number}";

#[test]
fn the_status_has_its_shape() {
    let home = folder();
    let server = Server::alone(home.path());
    let status = server.json(&["status"]);
    assert_eq!(
        shape(&status),
        format!(
            "{{cluster_id:string,{DISK},leader:string,members:[{MEMBER}],revision:number,term:number}}"
        )
    );
    assert_eq!((&status["revision"], &status["members"][0]["role"]), (&1.into(), &"leader".into()));
    let client = status["members"][0]["client"].as_str().expect("it has one");
    assert_eq!(server.endpoint, format!("http://{client}"));
    assert_eq!(status["members"][0]["peer"], server.peer);
    let text = server.run(&["status"]).good();
    assert!(text.contains("revision    1\n"), "{text}");
    assert!(status["disk"]["reserve_bytes"].as_u64() > Some(0), "{status}");
    assert!(text.contains(" in reserve\n"), "{text}");
}

#[test]
fn a_member_is_added_moved_and_removed_for_good() {
    let home = folder();
    let server = Server::alone(home.path());
    let add = |name: &str, id: &str, peer: &str| {
        let args = ["member", "add", name, "--id", id, "--peer", peer, "--client", "127.0.0.1:2"];
        server.run(&[&args[..], &["-o", "json"]].concat())
    };
    let members = add("n2", "77", "127.0.0.1:1").json();
    assert_eq!(shape(&members), format!("{{members:[{MEMBER}]}}"));
    let added = |document: &serde_json::Value| {
        let all = document["members"].as_array().expect("it lists them").clone();
        let found = all.into_iter().find(|one| one["name"] == "n2");
        found.map(|one| (one["role"].clone(), one["peer"].clone()))
    };
    assert_eq!(added(&members), Some(("learner".into(), "127.0.0.1:1".into())));
    let moved = add("n2", "77", "127.0.0.1:9").json();
    assert_eq!(added(&moved), Some(("learner".into(), "127.0.0.1:9".into())));
    let text = add("n2", "78", "127.0.0.1:1").refused(1);
    assert!(text.contains("member_name_taken"), "{text}");
    // Nobody answers there.
    let text = server.run(&["member", "promote", "n2"]).refused(1);
    assert!(text.contains("n2") && text.contains("member_behind"), "{text}");
    let text = server.run(&["member", "rm", "n2"]).good();
    assert_eq!(text, "n2 (0000000000000077) is no member any more\n");
    let text = add("n2", "77", "127.0.0.1:1").refused(1);
    assert!(text.contains("member_removed"), "{text}");
}

#[test]
fn a_member_that_is_none_is_named() {
    let home = folder();
    let server = Server::alone(home.path());
    for args in [&["member", "rm", "n7"][..], &["member", "promote", "n7"], &["move-leader", "n7"]]
    {
        let text = server.run(args).refused(1);
        assert!(text.contains("there is no member n7"), "{text}");
    }
    let status = server.json(&["status"]);
    let only = status["leader"].as_str().expect("it leads");
    let text = server.run(&["member", "rm", only]).refused(1);
    assert!(text.contains("last_voter"), "{text}");
    server.run(&["move-leader"]).refused(1);
    assert_eq!(server.json(&["move-leader", only])["leader"], only);
}
