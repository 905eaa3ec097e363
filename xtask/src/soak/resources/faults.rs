//! What clients and surroundings do to a node.

use std::any::Any;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

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

/// What lasts until it is dropped.
type Applied = Box<dyn Any>;

/// A fault, and how the node is started for it.
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) log: Log,
    pub(super) descriptors_max: Option<u32>,
    pub(super) apply: fn(&Node) -> anyhow::Result<Applied>,
}

/// Where the node logs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Log {
    File,
    /// A pipe that is not read.
    Stalled,
}

const fn fault(name: &'static str, apply: fn(&Node) -> anyhow::Result<Applied>) -> Fault {
    Fault { name, log: Log::File, descriptors_max: None, apply }
}

pub(super) const FAULTS: [Fault; 6] = [
    fault("idle connections", idle_connections),
    fault("connections that begin a frame", half_frames),
    fault("unfinished messages", unfinished_messages),
    fault("windows of zero", windows_of_zero),
    Fault { log: Log::Stalled, ..fault("stalled log reader", nothing) },
    Fault { descriptors_max: Some(DESCRIPTORS_MAX), ..fault("few descriptors", few_descriptors) },
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
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = http2::Client::open(connect(node.address)?, None)?;
        for stream in 0..STREAMS {
            client.begin(stream, "/etcdserverpb.KV/Put")?;
            client.send(stream, &http2::message(1 << 20, 8 << 10), false)?;
        }
        open.push(client);
    }
    Ok(Box::new(open))
}

fn windows_of_zero(node: &Node) -> anyhow::Result<Applied> {
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut client = http2::Client::open(connect(node.address)?, Some(0))?;
        for stream in 0..STREAMS {
            let path = match stream % 2 {
                0 => "/etcdserverpb.Maintenance/Snapshot",
                _ => "/fencepost.v1.ClusterService/Snapshot",
            };
            client.begin(stream, path)?;
            client.send(stream, &http2::message(0, 0), true)?;
        }
        open.push(client);
    }
    Ok(Box::new(open))
}

fn few_descriptors(node: &Node) -> anyhow::Result<Applied> {
    flood(node, FLOOD, b"\xf0fence\n\x01")
}
