//! `serve`: how it begins, how it ends, and what it refuses.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;

use rustix::process::Signal;

use crate::cluster::Cluster;
use crate::support::{Done, Plan, Running, Server, command, folder, free_port, page, until};

// Requirements: S3-030.
#[test]
fn an_empty_directory_becomes_a_ready_cluster_of_one() {
    let home = folder();
    let server = Server::alone(home.path());
    let status = server.json(&["status"]);
    assert_eq!(status["members"].as_array().map(Vec::len), Some(1));
    assert_eq!(status["leader"], status["members"][0]["name"]);
    assert!(home.path().join("data").is_dir());
}

// Requirements: S3-027.
#[test]
fn a_node_without_a_name_is_called_after_its_port() {
    let home = folder();
    let server = Server::alone(home.path());
    let port = server.endpoint.rsplit(':').next().expect("it has a port").to_owned();
    assert_eq!(server.json(&["status"])["leader"], format!("node-{port}"));
}

#[test]
fn it_ends_well_when_told_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = folder();
        let mut server = Server::alone(home.path());
        assert_eq!(server.process.end(signal).code(), Some(0));
        server.process.err.wait_for("ending: handing over");
    }
}

#[test]
fn it_ends_well_while_it_waits_for_others() {
    let home = folder();
    let list = "n1=127.0.0.1:1,n2=127.0.0.1:2";
    let plan = Plan::new(home.path()).with(&["--name", "n1", "--initial-cluster", list]);
    let mut process = plan.begin();
    process.err.wait_for("waiting for n2");
    assert_eq!(process.end(Signal::TERM).code(), Some(0));
}

