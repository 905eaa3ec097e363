//! `watch`.

use fencepost_client::Client;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Server, folder, shape};

#[test]
fn every_event_is_a_line() {
    let home = folder();
    let server = Server::alone(home.path());
    let mut watch = server.begin(&["watch", "jobs/", "--prefix"]);
    watch.err.wait_for("watching from revision 2");
    server.run(&["kv", "put", "jobs/x", "a\nb"]).good();
    server.run(&["kv", "put", "elsewhere", "c"]).good();
    server.run(&["kv", "del", "jobs/x"]).good();
    let lines = watch.out.wait_for_count(2);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&lines[0]), ["2", "put", "jobs/x", "\"a\\nb\""]);
    assert_eq!(words(&lines[1])[..3], ["4", "delete", "jobs/x"]);
    assert_eq!(watch.end(Signal::INT).code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_can_be_watched_as_json() {
    let home = folder();
    let server = Server::alone(home.path());
    let client = Client::builder().endpoint(&server.endpoint).name("c").connect().await;
    let client = client.expect("the server is ready");
    server.run(&["kv", "put", "k", "v"]).good();
    let guard = client.lock("jobs").acquire().await.expect("it is free");
    let (key, token) = (guard.key().to_owned(), guard.token().get());
    guard.release().await.expect("it is held");
    let watch = server.begin(&["watch", "--from", "2", "-o", "json"]);
    let lines = watch.out.wait_for_count(4);
    let events: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).expect("it is JSON")).collect();
    let kinds: Vec<_> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["put", "put", "granted", "delete"]);
    assert_eq!(
        shape(&events[0]),
        "{create_revision:number,key:string,revision:number,sub:number,type:string,value:string,\
         version:number}"
    );
    assert_eq!(
        shape(&events[2]),
        "{client:string,key:string,lease:string,revision:number,sub:number,token:number,\
         type:string}"
    );
    assert_eq!((&events[2]["key"], &events[2]["token"]), (&key.into(), &token.into()));
    assert_eq!(events[3]["cause"], "released");
}

#[test]
fn what_is_wrong_with_a_watch_is_said() {
    let home = folder();
    let server = Server::alone(home.path());
    assert_eq!(server.run(&["watch", "--prefix"]).code, 2);
    assert_eq!(server.run(&["--timeout", "soon", "watch"]).code, 2);
    assert_eq!(server.run(&["watch", "--from", "0"]).code, 2);
}

#[test]
fn a_revision_that_is_not_there_yet_is_refused() {
    let home = folder();
    let server = Server::alone(home.path());
    let text = server.run(&["watch", "--from", "99999999"]).refused(1);
    assert!(text.contains("revision_future"), "{text}");
    // The next one is what a watch begins with if nothing is said.
    let next = server.json(&["status"])["revision"].as_i64().expect("a number") + 1;
    let watch = server.begin(&["watch", "--from", &next.to_string()]);
    watch.err.wait_for("watching from revision");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_watched_by_its_name() {
    let home = folder();
    let server = Server::alone(home.path());
    let watch = server.begin(&["watch", "jobs"]);
    watch.err.wait_for("watching from revision");
    server.run(&["kv", "put", "jobs/of-others", "1"]).good();
    server.run(&["kv", "put", "jobs", "2"]).good();
    watch.out.wait_for(" put ");
    let client = Client::builder().endpoint(&server.endpoint).connect().await;
    let client = client.expect("the server is ready");
    let guard = client.lock("jobs").acquire().await.expect("it is free");
    guard.release().await.expect("it is held");
    watch.out.wait_for("released");
    let kinds: Vec<String> = watch
        .out
        .all()
        .iter()
        .map(|line| line.split_whitespace().nth(1).expect("a word").to_owned())
        .collect();
    assert_eq!(kinds, ["put", "put", "granted", "delete"], "{:?}", watch.out.all());
}
