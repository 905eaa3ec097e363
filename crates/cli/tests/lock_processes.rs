//! `fencepost lock` among other processes: odd names, a `/proc` that hides them, programs that leave
//! the command behind, and a first process that takes no note of those that have ended.

mod lock_support;

use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use fencepost_client::{BootTime, Token};
use lock_support::{Pipe, Running, Server, watchdog_of};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper, test_kill_process};

/// A child and a grandchild that have left the group, and do not care about TERM.
const SCATTERED: &str = "trap '' TERM; exec 9> held; flock 9; \
                         setsid sh -c 'sleep 600 & sleep 600' & echo up; wait";
/// What the next holder does first.
const LOOKS: &str = "flock -n held echo alone || echo together";
/// The kernel keeps fifteen bytes of it, and cuts the last character in two.
const CUT_NAME: &str = "проверка-сети";
/// How often a schedule is run that has to end in the same way each time; `cargo xtask soak` takes the
/// second number.
const DAEMON_RUNS: [u32; 2] = [20, 100];
const LOSS_RUNS: [u32; 2] = [1, 20];

fn runs([usual, soaked]: [u32; 2]) -> u32 {
    if std::env::var_os("FENCEPOST_LOCK_SOAK").is_some() { soaked } else { usual }
}

/// A process of this name. It runs until it is dropped.
fn named(server: &Server, name: &[u8]) -> Running {
    let mut command = Command::new("sh");
    let script =
        "printf '#!/bin/sh\\necho up\\nread line\\n' > \"$0\"; chmod +x \"$0\"; exec \"$0\"";
    let path = server.file("").join(std::ffi::OsStr::from_bytes(name));
    command.args(["-c", script]).arg(path);
    let running = Running::start(command);
    assert_eq!(running.line(), "up");
    let stat =
        std::fs::read(format!("/proc/{}/stat", running.pid().as_raw_pid())).expect("it runs");
    let kept = &name[..name.len().min(15)];
    assert!(stat.windows(kept.len()).any(|part| part == kept), "{stat:?}");
    running
}

fn force(server: &Server, lock: &str) {
    let client = server.client();
    let held = client.get_lock(lock).expect("it is there");
    let token = Token(held.holders[0].fencing_token);
    client.force_release(lock, token, "maintenance", false).expect("it is held");
}

#[test]
fn a_process_with_an_odd_name_stops_no_command() {
    let server = Server::start();
    let _others =
        [CUT_NAME.as_bytes(), b"a) S 1 1 (\n\xff", b"\xff\xfe"].map(|name| named(&server, name));
    let (code, out, err) = server.output(&["lock", "job", "--", "echo", "ran"]);
    assert_eq!((code, out.as_str()), (0, "ran\n"), "{err}");
}

#[test]
fn beside_an_odd_name_everything_ends_before_the_ttl() {
    (0..runs(LOSS_RUNS)).for_each(|_| lose_beside_an_odd_name());
}

fn lose_beside_an_odd_name() {
    let server = Server::start();
    let pipe = Pipe::make(&server.file("pipe"));
    let script = format!("exec 8> pipe; {SCATTERED}");
    let mut running = server.run(&["lock", "job", "--ttl", "3s", "--", "sh", "-c", &script]);
    assert_eq!(running.line(), "up");
    let _other = named(&server, CUT_NAME.as_bytes());
    server.signal(Signal::STOP);
    // A renewal that was confirmed was sent before this moment, and counts for three seconds.
    let frozen = BootTime::now();
    pipe.wait_until_closed();
    let ended = BootTime::now().since(frozen);
    assert!(ended < Duration::from_secs(3), "the lock could have been given away: {ended:?}");
    assert_eq!(running.code(), 122);
    let told = running.rest_told().join("\n");
    assert!(!told.contains("cannot be ended"), "{told}");
}

#[test]
fn beside_an_odd_name_a_lost_lock_is_given_back() {
    let server = Server::start();
    let arguments = ["lock", "job", "--grace", "200ms", "--", "sh", "-c", SCATTERED];
    let mut first = server.run(&arguments);
    assert_eq!(first.line(), "up");
    let _other = named(&server, CUT_NAME.as_bytes());
    let next = server.run(&["lock", "job", "--", "sh", "-c", LOOKS]);
    next.told("waiting for job");
    force(&server, "job");
    assert_eq!(next.line(), "alone");
    assert_eq!(first.code(), 122);
    let told = first.rest_told().join("\n");
    assert!(!told.contains("cannot be ended"), "{told}");
}

/// Runs this as another user, who may not look at the shell around it. The shell says 99 if a `sleep`
/// is left: it is the first process of its own, and they end with it.
fn hidden(server: &Server, hidepid: &str, lock: &str) -> Command {
    let script = format!(
        "mount -t proc -o hidepid={hidepid} proc /proc && exec 9< {program} && cd / || exit 98
         setpriv --reuid=65534 --regid=65534 --clear-groups /proc/self/fd/9 {lock}
         code=$?
         for one in /proc/[0-9]*; do
             if [ \"$(cat $one/comm)\" = sleep ] && [ -n \"$(tr '\\0' x < $one/cmdline)\" ]; then
                 exit 99
             fi
         done
         exit $code",
        program = env!("CARGO_BIN_EXE_fencepost")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script]);
    command.env("FENCEPOST_ENDPOINTS", server.endpoint());
    command
}

fn can_hide() -> bool {
    let made = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "sh", "-c"])
        .arg("mount -t proc -o hidepid=1 proc /proc && setpriv --version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    made.is_ok_and(|status| status.success())
}

