//! What clients and surroundings do to a node.

use std::any::Any;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::Context as _;
use socket2::{Domain, Socket, Type};

use super::http2;
use super::node::Node;

/// From where floods come: an address of this machine that no other client has.
const FLOOD_FROM: ([u8; 4], u16) = ([127, 0, 0, 2], 0);
/// Connections that one address may have, and those of a flood: twice as many, and fewer than the
/// descriptors that a process usually has.
pub(super) const ADDRESS_CONNECTIONS_MAX: &str = "400";
const FLOOD: usize = 800;
/// Connections of a client that does not read, and streams on each.
const CONNECTIONS: usize = 8;
const STREAMS: u32 = 64;
/// Descriptors of a node that has few.
const DESCRIPTORS_MAX: u32 = 256;

/// The disk of a node that has a small one, and what is left of it when something else fills it.
const DISK_MIB: u32 = 512;
const DISK_LEFT_BYTES: u64 = 2 << 20;
/// Names of processes: not UTF-8 once the kernel has cut it, not UTF-8 at all, and one that looks like
/// the fields that follow the name.
const ODD_NAMES: [&[u8]; 3] = ["проверка-сети".as_bytes(), b"\xff\xfe", b"a) S 1 1 (\n\xff"];

/// What lasts until it is dropped.
type Applied = Box<dyn Any>;

/// A fault, and how the node is started for it.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) log: Log,
    pub(super) descriptors_max: Option<u32>,
    /// The size of a file system for its data directory alone.
    pub(super) disk_mib: Option<u32>,
    pub(super) others: Others,
    pub(super) apply: fn(&Node) -> anyhow::Result<Applied>,
}

/// What other clients can expect while a fault lasts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    Served,
    /// Served, or refused with these words; at least one of them is refused.
    Refused(&'static str),
}

/// Where the node logs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    File,
    /// A pipe that is not read.
    Stalled,
}

const fn fault(name: &'static str, apply: fn(&Node) -> anyhow::Result<Applied>) -> Fault {
    let log = Log::File;
    Fault { name, log, descriptors_max: None, disk_mib: None, others: Others::Served, apply }
}

pub(super) const FAULTS: [Fault; 8] = [
    fault("idle connections", idle_connections),
    fault("connections that begin a frame", half_frames),
    fault("unfinished messages", unfinished_messages),
    fault("windows of zero", windows_of_zero),
    Fault { log: Log::Stalled, ..fault("stalled log reader", nothing) },
    // The flood takes all connections that its descriptors allow.
    Fault {
        descriptors_max: Some(DESCRIPTORS_MAX),
        others: Others::Refused("cannot reach the service"),
        ..fault("few descriptors", few_descriptors)
    },
    fault("odd process names", odd_process_names),
    Fault {
        disk_mib: Some(DISK_MIB),
        others: Others::Refused("disk_full"),
        ..fault("full disk", full_disk)
    },
];

fn nothing(_: &Node) -> anyhow::Result<Applied> {
    Ok(Box::new(()))
}

/// A connection from the address of floods. The server may close it at once.
fn connect(to: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from(FLOOD_FROM).into()).context("bind the address of the flood")?;
    socket.connect(&to.into()).context("connect")?;
    Ok(socket.into())
}

fn flood(node: &Node, count: usize, said: &[u8]) -> anyhow::Result<Applied> {
    let mut open = Vec::new();
    for _ in 0..count {
        let mut stream = connect(node.address)?;
        // It may have been refused.
        stream.write_all(said).ok();
        open.push(stream);
    }
    Ok(Box::new(open))
}

/// Sessions that have said no more than that they are some.
fn idle_connections(node: &Node) -> anyhow::Result<Applied> {
    flood(node, FLOOD, b"\xf0fence\n\x01")
}

fn half_frames(node: &Node) -> anyhow::Result<Applied> {
    let mut said = b"\xf0fence\n\x01".to_vec();
    said.extend((1_u32 << 20).to_le_bytes());
    said.resize(said.len() + (64 << 10), 0);
    flood(node, FLOOD, &said)
}

fn unfinished_messages(node: &Node) -> anyhow::Result<Applied> {
    misbehave(node, None, |client| {
        for stream in 0..STREAMS {
            client.begin(stream, "/etcdserverpb.KV/Put")?;
            client.send(stream, &http2::message(1 << 20, 8 << 10), false)?;
        }
        Ok(())
    })
}

fn windows_of_zero(node: &Node) -> anyhow::Result<Applied> {
    misbehave(node, Some(0), |client| {
        for stream in 0..STREAMS {
            let path = match stream % 2 {
                0 => "/etcdserverpb.Maintenance/Snapshot",
                _ => "/fencepost.v1.ClusterService/Snapshot",
            };
            client.begin(stream, path)?;
            client.send(stream, &http2::message(0, 0), true)?;
        }
        Ok(())
    })
}

/// Does the same on many connections, and keeps those that the server has not closed meanwhile. The
/// first one must last that long.
fn misbehave(
    node: &Node,
    window: Option<u32>,
    calls: impl Fn(&mut http2::Client) -> anyhow::Result<()>,
) -> anyhow::Result<Applied> {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let called = connect(node.address).and_then(|stream| {
            let mut client = http2::Client::open(stream, window)?;
            calls(&mut client)?;
            Ok(client)
        });
        match called {
            Ok(client) => open.push(client),
            Err(why) if open.is_empty() => return Err(why.context("the first connection")),
            Err(_) => {}
        }
    }
    eprintln!("     {} of {CONNECTIONS} connections kept", open.len());
    Ok(Box::new(open))
}

fn few_descriptors(node: &Node) -> anyhow::Result<Applied> {
    flood(node, FLOOD, b"\xf0fence\n\x01")
}

/// A process. It ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn odd_process_names(node: &Node) -> anyhow::Result<Applied> {
    let folder = node.data.with_file_name("odd");
    fs::create_dir_all(&folder)?;
    let mut running = Vec::new();
    for name in ODD_NAMES {
        let program = folder.join(OsStr::from_bytes(name));
        fs::copy("/bin/sleep", &program).context("copy a program under an odd name")?;
        let process = Command::new(&program).arg("3600").spawn();
        running.push(Process(process.context("start a program with an odd name")?));
    }
    Ok(Box::new(running))
}

/// A file that takes what is left of a disk.
struct Ballast(PathBuf);

impl Drop for Ballast {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}

fn full_disk(node: &Node) -> anyhow::Result<Applied> {
    let ballast = Ballast(node.data.with_file_name("ballast"));
    let mut file = File::create(&ballast.0)?;
    while file.write_all(&[0; 1 << 20]).is_ok() {}
    let size = file.metadata()?.len();
    file.set_len(size.saturating_sub(DISK_LEFT_BYTES))?;
    Ok(Box::new(ballast))
}
