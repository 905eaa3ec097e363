//! A limit of file sizes (`ulimit -f`, `LimitFSIZE=`): what exceeds it fails, as on a full disk, and does
//! not end the process without a word.

use std::fs::{self, File, OpenOptions};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use crate::support::{Done, Plan, Running, Server, command, folder, free_port, until};

/// The command under a limit of so many bytes, a multiple of 512.
fn limited(command: &Command, bytes: u64) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -f {}; exec \"$0\" \"$@\"", bytes / 512)]);
    limited.arg(command.get_program()).args(command.get_args());
    for (name, _) in command.get_envs() {
        limited.env_remove(name);
    }
    limited.current_dir(command.get_current_dir().expect("it has one")).stdin(Stdio::null());
    limited
}

#[test]
fn start_under_a_small_file_size_limit_says_why_it_fails() {
    let home = folder();
    let done = Done::of(limited(&Plan::new(home.path()).command(), 50 << 10));
    let text = done.refused(1);
    assert!(text.contains("File too large"), "{text}");
    // What it left behind does not keep it from starting.
    Server::alone(home.path()).run(&["kv", "put", "a", "1"]).good();
}

#[test]
fn log_at_the_file_size_limit_ends_the_node_and_loses_nothing() {
    let home = folder();
    let mut server = Server::alone(home.path());
    let pid = i32::try_from(server.process.id()).ok().and_then(Pid::from_raw);
    let limit = Some(1 << 20);
    prlimit(pid, Resource::Fsize, Rlimit { current: limit, maximum: limit }).expect("it runs");
    let value = "x".repeat(100_000);
    let put = |number: &u64| {
        server.run(&["--timeout", "3s", "kv", "put", &format!("k{number}"), &value]).code == 0
    };
    let acknowledged = (0..20).take_while(put).count();
    assert!((1..20).contains(&acknowledged), "{acknowledged} were written");
    // The last of three lines.
    server.process.err.wait_for("make room on the disk");
    assert_eq!(server.process.wait().code(), Some(1));
    let told = server.process.err.all();
    let error = told.iter().position(|line| line.starts_with("error: ")).expect("it says why");
    assert!(told[error + 1].contains("File too large"), "{told:#?}");
    assert_eq!(told.len() - error, 3, "{told:#?}");
    drop(server);
    let server = Server::alone(home.path());
    for number in 0..acknowledged {
        let found = server.run(&["kv", "get", &format!("k{number}")]).good();
        assert_eq!(found.trim_end(), value, "k{number}");
    }
}

#[test]
fn log_lines_beyond_the_file_size_limit_are_dropped() {
    const LIMIT: u64 = 64 << 20;
    let home = folder();
    let path = home.path().join("stderr");
    File::create(&path).and_then(|file| file.set_len(LIMIT)).expect("there is room for a hole");
    let stderr = OpenOptions::new().append(true).open(&path).expect("it is there");
    let ports = Plan { clients: free_port(), peers: free_port(), ..Plan::new(home.path()) };
    let mut process = Running::with_stderr(limited(&ports.command(), LIMIT), stderr);
    let endpoint = format!("http://127.0.0.1:{}", ports.clients);
    let run = |args: &[&str]| {
        Done::of(command(home.path(), ["--endpoints", &endpoint].iter().chain(args)))
    };
    until(|| match run(&["kv", "put", "a", "1"]) {
        done if done.code == 0 => Ok(()),
        done => Err(done),
    });
    assert_eq!(run(&["kv", "get", "a"]).good(), "1\n");
    assert_eq!(process.end(Signal::TERM).code(), Some(0));
    assert_eq!(fs::metadata(&path).expect("it is there").len(), LIMIT);
}
