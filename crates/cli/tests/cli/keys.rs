//! `kv`.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::{Server, command, folder, shape};

#[test]
fn keys_are_written_read_and_removed() {
    let home = folder();
    let server = Server::alone(home.path());
    let written = server.json(&["kv", "put", "a", "one"]);
    assert_eq!(shape(&written), "{key:string,revision:number}");
    server.run(&["kv", "put", "ab", "two"]).good();
    assert_eq!(server.run(&["kv", "get", "a"]).good(), "one\n");
    let found = server.json(&["kv", "get", "a", "--prefix"]);
    assert_eq!(
        shape(&found),
        "{count:number,kvs:[{create_revision:number,key:string,lease:null,mod_revision:number,\
         value:string,version:number}],more:bool,revision:number}"
    );
    assert_eq!((&found["count"], &found["kvs"][1]["value"]), (&2.into(), &"two".into()));
    let listed = server.run(&["kv", "get", "a", "--prefix", "--limit", "1"]);
    assert_eq!(listed.err, "1 of 2 keys are listed\n");
    assert_eq!(listed.good().lines().count(), 2);
    assert_eq!(server.json(&["kv", "del", "a", "--prefix"])["deleted"], 2);
    assert_eq!(server.run(&["kv", "del", "a"]).good(), "removed 0 keys\n");
}

#[test]
fn a_value_comes_from_standard_input_and_goes_out_as_it_was() {
    let home = folder();
    let server = Server::alone(home.path());
    let value = b"\xff\x00\nbytes";
    let mut put = command(home.path(), ["--endpoints", &server.endpoint, "kv", "put", "raw"]);
    let mut put = put.stdin(Stdio::piped()).spawn().expect("it can be run");
    put.stdin.take().expect("it was asked for").write_all(value).expect("it reads");
    assert!(put.wait().expect("it ends").success());
    let mut get = command(home.path(), ["--endpoints", &server.endpoint, "kv", "get", "raw"]);
    assert_eq!(get.output().expect("it can be run").stdout, [&value[..], b"\n"].concat());
    let found = server.json(&["kv", "get", "raw"]);
    assert_eq!(found["kvs"][0]["value"]["hex"], "ff000a6279746573");
}

#[test]
fn more_keys_than_one_answer_carries_are_all_listed() {
    let home = folder();
    let server = Server::alone(home.path());
    let value = "v".repeat(100_000);
    for number in 0..50 {
        server.run(&["kv", "put", &format!("k{number:02}"), &value]).good();
    }
    let found = server.json(&["kv", "get", "k", "--prefix"]);
    assert_eq!((&found["count"], &found["more"]), (&50.into(), &false.into()));
    let keys: Vec<_> = found["kvs"].as_array().expect("it lists them").iter().collect();
    assert_eq!(keys.len(), 50);
    assert!(keys.iter().is_sorted_by_key(|kv| kv["key"].as_str()), "in order, each once");
    let some = server.json(&["kv", "get", "k", "--prefix", "--limit", "3"]);
    assert_eq!((&some["count"], &some["more"]), (&50.into(), &true.into()));
    assert_eq!(some["kvs"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_is_wrong_with_a_key_is_said() {
    let home = folder();
    let server = Server::alone(home.path());
    let text = server.run(&["kv", "get", "none"]).refused(1);
    assert!(text.contains("there is no such key"), "{text}");
    let text = server.run(&["kv", "put", &"k".repeat(2_000), "v"]).refused(1);
    assert!(text.contains("key_too_long"), "{text}");
    let text = server.run(&["kv", "put", "k", "v", "--lease", "7f"]).refused(1);
    assert!(text.contains("lease_not_found"), "{text}");
    let text = server.run(&["kv", "put", "", "v"]).refused(1);
    assert!(text.contains("key_empty"), "{text}");
    assert_eq!(server.run(&["kv", "get", "k", "--limit", "1"]).code, 2);
}
