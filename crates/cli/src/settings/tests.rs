use std::path::Path;

use clap::{Args as _, Command, FromArgMatches as _};

use super::*;
use crate::config_file::Content;

/// Parses a command line without looking at the environment.
fn resolved(argv: &[&str], content: Content) -> Result<Settings, Failure> {
    let command = Args::augment_args(Command::new("serve").no_binary_name(true));
    let command = command.mut_args(|arg| arg.env(None::<&str>));
    let matches = command.try_get_matches_from(argv).expect("the arguments are known");
    let args = Args::from_arg_matches(&matches).expect("the arguments are known");
    let file = ConfigFile { path: Some("a.toml".into()), content };
    Settings::resolve(args, &Sources::of(&matches), &file)
}

fn file() -> Origin {
    Origin::File(Path::new("a.toml").to_owned())
}

#[test]
fn flags_win_over_the_file_and_the_file_over_the_default() {
    let content = Content {
        listen: Some("127.0.0.1:1".to_owned()),
        name: Some("filed".to_owned()),
        insecure: Some(true),
        ..Content::default()
    };
    let settings = resolved(&["--listen", "127.0.0.1:2"], content).expect("nothing contradicts");
    assert_eq!((settings.listen.value.port(), settings.listen.origin), (2, Origin::Flag));
    assert_eq!((settings.name.value.as_deref(), settings.name.origin), (Some("filed"), file()));
    assert_eq!((settings.insecure.value, settings.insecure.origin), (true, file()));
    assert_eq!(settings.peer_listen.origin, Origin::Default);
    assert_eq!(settings.log_level.value, "info");
}

// Requirements: S3-028, S3-030.
#[test]
fn without_a_word_a_node_listens_on_loopback_and_begins_alone() {
    let settings = resolved(&[], Content::default()).expect("nothing contradicts");
    assert_eq!(settings.listen.value.to_string(), "127.0.0.1:7420");
    assert_eq!(settings.peer_listen.value.to_string(), "127.0.0.1:7421");
    assert!(!settings.bootstrap.value && settings.join.value.is_none());
    assert_eq!(settings.initial_cluster.value, None);
}

#[test]
fn two_beginnings_in_one_place_contradict_each_other() {
    let both = ["--bootstrap", "--join", "127.0.0.1:1"];
    let refused = resolved(&both, Content::default()).expect_err("they contradict");
    assert!(refused.to_string().contains("--bootstrap and --join"), "{refused}");
    let content = Content {
        join: Some("a:1".to_owned()),
        initial_cluster: Some("n=a:1".to_owned()),
        ..Content::default()
    };
    assert!(resolved(&[], content).is_err());
}

#[test]
fn a_beginning_on_the_command_line_replaces_the_one_in_the_file() {
    let content = Content { join: Some("a:1".to_owned()), ..Content::default() };
    let settings = resolved(&["--initial-cluster", "n=b:1"], content).expect("one wins");
    assert_eq!(settings.join.value, None);
    assert_eq!(settings.initial_cluster.value.as_deref(), Some("n=b:1"));
}

#[test]
fn an_address_in_the_file_must_be_one() {
    let content = Content { listen: Some("nonsense".to_owned()), ..Content::default() };
    let refused = resolved(&[], content).expect_err("it is no address");
    assert!(refused.to_string().contains("listen = \"nonsense\""), "{refused}");
}

// Requirements: S1-006, S1-007.
#[test]
fn a_number_chooses_the_ports_that_nobody_has_named() {
    let settings = resolved(&["--id", "2"], Content::default()).expect("nothing contradicts");
    assert_eq!(settings.listen.value.to_string(), "127.0.0.1:50052");
    assert_eq!(settings.peer_listen.value.to_string(), "127.0.0.1:8082");
    let content = Content { id: Some(3), ..Content::default() };
    let settings = resolved(&["--listen", "127.0.0.1:1"], content).expect("nothing contradicts");
    assert_eq!(settings.listen.value.port(), 1);
    assert_eq!(settings.peer_listen.value.port(), 8083);
    let content = Content { id: Some(10_000), ..Content::default() };
    let refused = resolved(&[], content).expect_err("no such port is left");
    assert!(refused.to_string().contains("at most 9999"), "{refused}");
}

// Requirements: S3-027.
#[test]
fn an_id_that_is_no_number_is_a_name() {
    let settings = resolved(&["--id", "alpha"], Content::default()).expect("nothing contradicts");
    assert_eq!(settings.id.value, None);
    assert_eq!(settings.name.value.as_deref(), Some("alpha"));
    assert_eq!(settings.listen.value.port(), 7420);
    let both = resolved(&["--id", "alpha", "--name", "beta"], Content::default());
    assert_eq!(both.expect("the plainer word wins").name.value.as_deref(), Some("beta"));
    assert!("10000".parse::<Id>().is_err() && "".parse::<Id>().is_err());
    assert_eq!("9999".parse(), Ok(Id::Number(9_999)));
}

// Requirements: S3-027, S3-028, S3-029.
#[test]
fn json_over_tcp_has_a_usual_address() {
    let address = |argv: &[&str]| {
        let settings = resolved(argv, Content::default()).expect("nothing contradicts");
        (settings.json_tcp.value.map(|one| one.to_string()), settings.name.value)
    };
    let named =
        |address: &str, name: Option<&str>| (Some(address.to_owned()), name.map(str::to_owned));
    assert_eq!(address(&[]), (None, None));
    assert_eq!(address(&["--json-tcp"]), named("127.0.0.1:9000", None));
    assert_eq!(address(&["--json-tcp", "127.0.0.1:1"]), named("127.0.0.1:1", None));
    assert_eq!(address(&["--address", "127.0.0.2"]), named("127.0.0.2:9000", None));
    assert_eq!(address(&["--port", "9001"]), named("127.0.0.1:9001", Some("node-9001")));
    let all = ["--id", "n1", "--address", "127.0.0.1", "--port", "9001"];
    assert_eq!(address(&all), named("127.0.0.1:9001", Some("n1")));
    let content = Content { json_tcp: Some("127.0.0.1:5".to_owned()), ..Content::default() };
    let settings = resolved(&[], content).expect("nothing contradicts");
    assert_eq!(settings.json_tcp.value.map(|one| one.port()), Some(5));
}

// Requirements: S3-031.
#[test]
fn peers_are_those_to_begin_with() {
    let beginning = |argv: &[&str]| {
        let settings = resolved(argv, Content::default()).expect("nothing contradicts");
        (settings.initial_cluster.value, settings.join.value)
    };
    assert_eq!(beginning(&["--peers", ""]), (None, None));
    let joined = "127.0.0.1:1,127.0.0.1:2";
    assert_eq!(beginning(&["--peers", joined]), (None, Some(joined.to_owned())));
    let listed = "n1=127.0.0.1:1,n2=127.0.0.1:2";
    assert_eq!(beginning(&["--peers", listed]), (Some(listed.to_owned()), None));
    let both = ["--bootstrap", "--peers", joined];
    assert!(resolved(&both, Content::default()).is_err());
}
