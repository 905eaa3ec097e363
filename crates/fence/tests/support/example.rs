//! The examples as real processes.

use std::env;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fencepost_testkit::skip;

use super::find;

/// A process that is killed when this is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Ends it as kill -9 does.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program of an example. A full run of the tests builds it; a run of one file does not.
pub(crate) fn example(name: &str) -> PathBuf {
    let own = env::current_exe().expect("a test has a file");
    let folder = own.parent().and_then(Path::parent).expect("it lies in target/<profile>/deps");
    let path = folder.join("examples").join(name);
    assert!(path.is_file(), "run `cargo build -p fencepost-fence --examples` first");
    path
}

/// A store in a process of its own, on a free port.
pub(crate) fn store(file: &Path, more: &[&str]) -> (Process, SocketAddr) {
    let mut command = Command::new(example("store"));
    command.arg("127.0.0.1:0").arg(file).args(more);
    start_store(command)
}

/// The same, on a disk that is full once the file has this many blocks of 512 bytes.
pub(crate) fn store_on_small_disk(file: &Path, blocks: u32) -> (Process, SocketAddr) {
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" 127.0.0.1:0 \"$1\"");
    command.arg("-c").arg(script).arg(example("store")).arg(file).stderr(Stdio::piped());
    start_store(command)
}

/// Starts a store that must not start, and gives its last words.
pub(crate) fn store_refuses(file: &Path) -> String {
    let mut command = Command::new(example("store"));
    command.arg("127.0.0.1:0").arg(file).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Process(command.spawn().expect("the program is there"));
    let mut line = String::new();
    let stdout = process.0.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it can be read");
    assert_eq!(line, "", "the store has started");
    assert!(!process.0.wait().expect("a child can be waited for").success());
    let mut words = String::new();
    let mut stderr = process.0.stderr.take().expect("it is piped");
    stderr.read_to_string(&mut words).expect("it is text");
    words
}

/// Watches a process: every sync and everything it sends is written to a file, in order. None if
/// there is nothing to watch with. Ends with the process.
pub(crate) fn watch(process: &Process, trace: &Path) -> Option<Process> {
    let Some(strace) = find("strace", &[]) else {
        skip("strace is missing", "apt-get install strace");
        return None;
    };
    let mut command = Command::new(strace);
    command.args(["-f", "-e", "trace=fdatasync,fsync,write,writev,sendto", "-o"]).arg(trace);
    command.arg("-p").arg(process.0.id().to_string()).stderr(Stdio::piped());
    let mut watcher = Process(command.spawn().expect("the program is there"));
    let stderr = watcher.0.stderr.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(stderr).read_line(&mut line).expect("it can be read");
    if !line.contains("attached") {
        skip(&format!("strace may not attach: {}", line.trim()), "run the tests as root");
        return None;
    }
    Some(watcher)
}

fn start_store(mut command: Command) -> (Process, SocketAddr) {
    command.stdout(Stdio::piped());
    let mut process = Process(command.spawn().expect("the program is there"));
    let stdout = process.0.stdout.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("it can be read");
    let address = line.trim().strip_prefix("listening on ").expect("it says where it listens");
    (process, address.parse().expect("it is an address"))
}