#[test]
fn a_proc_that_hides_processes_keeps_no_promise_from_being_kept() {
    if !can_hide() {
        fencepost_testkit::skip(
            "/proc cannot be mounted",
            "run the tests as root, with util-linux",
        );
        return;
    }
    let server = Server::start();
    for hidepid in ["1", "2"] {
        let lock = "lock job --grace 200ms -- sh -c 'trap \"\" TERM; \
                    setsid sh -c \"sleep 600 & sleep 600\" & echo up; wait'";
        let mut running = Running::start(hidden(&server, hidepid, lock));
        assert_eq!(running.line(), "up", "hidepid={hidepid}");
        force(&server, "job");
        assert_eq!(running.code(), 122, "hidepid={hidepid}");
        let told = running.rest_told().join("\n");
        assert!(!told.contains("cannot be ended"), "{told}");
    }
}

/// What the daemon that was started says of itself; then it is ended.
fn end_daemon(running: &Running) {
    let pid: i32 = running.line().parse().expect("a number");
    let pid = Pid::from_raw(pid).expect("not zero");
    kill_process(pid, Signal::KILL).expect("it runs on");
}

/// Starts a reader of the pipe that a daemon writes its number to.
fn reader(server: &Server, pipe: &str) -> Running {
    let path = server.file(pipe);
    assert!(Command::new("mkfifo").arg(&path).status().expect("it is there").success());
    let mut command = Command::new("cat");
    command.arg(path);
    Running::start(command)
}

#[test]
fn a_program_that_leaves_the_group_late_is_left_alone() {
    let server = Server::start();
    // The command ends at once; what it has started takes its time to call setsid.
    let script =
        "(sleep 0.2; exec setsid sh -c 'echo $$ > pipe; exec sleep 600' >/dev/null 2>&1) & exit 3";
    let reader = reader(&server, "pipe");
    let (code, _, err) = server.output(&["lock", "job", "--", "sh", "-c", script]);
    assert_eq!(code, 3, "{err}");
    assert!(!err.contains("left processes behind"), "{err}");
    end_daemon(&reader);
    assert_eq!(server.output(&["lock", "job", "--try", "--", "echo", "ran"]).1, "ran\n");
}

#[test]
fn programs_that_become_daemons_are_left_alone_each_time() {
    if Command::new("python3").arg("--version").output().is_err() {
        fencepost_testkit::skip("python3 is missing", "apt-get install python3");
        return;
    }
    // As daemon(3) does it: the parent ends before the child leaves the group.
    let daemon = "import os\n\
                  if os.fork(): os._exit(0)\n\
                  os.setsid()\n\
                  null = os.open('/dev/null', os.O_RDWR)\n\
                  for file in (0, 1, 2): os.dup2(null, file)\n\
                  pipe = os.open('pipe', os.O_WRONLY)\n\
                  os.write(pipe, b'%d\\n' % os.getpid())\n\
                  os.close(pipe)\n\
                  os.execlp('sleep', 'sleep', '600')\n";
    let server = Server::start();
    std::fs::write(server.file("daemon.py"), daemon).expect("the folder is there");
    for run in 0..runs(DAEMON_RUNS) {
        let reader = reader(&server, "pipe");
        let (code, _, err) = server.output(&["lock", "job", "--", "python3", "daemon.py"]);
        assert_eq!((code, err.as_str()), (0, ""), "run {run}");
        end_daemon(&reader);
        std::fs::remove_file(server.file("pipe")).expect("it is there");
    }
}

#[test]
fn a_daemon_ends_if_the_lock_is_lost_while_the_command_runs() {
    let server = Server::start();
    let reader = reader(&server, "pipe");
    let script =
        "setsid sh -c 'echo $$ > pipe; exec sleep 600' >/dev/null 2>&1 & echo up; read line";
    let mut running = server.run(&["lock", "job", "--", "sh", "-c", script]);
    assert_eq!(running.line(), "up");
    let daemon: i32 = reader.line().parse().expect("a number");
    force(&server, "job");
    assert_eq!(running.code(), 122);
    let daemon = Pid::from_raw(daemon).expect("not zero");
    // It was killed before the supervisor ended, and runs no more code of its own. The system may need
    // a moment to take it away.
    while is_running(daemon) {
        std::thread::yield_now();
    }
}

/// Whether a process runs. One that has ended may still have its number.
fn is_running(pid: Pid) -> bool {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap_or_default();
    !stat.is_empty() && !stat.windows(4).any(|part| part == b") Z ")
}

#[test]
fn a_run_leaves_no_ended_process_to_the_first_one() {
    // Those that are left to the first process of a container come to this one.
    set_child_subreaper(Some(getpid())).expect("it is allowed");
    let server = Server::start();
    let script = "echo up; read line; exit 4";
    let mut running = server.run(&["lock", "job", "--", "sh", "-c", script]);
    assert_eq!(running.line(), "up");
    let watchdog = watchdog_of(running.pid());
    running.write("go\n");
    assert_eq!(running.code(), 4);
    assert_eq!(test_kill_process(watchdog), Err(rustix::io::Errno::SRCH), "it was left behind");
}

#[test]
fn a_command_that_is_killed_leaves_no_ended_process_either() {
    set_child_subreaper(Some(getpid())).expect("it is allowed");
    let server = Server::start();
    let mut running = server.run(&["lock", "job", "--", "sh", "-c", "echo up; read line"]);
    assert_eq!(running.line(), "up");
    let watchdog = watchdog_of(running.pid());
    force(&server, "job");
    assert_eq!(running.code(), 122);
    assert_eq!(test_kill_process(watchdog), Err(rustix::io::Errno::SRCH), "it was left behind");
}
