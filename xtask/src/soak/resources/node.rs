//! A node as a process, what it uses, and clients of it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};

use super::disk::SmallDisk;
use super::faults::{ADDRESS_CONNECTIONS_MAX, Fault, Log};
use super::until;
use crate::usage::Usage;

/// How many values are stored before a fault, and how large each is: what a client that does not
/// read can pin.
const VALUES: usize = 32;
const VALUE_BYTES: usize = 1 << 20;

/// A node. Its process ends with this.
pub(super) struct Node {
    program: PathBuf,
    process: Child,
    pub(super) address: SocketAddr,
    /// Where others find its data directory.
    pub(super) data: PathBuf,
}

impl Node {
    /// Starts one on a directory, and waits until it serves.
    pub(super) fn start(
        program: &Path,
        data: &Path,
        fault: &Fault,
        disk: Option<&SmallDisk>,
    ) -> anyhow::Result<Node> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let script = match fault.descriptors_max {
            Some(max) => format!("ulimit -n {max} && exec \"$0\" \"$@\""),
            None => "exec \"$0\" \"$@\"".to_owned(),
        };
        let mut command = disk.map_or_else(|| Command::new("sh"), |disk| disk.enter("sh"));
        let home = disk.map_or(data.join("node"), |disk| disk.at().join("node"));
        command.args(["-c", &script]).arg(program).args(["serve", "--listen"]);
        command.arg(address.to_string()).args(["--peer-listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(&home);
        command.args(["--connections-per-address", ADDRESS_CONNECTIONS_MAX]).stdin(Stdio::null());
        match fault.log {
            Log::File => {
                let log = File::create(data.join("log"))?;
                command.stdout(log.try_clone()?).stderr(log);
            }
            // It is never read from.
            Log::Stalled => {
                command.args(["--log-level", "debug"]);
                command.stdout(Stdio::null()).stderr(Stdio::piped());
            }
        }
        let process = command.spawn().context("start the node")?;
        let data = PathBuf::from(format!("/proc/{}/root{}", process.id(), home.display()));
        let node = Node { program: program.to_owned(), process, address, data };
        until("the node serves", || Ok(node.serve_one("start", "5s").ok()))?;
        Ok(node)
    }

    /// Stops it in good order, and starts it again on the same directory.
    pub(super) fn restart(
        &mut self,
        program: &Path,
        data: &Path,
        fault: &Fault,
        disk: Option<&SmallDisk>,
    ) -> anyhow::Result<()> {
        let asked = Command::new("kill").arg(self.process.id().to_string()).status()?;
        ensure!(asked.success(), "the node has ended by itself");
        let ended = until("the node stops", || Ok(self.process.try_wait()?))?;
        ensure!(ended.success(), "the node has ended with {ended}");
        *self = Node::start(program, data, fault, disk)?;
        Ok(())
    }

    pub(super) fn client(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--endpoints", &format!("http://{}", self.address)]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Lets a client take a lock and give it back.
    pub(super) fn serve_one(&self, lock: &str, within: &str) -> anyhow::Result<()> {
        let arguments = ["--timeout", within, "lock", lock, "--wait", within, "--", "true"];
        let output = self.client(&arguments).stderr(Stdio::piped()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "a client was not served within {within}: {said}");
        Ok(())
    }

    /// Stores values.
    pub(super) fn fill(&self) -> anyhow::Result<()> {
        let value = "x".repeat(VALUE_BYTES);
        for number in 0..VALUES {
            let body = format!("{{\"key\":\"large/{number}\",\"value\":\"{value}\"}}");
            let head = format!(
                "POST /v1/kv/put HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                self.address,
                body.len()
            );
            let mut stream = TcpStream::connect(self.address)?;
            stream.write_all(head.as_bytes())?;
            stream.write_all(body.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            ensure!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        Ok(())
    }

    /// What it uses now.
    pub(super) fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.process.id())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// A command under a lock with a short TTL.
pub(super) struct Holder(Child);

impl Holder {
    /// Starts one, and waits until it holds.
    pub(super) fn start(node: &Node) -> anyhow::Result<Holder> {
        let arguments = ["lock", "held", "--ttl", "5s", "--", "sleep", "3600"];
        let holder = Holder(node.client(&arguments).spawn()?);
        until("the holder holds", || {
            let other = ["lock", "held", "--wait", "0s", "--", "true"];
            let status = node.client(&other).stderr(Stdio::null()).status()?;
            Ok((!status.success()).then_some(()))
        })?;
        Ok(holder)
    }

    /// Whether its command still runs: it ends with the lock.
    pub(super) fn holds(&mut self) -> anyhow::Result<bool> {
        Ok(self.0.try_wait()?.is_none())
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // In good order, so that its command ends with it.
        Command::new("kill").arg(self.0.id().to_string()).status().ok();
        self.0.wait().ok();
    }
}
