//! `bench`: every workload against a throw-away cluster, in both forms of load.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Done, Running, command, folder, shape};

/// A cluster of three, and where it is.
struct Cluster {
    process: Running,
    endpoints: String,
    _home: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Cluster {
        let home = folder();
        let mut dev = command(home.path(), ["dev", "--nodes", "3", "--port", "0"]);
        dev.env("TMPDIR", home.path());
        let process = Running::start(dev);
        let line = process.out.wait_for(" status");
        process.out.wait_for("End it with Ctrl-C");
        let endpoints = line.split_whitespace().nth(2).expect("it names them").to_owned();
        Cluster { process, endpoints, _home: home }
    }

    fn run(&self, args: &[&str]) -> Done {
        let home = std::env::temp_dir();
        Done::of(command(&home, ["--endpoints", &self.endpoints].iter().chain(args)))
    }

    /// A short run of one workload.
    #[track_caller]
    fn bench(&self, args: &[&str]) -> Value {
        let short = ["--duration", "400ms", "--warm-up", "100ms", "-o", "json"];
        self.run(&[&["bench"], args, &short].concat()).json()
    }
}

#[track_caller]
fn is_good(document: &Value) {
    assert!(document["turns"].as_u64().is_some_and(|turns| turns > 0), "{document}");
    assert_eq!(document["errors"], 0, "{document}");
    assert_eq!(document["unknown"], 0, "{document}");
    let latency = &document["latency_us"];
    let at = |share: &str| latency[share].as_u64().expect("it is a number");
    assert!(at("p50") <= at("p99") && at("p99") <= at("max"), "{document}");
}

#[test]
fn every_workload_runs_and_leaves_no_locks_behind() {
    let mut cluster = Cluster::start();
    for workload in ["cycle", "handoff", "renew", "hold", "watch", "mixed"] {
        let document = cluster.bench(&[workload, "--clients", "4", "--held-max", "20"]);
        is_good(&document);
        assert_eq!(document["workload"], workload);
        assert_eq!(document["mode"], "closed");
    }
    let left = cluster.run(&["ls", "-o", "json"]).json();
    assert_eq!(left["locks"].as_array().map(Vec::len), Some(0), "{left}");
    assert_eq!(cluster.process.end(Signal::INT).code(), Some(0));
}

#[test]
fn a_rate_is_kept_and_counted_from_when_turns_are_due() {
    let cluster = Cluster::start();
    let args = ["cycle", "--clients", "4", "--conns", "2", "--pipeline", "2", "--rate", "50"];
    let document = cluster.bench(&args);
    is_good(&document);
    assert_eq!((&document["mode"], &document["rate"]), (&"open".into(), &50.into()));
    let turns = document["turns"].as_u64().expect("it is a number");
    assert!(turns <= 21, "no more than were due in 400 ms: {document}");
    let wanted = "{behind:number,clients:number,conns:number,duration_ms:number,errors:number,\
                  first_error:null,latency_us:{max:number,mean:number,p50:number,p90:number,\
                  p99:number,p999:number},mode:string,per_s:number,pipeline:number,rate:number,\
                  turns:number,unknown:number,workload:string}";
    assert_eq!(shape(&document), wanted);
    let text = cluster.run(&["bench", "--duration", "200ms", "--warm-up", "0s"]).good();
    assert!(text.starts_with("cycle: 64 clients, 1 connections, as fast as answered"), "{text}");
    assert!(text.contains("p99.9"), "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let home = folder();
    let refused = |args: &[&str]| {
        let nobody = ["--endpoints", "http://127.0.0.1:1", "bench"];
        Done::of(command(home.path(), nobody.iter().chain(args))).refused(2)
    };
    assert!(refused(&["--clients", "0"]).contains("--clients"));
    assert!(refused(&["--pipeline", "0"]).contains("--pipeline"));
    assert!(refused(&["--conns", "9", "--clients", "3"]).contains("9 connections"));
    assert!(refused(&["--clients", "60000", "--pipeline", "2"]).contains("120000"));
    assert!(refused(&["--duration", "0s"]).contains("--duration"));
}
