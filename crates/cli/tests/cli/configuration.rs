//! Flags, the environment, the file: which one counts, and `config show`.

use std::fs;

use serde_json::Value;

use crate::support::{Done, Plan, Server, command, folder, shape};

fn setting<'a>(document: &'a Value, key: &str) -> (&'a Value, &'a str) {
    let all = document["settings"].as_array().expect("it lists them");
    let found = all.iter().find(|one| one["key"] == key).expect("every key is listed");
    (&found["value"], found["origin"].as_str().expect("it has one"))
}

#[test]
fn each_value_says_where_it_came_from() {
    let home = folder();
    let text = "listen = \"127.0.0.1:1001\"\npeer_listen = \"127.0.0.1:1002\"\n\
                name = \"filed\"\nendpoints = [\"http://a:1\", \"http://b:2\"]\n";
    fs::write(home.path().join("fencepost.toml"), text).expect("there is room");
    let mut show = command(home.path(), ["config", "show", "-o", "json"]);
    show.args(["--listen", "127.0.0.1:3"]).env("FENCEPOST_NAME", "environed");
    show.env("FENCEPOST_LISTEN", "127.0.0.1:2").env("FENCEPOST_INSECURE", "1");
    let document = Done::of(show).json();
    assert_eq!(document["file"], "fencepost.toml");
    assert_eq!(setting(&document, "listen"), (&"127.0.0.1:3".into(), "flag"));
    assert_eq!(setting(&document, "name"), (&"environed".into(), "environment"));
    assert_eq!(setting(&document, "insecure"), (&true.into(), "environment"));
    assert_eq!(setting(&document, "peer_listen"), (&"127.0.0.1:1002".into(), "file"));
    let (endpoints, origin) = setting(&document, "endpoints");
    assert_eq!((endpoints[1].as_str(), origin), (Some("http://b:2"), "file"));
    assert_eq!(setting(&document, "join"), (&Value::Null, "default"));
    let shown = shape(&document);
    assert_eq!(shown, "{file:string,settings:[{key:string,origin:string,value:[string]}]}");
}

#[test]
fn people_see_the_file_by_its_name() {
    let home = folder();
    fs::write(home.path().join("my.toml"), "log_level = \"warn\"\n").expect("there is room");
    let show = command(home.path(), ["config", "show", "--config", "my.toml"]);
    let text = Done::of(show).good();
    let line = text.lines().find(|line| line.starts_with("log_level")).expect("it is listed");
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["log_level", "warn", "file", "my.toml"]
    );
}

#[test]
fn the_file_counts_for_servers_and_for_clients() {
    let home = folder();
    let plan = Plan::new(home.path());
    fs::write(home.path().join("fencepost.toml"), "name = \"filed\"\n").expect("there is room");
    let server = plan.start();
    server.process.err.wait_for("node      filed ");
    let text = format!("endpoints = [\"{}\"]\n", server.endpoint);
    fs::write(home.path().join("client.toml"), text).expect("there is room");
    let mut status = command(home.path(), ["status", "-o", "json"]);
    status.env("FENCEPOST_CONFIG", "client.toml");
    assert_eq!(Done::of(status).json()["leader"], "filed");
}

#[test]
fn an_unknown_key_is_refused_with_key_and_file() {
    let home = folder();
    fs::write(home.path().join("fencepost.toml"), "\nlistn = \"x\"\n").expect("there is room");
    for verb in [&["serve"][..], &["config", "show"], &["ls"]] {
        let text = Done::of(command(home.path(), verb)).refused(2);
        assert!(text.contains("fencepost.toml") && text.contains("`listn`"), "{text}");
        assert!(text.contains("line 2"), "{text}");
    }
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let home = folder();
    let text = Done::of(command(home.path(), ["ls", "--config", "none.toml"])).refused(2);
    assert!(text.contains("none.toml") && text.contains("No such file"), "{text}");
}

#[test]
fn endpoints_must_make_sense() {
    let home = folder();
    let run = |list: &str| Done::of(command(home.path(), ["--endpoints", list, "ls"]));
    let text = run("http://127.0.0.1:1,,").refused(2);
    assert!(text.contains("empty place"), "{text}");
    let text = run("http://127.0.0.1:1,https://127.0.0.1:2").refused(2);
    assert!(text.contains("cannot use the endpoint https://127.0.0.1:2"), "{text}");
    let text = run("http://[").refused(1);
    assert!(text.contains("http://["), "{text}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let home = folder();
    let args = ["--endpoints", "127.0.0.1:1", "--timeout", "300ms", "status"];
    let text = Done::of(command(home.path(), args)).refused(1);
    assert!(text.contains("cannot reach the service at 127.0.0.1:1"), "{text}");
    assert!(text.contains("--endpoints"), "{text}");
}

#[test]
fn a_variable_is_not_called_a_flag() {
    let home = folder();
    let mut ls = command(home.path(), ["ls"]);
    ls.env("FENCEPOST_ENDPOINTS", "");
    let text = Done::of(ls).refused(2);
    assert!(text.contains("(environment)"), "{text}");
    let text = Done::of(command(home.path(), ["ls", "--endpoints", ""])).refused(2);
    assert!(text.contains("(flag)"), "{text}");
}

#[test]
fn every_variable_can_stand_in_the_file() {
    let home = folder();
    let server = Server::alone(home.path());
    let text = format!(
        "endpoints = \"{},{}\"\ntimeout = \"7s\"\noutput = \"json\"\nstore_strict = true\n",
        server.endpoint, server.endpoint
    );
    fs::write(home.path().join("fencepost.toml"), text).expect("there is room");
    assert!(Done::of(command(home.path(), ["status"])).good().starts_with('{'));
    let mut show = command(home.path(), ["config", "show"]);
    show.env("FENCEPOST_STORE_AUDIENCE", "me");
    let document = Done::of(show).json();
    assert_eq!(setting(&document, "timeout"), (&"7s".into(), "file"));
    assert_eq!(setting(&document, "output"), (&"json".into(), "file"));
    assert_eq!(setting(&document, "store_strict"), (&true.into(), "file"));
    assert_eq!(setting(&document, "store_audience"), (&"me".into(), "environment"));
    assert_eq!(setting(&document, "store_listen"), (&"127.0.0.1:8000".into(), "default"));
    let (endpoints, _) = setting(&document, "endpoints");
    assert_eq!(endpoints.as_array().map(Vec::len), Some(2));
    fs::write(home.path().join("fencepost.toml"), "timeout = \"7\"\n").expect("there is room");
    let text = Done::of(command(home.path(), ["status"])).refused(2);
    assert!(text.contains("timeout = \"7\": a length of time is written as"), "{text}");
}

#[test]
fn file_in_the_handbook_is_accepted_and_leads_to_its_cluster() {
    let handbook = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let handbook = fs::read_to_string(handbook).expect("it is part of the project");
    let (_, text) = handbook.split_once("```toml\n").expect("it shows a file");
    let (text, _) = text.split_once("```").expect("the file ends");
    let home = folder();
    fs::write(home.path().join("fencepost.toml"), text).expect("there is room");
    let document = Done::of(command(home.path(), ["config", "show", "-o", "json"])).json();
    let (listen, _) = setting(&document, "listen");
    let listen = format!("http://{}", listen.as_str().expect("it is text"));
    let (endpoints, origin) = setting(&document, "endpoints");
    let endpoints = endpoints.as_array().expect("it is a list");
    assert_eq!(origin, "file", "other verbs on this machine would ask another service");
    assert!(endpoints.iter().any(|one| *one == listen), "{endpoints:?} without {listen}");
}
