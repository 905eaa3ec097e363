//! `lease`.

use rustix::process::Signal;

use crate::support::{Server, folder, shape};

#[test]
fn a_lease_is_made_looked_at_and_ended() {
    let home = folder();
    let server = Server::alone(home.path());
    let made = server.json(&["lease", "grant", "60s"]);
    assert_eq!(shape(&made), "{epoch:number,lease:string,ttl_ms:number}");
    assert_eq!(made["ttl_ms"], 60_000);
    let lease = made["lease"].as_str().expect("it has one");
    server.run(&["kv", "put", "leased", "v", "--lease", lease]).good();
    let shown = server.json(&["lease", "show", lease]);
    let view = "{client:string,epoch:number,expires_unix_ms:number,keys:[string],lease:string,\
         remaining_ms:number,ttl_ms:number}";
    assert_eq!(shape(&shown), view);
    assert_eq!(shown["keys"][0], "leased");
    assert_eq!(shape(&server.json(&["lease", "ls"])), format!("{{leases:[{view}]}}"));
    assert!(server.run(&["lease", "ls"]).good().contains(lease));
    let ended = server.json(&["lease", "revoke", lease]);
    assert_eq!((&ended["lease"], &ended["keys"]), (&made["lease"], &1.into()));
    server.run(&["kv", "get", "leased"]).refused(1);
    assert_eq!(server.json(&["lease", "ls"])["leases"].as_array().map(Vec::len), Some(0));
}

#[test]
fn the_wanted_number_is_given_once() {
    let home = folder();
    let server = Server::alone(home.path());
    let made = server.json(&["lease", "grant", "60s", "--id", "beef"]);
    assert_eq!(made["lease"], "beef");
    let text = server.run(&["lease", "grant", "60s", "--id", "0xbeef"]).refused(1);
    assert!(text.contains("lease_exists") && text.contains("lease beef is alive"), "{text}");
}

#[test]
fn a_lease_is_renewed_once_or_until_told() {
    let home = folder();
    let server = Server::alone(home.path());
    let made = server.json(&["lease", "grant", "60s"]);
    let lease = made["lease"].as_str().expect("it has one");
    let renewed = server.json(&["lease", "keep-alive", lease, "--once"]);
    assert_eq!(shape(&renewed), "{lease:string,ttl_ms:number}");
    let mut keeper = server.begin(&["lease", "keep-alive", lease]);
    keeper.out.wait_for("until interrupted");
    assert_eq!(keeper.end(Signal::INT).code(), Some(0));
}

#[test]
fn a_keeper_says_that_its_lease_is_lost() {
    let home = folder();
    let server = Server::alone(home.path());
    let made = server.json(&["lease", "grant", "2s"]);
    let lease = made["lease"].as_str().expect("it has one");
    let mut keeper = server.begin(&["lease", "keep-alive", lease]);
    keeper.out.wait_for("until interrupted");
    server.run(&["lease", "revoke", lease]).good();
    assert_eq!(keeper.wait().code(), Some(1));
    keeper.err.wait_for("is lost");
}

#[test]
fn a_keeper_does_not_believe_in_a_lease_that_nobody_confirms() {
    let home = folder();
    let mut server = Server::alone(home.path());
    let made = server.json(&["lease", "grant", "1s"]);
    let lease = made["lease"].as_str().expect("it has one");
    let mut keeper = server.begin(&["lease", "keep-alive", lease]);
    keeper.out.wait_for("until interrupted");
    server.process.end(Signal::KILL);
    assert_eq!(keeper.wait().code(), Some(1));
    keeper.err.wait_for("no renewal was confirmed in time");
}

// Requirements: S0-111.
#[test]
fn what_is_wrong_with_a_lease_is_said() {
    let home = folder();
    let server = Server::alone(home.path());
    for verb in ["show", "revoke", "keep-alive"] {
        let text = server.run(&["lease", verb, "dead"]).refused(1);
        assert!(text.contains("dead") && text.contains("lease_not_found"), "{text}");
    }
    let text = server.run(&["lease", "grant", "1ms"]).refused(1);
    assert!(text.contains("ttl_too_short"), "{text}");
    let text = server.run(&["lease", "grant", "8000d"]).refused(1);
    assert!(text.contains("ttl_too_long"), "{text}");
    assert_eq!(server.run(&["lease", "grant", "soon"]).code, 2);
    assert_eq!(server.run(&["lease", "show", "xyz"]).code, 2);
    assert_eq!(server.run(&["lease", "show", "0"]).code, 2);
}
