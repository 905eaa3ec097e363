//! The servers: started on loopback with the durability that they come with, ended with the run.

mod etcd;
mod fencepost;
mod redis;
mod zookeeper;

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::machine;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum System {
    Etcd,
    Zookeeper,
    /// In memory only.
    Redis,
    /// With `appendfsync always`.
    RedisAof,
    Fencepost,
    /// An earlier build of Fencepost, to compare with.
    #[value(skip)]
    Baseline,
}

impl System {
    pub fn name(self) -> &'static str {
        match self {
            System::Etcd => "etcd",
            System::Zookeeper => "zookeeper",
            System::Redis => "redis",
            System::RedisAof => "redis-aof",
            System::Fencepost => "fencepost",
            System::Baseline => "baseline",
        }
    }

    /// Whether it can be a cluster that agrees.
    pub fn is_replicated(self) -> bool {
        !matches!(self, System::Redis | System::RedisAof)
    }
}

/// Where programs and data are.
#[derive(Clone, Debug)]
pub struct Places {
    /// The binary of Fencepost that is measured.
    pub fencepost: PathBuf,
    /// An earlier one, to compare with.
    pub baseline: Option<PathBuf>,
    /// Where profiles go.
    pub out: PathBuf,
    /// Below it, data directories are made.
    pub data: PathBuf,
}

impl Places {
    fn baseline(&self) -> anyhow::Result<&Path> {
        self.baseline.as_deref().context("there is no baseline")
    }
}

/// Everything it takes to start one process of a server.
struct Recipe {
    command: Command,
    client: SocketAddr,
}

/// A server or a cluster, with its data. Dropped, it is killed, and its data is removed.
pub struct Server {
    pub system: System,
    /// Where clients reach its members.
    pub addresses: Vec<SocketAddr>,
    children: Vec<Child>,
    /// Last, so that nobody writes there any more when it goes.
    data: TempDir,
}

impl Server {
    /// Starts one, and returns when its processes run. It may not answer yet.
    pub fn start(system: System, nodes: usize, places: &Places) -> anyhow::Result<Server> {
        let data = tempfile::Builder::new().prefix(system.name()).tempdir_in(&places.data)?;
        let recipes = match system {
            System::Etcd => etcd::recipes(nodes, data.path())?,
            System::Zookeeper => zookeeper::recipes(nodes, data.path())?,
            System::Redis => redis::recipes(false, data.path())?,
            System::RedisAof => redis::recipes(true, data.path())?,
            System::Fencepost => fencepost::recipes(nodes, data.path(), &places.fencepost)?,
            System::Baseline => fencepost::recipes(nodes, data.path(), places.baseline()?)?,
        };
        let mut children = Vec::new();
        let mut addresses = Vec::new();
        for (at, Recipe { mut command, client }) in recipes.into_iter().enumerate() {
            let log = File::create(data.path().join(format!("log-{at}")))?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
            let child = command.spawn();
            children.push(child.with_context(|| format!("cannot start {}", system.name()))?);
            addresses.push(client);
        }
        Ok(Server { system, addresses, children, data })
    }

    pub fn pids(&self) -> Vec<u32> {
        self.children.iter().filter_map(Child::id).collect()
    }

    /// The resident memory of all its processes, in bytes.
    pub fn memory(&self) -> anyhow::Result<f64> {
        self.pids().into_iter().map(machine::memory).sum()
    }

    /// The last line that one of its processes wrote before it ended by itself, if one has.
    pub fn ended(&mut self) -> Option<String> {
        let is_over = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        let at = self.children.iter_mut().position(is_over)?;
        let log = std::fs::read(self.data.path().join(format!("log-{at}"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&log).into_owned();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        Some(last.unwrap_or("it said nothing").trim().to_owned())
    }

    /// Kills one member without a word.
    pub async fn kill(&mut self, member: usize) -> anyhow::Result<()> {
        let child = self.children.get_mut(member).context("there is no such member")?;
        child.start_kill().context("it cannot be killed")?;
        Ok(())
    }

    /// Ends it, and waits for that.
    pub async fn stop(mut self) {
        for child in &mut self.children {
            // Whatever has ended before is gone too.
            let _ = child.start_kill();
        }
        for child in &mut self.children {
            let _ = child.wait().await;
        }
    }
}

/// A port that nobody has at the moment. Somebody else may take it before it is used; then the
/// server does not come up, and the run says so.
fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// So many different free ports.
fn free_ports(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<Result<_, _>>()?;
    held.iter().map(|listener| Ok(listener.local_addr()?)).collect()
}

/// Where a program is, by its name.
fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|at| at.is_file());
    match found {
        Some(path) => Ok(path),
        None => bail!("{name} is not installed: `cargo xtask bench` installs it where it may"),
    }
}

/// Why a system cannot be started here, if it cannot.
pub fn missing(system: System, places: &Places) -> Option<String> {
    let looked_for = match system {
        System::Etcd => program("etcd").map(drop),
        System::Zookeeper => zookeeper::is_there(),
        System::Redis | System::RedisAof => program("redis-server").map(drop),
        System::Fencepost => Ok(()),
        System::Baseline => places.baseline().map(drop),
    };
    looked_for.err().map(|error| error.to_string())
}

/// The size of the program that a system is, in bytes.
pub fn program_bytes(system: System, places: &Places) -> anyhow::Result<u64> {
    let path = match system {
        System::Etcd => program("etcd")?,
        System::Zookeeper => PathBuf::from(zookeeper::JAR),
        System::Redis | System::RedisAof => program("redis-server")?,
        System::Fencepost => places.fencepost.clone(),
        System::Baseline => places.baseline()?.to_owned(),
    };
    Ok(std::fs::metadata(path)?.len())
}

/// Which version a system says that it is, in one line.
pub fn version(system: System, places: &Places) -> String {
    let asked = match system {
        System::Etcd => first_line("etcd".as_ref(), &["--version"]),
        System::Zookeeper => zookeeper::version(),
        System::Redis | System::RedisAof => first_line("redis-server".as_ref(), &["--version"]),
        System::Fencepost => first_line(&places.fencepost, &["--version"]),
        System::Baseline => places.baseline().ok().and_then(|at| first_line(at, &["--version"])),
    };
    asked.unwrap_or_else(|| "unknown".to_owned())
}

fn first_line(program: &Path, args: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(str::to_owned)
}
