//! `key ls`, `key rotate`, `key revoke`, and the signing key's file.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Done, Plan, Server, folder, shape, until};

const KEY: &str = "kid:string,member:string,name:string,since_ms:number,state:string";

/// The keys, as soon as there are some.
fn keys(server: &Server) -> Vec<Value> {
    until(|| {
        let listed = server.json(&["key", "ls"]);
        let keys = listed["keys"].as_array().expect("it lists them").clone();
        if keys.is_empty() { Err("none yet") } else { Ok(keys) }
    })
}

#[test]
fn keys_are_listed_rotated_and_revoked() {
    let home = folder();
    let server = Server::alone(home.path());
    let first = keys(&server);
    assert_eq!(shape(&first[0]), format!("{{due_ms:null,{KEY}}}"));
    assert_eq!((first.len(), &first[0]["state"]), (1, &"active".into()));
    let text = server.run(&["key", "ls"]).good();
    assert!(text.contains("KID") && text.contains("active"), "{text}");
    // It is published now, and signs tomorrow.
    let text = server.run(&["key", "rotate"]).good();
    assert_eq!(text, "the new keys are published, and sign in 1day\n");
    let states = |keys: &[Value]| -> Vec<String> {
        let mut states: Vec<String> =
            keys.iter().filter_map(|key| key["state"].as_str().map(str::to_owned)).collect();
        states.sort_unstable();
        states
    };
    let second = keys(&server);
    assert_eq!(states(&second), ["active", "next"]);
    let next = second.iter().find(|key| key["state"] == "next").expect("there is one");
    assert_eq!(shape(next), format!("{{due_ms:number,{KEY}}}"));
    // Revoked, the first one gives way to the next.
    let kid = first[0]["kid"].as_str().expect("it is a text");
    let told = server.json(&["key", "revoke", kid]);
    assert_eq!(shape(&told), format!("{{keys:[{{due_ms:null,{KEY}}}],pending:[]}}"));
    assert_eq!(states(told["keys"].as_array().expect("it lists them")), ["active", "revoked"]);
    let node = first[0]["name"].as_str().expect("it is a member");
    let told = server.json(&["key", "rotate", "--node", node, "--now"]);
    let all = told["keys"].as_array().expect("it lists them");
    assert_eq!(states(all), ["active", "retired", "revoked"]);
    for stranger in ["nobody", "-Lnobody"] {
        let text = server.run(&["key", "revoke", stranger]).refused(1);
        assert!(text.contains("signing_key_unknown"), "{text}");
    }
    let text = server.run(&["key", "rotate", "--node", "n7"]).refused(1);
    assert!(text.contains("there is no member n7"), "{text}");
}

#[test]
fn a_server_does_not_start_with_a_key_that_others_may_read() {
    let home = folder();
    let plan = Plan::new(home.path());
    let mut server = plan.start();
    keys(&server);
    server.process.end(Signal::TERM);
    let key = fs::read_dir(home.path()).expect("it is there").find_map(|entry| {
        let path = entry.expect("it is listed").path().join("signing/000001.key");
        path.exists().then_some(path)
    });
    let key = key.expect("it was made at the first start");
    let mode = fs::metadata(&key).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let done = Done::of(plan.command());
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("chmod 600"), "{done:?}");
}