#[test]
fn probes_are_answered_while_a_new_cluster_forms() {
    let home = folder();
    let list = "n1=127.0.0.1:1,n2=127.0.0.1:2";
    let plan = Plan { clients: free_port(), ..Plan::new(home.path()) };
    let plan = plan.with(&["--name", "n1", "--initial-cluster", list]);
    let process = plan.begin();
    process.err.wait_for("waiting for n2");
    let address = format!("127.0.0.1:{}", plan.clients);
    let live = page(&address, "/livez");
    assert!(live.starts_with("HTTP/1.1 200 "), "{live}");
    let ready = page(&address, "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(ready.contains("waiting for n2"), "{ready}");
}

#[test]
fn server_without_leader_does_not_say_that_it_is_ready() {
    let mut cluster = Cluster::form();
    for place in 0..3 {
        cluster.kill(place);
    }
    let path = cluster.home.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("there is room");
    socket.set_nonblocking(true).expect("it is a socket");
    let mut command = cluster.plans[0].command();
    command.env("NOTIFY_SOCKET", &path);
    let alone = Running::start(command);
    alone.err.wait_for("waiting for a leader");
    let ready = page(&format!("127.0.0.1:{}", cluster.plans[0].clients), "/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    // What the service manager is told, other than to be patient.
    let hear = || loop {
        let mut buffer = [0; 256];
        let len = socket.recv(&mut buffer).map_err(|why| why.kind())?;
        let told = String::from_utf8_lossy(&buffer[..len]).trim().to_owned();
        if !told.starts_with("EXTEND_TIMEOUT_USEC=") {
            return Ok(told);
        }
    };
    assert_eq!(hear(), Err(ErrorKind::WouldBlock));
    assert!(!alone.err.all().iter().any(|line| line.contains("is ready")));
    cluster.start(1);
    alone.err.wait_for("is ready");
    socket.set_nonblocking(false).expect("it is a socket");
    socket.set_read_timeout(Some(crate::support::PATIENCE)).expect("it is a socket");
    assert_eq!(hear(), Ok("READY=1".to_owned()));
}

#[test]
fn the_state_is_there_after_a_restart() {
    let home = folder();
    let plan = Plan::new(home.path());
    let mut server = plan.start();
    server.run(&["kv", "put", "a", "1"]).good();
    server.process.end(Signal::KILL);
    let server = plan.start();
    assert_eq!(server.run(&["kv", "get", "a"]).good(), "1\n");
}

#[test]
fn an_occupied_port_is_named() {
    let home = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = taken.local_addr().expect("it listens").port();
    let clients = Plan { clients: port, ..Plan::new(home.path()) };
    let text = Done::of(clients.command()).refused(1);
    assert!(text.contains(&format!("clients on 127.0.0.1:{port}")), "{text}");
    assert!(text.contains("--listen"), "{text}");
    let peers = Plan { peers: port, ..Plan::new(home.path()) };
    let text = Done::of(peers.command()).refused(1);
    assert!(text.contains(&format!("members on 127.0.0.1:{port}")), "{text}");
    assert!(text.contains("--peer-listen"), "{text}");
}

#[test]
fn a_directory_in_use_is_refused() {
    let home = folder();
    let plan = Plan::new(home.path());
    let _server = plan.start();
    let text = Done::of(plan.command()).refused(1);
    assert!(text.contains("another process has it open"), "{text}");
}

// Requirements: S3-034.
#[test]
fn other_machines_are_kept_out_unless_asked_for() {
    let home = folder();
    for flag in ["--listen", "--peer-listen"] {
        let open = command(home.path(), ["serve", flag, "0.0.0.0:0"]);
        let text = Done::of(open).refused(2);
        assert!(text.contains("refusing to listen on 0.0.0.0:0"), "{text}");
        assert!(text.contains("--insecure"), "{text}");
    }
    let mut open = command(home.path(), ["serve", "--listen", "0.0.0.0:0", "--insecure"]);
    open.args(["--peer-listen", "127.0.0.1:0"]);
    let server = Server::ready(Running::start(open));
    // To other machines this address would be their own: clients are not told of it.
    server.process.err.wait_for("there is no --advertise");
    assert_eq!(server.json(&["status"])["members"][0]["client"], "");
}

#[test]
fn members_are_not_sent_to_their_own_machines() {
    let home = folder();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let open = command(home.path(), ["serve", "--peer-listen", listen, "--insecure"]);
        let text = Done::of(open).refused(2);
        assert!(text.contains(listen) && text.contains("--peer-advertise"), "{text}");
    }
    let mut open = command(home.path(), ["serve", "--peer-listen", "0.0.0.0:0", "--insecure"]);
    open.args(["--listen", "127.0.0.1:0", "--peer-advertise", "db1:7421"]);
    let server = Server::ready(Running::start(open));
    assert_eq!(server.json(&["status"])["members"][0]["peer"], "db1:7421");
}

// Requirements: S3-030.
#[test]
fn what_contradicts_itself_is_refused() {
    let home = folder();
    let refused = |args: &[&str]| Done::of(Plan::new(home.path()).with(args).command());
    let text = refused(&["--bootstrap", "--join", "127.0.0.1:1"]).refused(2);
    assert!(text.contains("--bootstrap and --join contradict each other"), "{text}");
    let text = refused(&["--initial-cluster", "nonsense"]).refused(2);
    assert!(text.contains("nonsense"), "{text}");
    let text = refused(&["--join", "nowhere"]).refused(2);
    assert!(text.contains("cannot join through nowhere"), "{text}");
    let list = "n2=127.0.0.1:1";
    let text = refused(&["--name", "n1", "--initial-cluster", list]).refused(1);
    assert!(text.contains("does not name n1"), "{text}");
    for level in ["a=b=c", "warning", "loud"] {
        let text = refused(&["--log-level", level]).refused(2);
        assert!(text.contains(level) && text.contains("off, error, warn, info"), "{text}");
    }
    assert_eq!(refused(&["--nonsense"]).code, 2);
}

#[test]
fn the_service_manager_is_told() {
    let home = folder();
    let path = home.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("there is room");
    socket.set_read_timeout(Some(crate::support::PATIENCE)).expect("it is a socket");
    let mut command = Plan::new(home.path()).command();
    command.env("NOTIFY_SOCKET", &path);
    let mut server = Running::start(command);
    let hear = || {
        let mut buffer = [0; 256];
        let len = socket.recv(&mut buffer).expect("it is told");
        String::from_utf8_lossy(&buffer[..len]).trim().to_owned()
    };
    assert_eq!(hear(), "READY=1");
    assert_eq!(server.end(Signal::TERM).code(), Some(0));
    assert_eq!(hear(), "STOPPING=1");
}

#[test]
fn a_hang_up_reads_the_log_level_again() {
    let home = folder();
    let path = home.path().join("fencepost.toml");
    fs::write(&path, "log_level = \"error\"\n").expect("there is room");
    let server = Server::alone(home.path());
    assert!(!server.process.err.all().iter().any(|line| line.contains("leads now")));
    fs::write(&path, "log_level = \"info\"\n").expect("there is room");
    server.process.signal(Signal::HUP);
    server.process.err.wait_for("read the configuration again");
    fs::write(&path, "log_lvl = \"info\"\n").expect("there is room");
    server.process.signal(Signal::HUP);
    server.process.err.wait_for("the configuration stays as it was");
    assert_eq!(server.run(&["status"]).code, 0);
}

#[test]
fn what_the_handbook_says_to_watch_is_there() {
    let home = folder();
    let server = Server::alone(home.path());
    let address = server.endpoint.trim_start_matches("http://");
    for path in ["/livez", "/readyz"] {
        assert!(page(address, path).starts_with("HTTP/1.1 200 "), "{path}");
    }
    let metrics = page(address, "/metrics");
    let handbook = include_str!("../../../../docs/operations.md");
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let named =
        handbook.split(|letter| !is_name(letter)).filter(|word| word.starts_with("fencepost_"));
    let named: Vec<&str> = named.collect();
    assert!(named.len() >= 8, "{named:?}");
    for name in named {
        let found = metrics.lines().any(|line| line.starts_with(name));
        assert!(found, "there is no {name} in {metrics}");
    }
}

#[test]
fn the_directory_of_another_node_is_refused() {
    let home = folder();
    let named = |name| Plan::new(home.path()).with(&["--name", name]);
    drop(named("n1").start());
    let text = Done::of(named("n2").command()).refused(1);
    assert!(text.contains("cannot begin as n2") && text.contains("the node n1"), "{text}");
    assert_eq!(named("n1").start().json(&["status"])["leader"], "n1");
    assert_eq!(Plan::new(home.path()).start().json(&["status"])["leader"], "n1");
}

#[test]
fn a_name_that_leads_nowhere_is_said_while_waiting() {
    let home = folder();
    let list = "n1=127.0.0.1:1,n2=nowhere.invalid:7421";
    let plan = Plan::new(home.path()).with(&["--name", "n1", "--initial-cluster", list]);
    let mut process = plan.begin();
    process.err.wait_for("n2 (no address is known for nowhere.invalid");
    assert_eq!(process.end(Signal::TERM).code(), Some(0));
}

#[test]
fn trouble_is_logged_once() {
    let mut cluster = Cluster::form();
    let leader = cluster.leader();
    let killed = (leader + 1) % 3;
    let trouble = format!("cannot reach {} at", cluster.plans[killed].data);
    let before = cluster.at(leader).process.err.all().len();
    cluster.kill(killed);
    let logged = |cluster: &Cluster| {
        let lines = cluster.at(leader).process.err.all().split_off(before);
        lines.into_iter().filter(|line| line.contains(&trouble)).collect::<Vec<_>>()
    };
    until(|| if logged(&cluster).is_empty() { Err(()) } else { Ok(()) });
    let process = &mut cluster.servers[leader].as_mut().expect("it runs").process;
    process.end(Signal::TERM);
    process.err.wait_for("handing over");
    let mut told = BTreeSet::new();
    for line in logged(&cluster) {
        let text = line.split_once(&trouble).and_then(|(_, rest)| rest.split_once("start it"));
        let (why, _) = text.unwrap_or_else(|| panic!("it is not all on one line: {line}"));
        assert!(told.insert(why.to_owned()), "it was logged before: {line}");
    }
}
