//! What a server survives that has little of what it needs.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fencepost_client::Client;
use rustix::process::Signal;

use crate::support::{PATIENCE, Plan, Running, Server, folder, until};

/// The command under a limit of open files that it cannot raise.
fn limited(command: &Command, files: u32) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
    wrapped(limited, command)
}

/// A command that is run by another one.
fn wrapped(mut by: Command, command: &Command) -> Command {
    by.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => by.env(name, value),
            None => by.env_remove(name),
        };
    }
    by.current_dir(command.get_current_dir().expect("it has one")).stdin(Stdio::null());
    by
}

/// A small disk that only the processes see that are put there. It is gone when this is dropped.
struct SmallDisk(Child);

impl SmallDisk {
    /// At this place. Nothing if this user may not have one.
    fn mount(at: &Path, mib: u32) -> Option<SmallDisk> {
        let script = format!("mount -t tmpfs -o size={mib}m none \"$0\" && echo mounted && read _");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).arg(at);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mounted = command.spawn().ok().and_then(|mut holder| {
            let mut said = [0; 7];
            let read = holder.stdout.as_mut().map(|out| out.read_exact(&mut said));
            let disk = SmallDisk(holder);
            (matches!(read, Some(Ok(()))) && said == *b"mounted").then_some(disk)
        });
        if mounted.is_none() {
            fencepost_testkit::skip(
                "no disk can be mounted",
                "run the tests as root, with util-linux",
            );
        }
        mounted
    }

    /// The command, where it sees the disk.
    fn on(&self, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        entered.args(["-t", &self.0.id().to_string(), "-m", "--"]);
        wrapped(entered, command)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A session that says nothing after its greeting.
fn idle_session(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the port is open");
    // One that was refused may be closed already.
    drop(stream.write_all(b"\xf0fence\n\x01"));
    stream
}

/// Whether it was greeted. Otherwise it must have been refused.
fn is_served(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
    match stream.read_exact(&mut [0; 8]) {
        Ok(()) => true,
        Err(why) => {
            let refused = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
            assert!(refused.contains(&why.kind()), "neither served nor refused: {why}");
            false
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_idle_connections_than_descriptors_leave_the_log_alone() {
    const FILES: u32 = 256;
    let home = folder();
    let server = Server::ready(Running::start(limited(&Plan::new(home.path()).command(), FILES)));
    let client = Client::builder().endpoints([server.endpoint.as_str()]).name("writer");
    let client = client.connect().await.expect("it listens");
    let address = server.endpoint.trim_start_matches("http://").to_owned();
    let mut opened: Vec<_> = (0..FILES + 100).map(|_| idle_session(&address)).collect();
    // More than one segment of the log.
    let value = vec![b'v'; 512 << 10];
    for number in 0..40 {
        client.kv().put(format!("k{}", number % 4), value.clone()).await.expect("the log goes on");
    }
    let served = opened.iter_mut().map(is_served).filter(|&served| served).count();
    assert!((50..=FILES as usize - 50).contains(&served), "{served} were served");
    drop(opened);
    until(|| match server.run(&["kv", "get", "k0"]) {
        done if done.code == 0 => Ok(()),
        done => Err(done.err),
    });
}

#[test]
fn too_few_descriptors_are_refused_at_the_start() {
    let home = folder();
    let plan = Plan::new(home.path());
    let text = crate::support::Done::of(limited(&plan.command(), 64)).refused(1);
    assert!(text.contains("too few files can be open"), "{text}");
    assert!(text.contains("LimitNOFILE"), "{text}");
}

/// Writes a key. While the disk is low, a snapshot makes room.
async fn write(client: &Client, value: &[u8]) {
    let written = async {
        while let Err(refused) = client.kv().put("k", value.to_vec()).await {
            assert!(refused.to_string().contains("disk"), "{refused:?}");
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, written).await.expect("a snapshot makes room");
}

#[tokio::test(flavor = "multi_thread")]
async fn full_disk_refuses_growth_and_keeps_locks_and_restarts() {
    let home = folder();
    let data = home.path().join("data");
    let path = data.to_str().expect("it is text").to_owned();
    let plan = Plan { data: path, ..Plan::new(home.path()) };
    std::fs::create_dir(&data).expect("there is room");
    let Some(disk) = SmallDisk::mount(&data, 160) else { return };
    let mut server = Server::ready(Running::start(disk.on(&plan.command())));
    let client = Client::builder().endpoints([server.endpoint.as_str()]).name("holder");
    let client = client.connect().await.expect("it listens");
    let guard = client.lock("held").ttl(Duration::from_secs(600)).acquire().await;
    let guard = guard.expect("it is free");
    // Keys that come and go need no more room than they have.
    let value = vec![b'v'; 512 << 10];
    for _ in 0..200 {
        write(&client, &value).await;
    }
    // Something else fills the disk, but for a little.
    let fill = |mib: u32| {
        let script = format!(
            "head -c {mib}M /dev/zero > \"$0/other\"; [ {mib} = 0 ] || truncate -s -2M \"$0/other\""
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(&data).current_dir(home.path());
        let done = disk.on(&command).stderr(Stdio::null()).status().expect("it can be run");
        assert!(done.success());
    };
    let is_low = |server: &Server, expected: bool| {
        until(|| match server.json(&["status"])["disk"].clone() {
            disk if disk["low"] == expected => Ok(()),
            disk => Err(disk),
        });
    };
    is_low(&server, false);
    fill(160);
    is_low(&server, true);
    // The status shows it a moment before the event loop knows. Each key is new, so that it grows.
    let mut number = 0;
    let refused = until(|| {
        number += 1;
        match server.run(&["kv", "put", &format!("more{number}"), "1"]) {
            done if done.code == 0 => Err(done),
            done => Ok(done),
        }
    });
    let refused = refused.refused(1);
    assert!(refused.contains("disk_full") && refused.contains("Make room"), "{refused}");
    assert!(guard.is_valid());
    guard.release().await.expect("releases go on");
    server.run(&["kv", "get", "k"]).good();
    server.run(&["kv", "del", "k"]).good();
    // Nothing that is left keeps it from starting.
    server.process.end(Signal::KILL);
    let server = Server::ready(Running::start(disk.on(&plan.command())));
    is_low(&server, true);
    fill(0);
    is_low(&server, false);
    server.run(&["kv", "put", "more", "1"]).good();
}

#[test]
fn lock_on_a_full_disk_says_so_once_and_goes_on_trying() {
    let home = folder();
    let data = home.path().join("data");
    let path = data.to_str().expect("it is text").to_owned();
    let plan = Plan { data: path, ..Plan::new(home.path()) };
    std::fs::create_dir(&data).expect("there is room");
    let Some(disk) = SmallDisk::mount(&data, 160) else { return };
    let server = Server::ready(Running::start(disk.on(&plan.command())));
    let set = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&data).current_dir(home.path());
        let _ = disk.on(&command).stderr(Stdio::null()).status().expect("it can be run");
    };
    // Until the disk is full.
    set("head -c 160M /dev/zero > \"$0/other\"; truncate -s -2M \"$0/other\"");
    let mut number = 0;
    until(|| {
        number += 1;
        match server.run(&["--timeout", "1s", "kv", "put", &format!("more{number}"), "1"]) {
            done if done.err.contains("disk_full") => Ok(()),
            done => Err(done),
        }
    });
    let mut waiter = server.begin(&["--timeout", "1s", "lock", "job", "--", "echo", "ran"]);
    let line = waiter.err.wait_for("waiting for job: ");
    assert!(line.contains("(disk_full); the request is repeated"), "{line}");
    set("rm \"$0/other\"");
    waiter.out.wait_for("ran");
    assert_eq!(waiter.wait().code(), Some(0));
    let told = waiter.err.all();
    assert_eq!(told.iter().filter(|line| line.contains("disk_full")).count(), 1, "{told:#?}");
    assert!(told[1].contains("Make room"), "{told:#?}");
}
