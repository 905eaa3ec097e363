//! Listens for other nodes, and serves each connection on a thread of its own.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::edge;
use super::question::fill;
use crate::io::{MemberId, PeerMessage};
use crate::membership::Membership;
use crate::peer::{
    Ask, FrameBuffer, Hello, PREAMBLE_BYTES, Preamble, Refusal, Told, Welcome, decode_message,
    kind, weight,
};

/// Connections that may be open. A member needs one or two.
const CONNECTIONS_MAX: usize = 256;

/// Who says nothing for so long is not a node.
const GREETING_PATIENCE: Duration = Duration::from_secs(3);

/// How long not to accept connections if the system has no room for one.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Decides what becomes of those who come in.
pub(super) trait Door: Send + Sync {
    /// A member wants to talk. The number of this node, if it may.
    fn hello(&self, hello: &Hello) -> Result<MemberId, Refusal>;
    /// Somebody asks.
    fn ask(&self, ask: Ask) -> Result<Told, Refusal>;
    /// A member that was welcomed says this, in so many bytes. `false` to close the connection.
    fn hear(&self, from: MemberId, messages: &mut Vec<PeerMessage>, bytes: usize) -> bool;
    /// The connection of a member has ended.
    fn lost(&self, from: MemberId);
}

/// Listens for other nodes.
pub(super) struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    address: SocketAddr,
    door: Mutex<Arc<dyn Door>>,
    is_stopped: AtomicBool,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    last: u64,
    open: BTreeMap<u64, Connection>,
}

struct Connection {
    stream: TcpStream,
    member: Option<MemberId>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on an address. The name is for its threads.
    pub(super) fn listen(
        listener: TcpListener,
        name: &str,
        door: Arc<dyn Door>,
    ) -> io::Result<Server> {
        let shared = Arc::new(Shared {
            address: listener.local_addr()?,
            door: Mutex::new(door),
            is_stopped: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let name = format!("{name}<");
        let theirs = Arc::clone(&shared);
        let accept = std::thread::Builder::new().name(name.clone());
        let thread = accept.spawn(move || accept_all(&theirs, &listener, &name))?;
        Ok(Server { shared, thread: Some(thread) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Lets another door decide from now on.
    pub(super) fn set_door(&self, door: Arc<dyn Door>) {
        *self.shared.door.lock().unwrap_or_else(PoisonError::into_inner) = door;
    }

    /// Closes the connections of those who were removed. They will be told why when they connect
    /// again.
    pub(super) fn shut_out_removed(&self, members: &Membership) {
        for connection in self.shared.connections().open.values() {
            if connection.member.is_some_and(|member| members.removed.contains(&member)) {
                drop(connection.stream.shutdown(Shutdown::Both));
            }
        }
    }

    /// Closes everything, and waits for all threads.
    pub(super) fn stop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        // A connection wakes the thread that accepts them.
        let woken = TcpStream::connect_timeout(&reachable(self.shared.address), GREETING_PATIENCE);
        if let Some(thread) = self.thread.take()
            && woken.is_ok()
        {
            drop(thread.join());
        }
        let threads: Vec<JoinHandle<()>> = {
            let mut connections = self.shared.connections();
            let open = connections.open.values_mut();
            open.filter_map(|connection| {
                drop(connection.stream.shutdown(Shutdown::Both));
                connection.thread.take()
            })
            .collect()
        };
        for thread in threads {
            drop(thread.join());
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn door(&self) -> Arc<dyn Door> {
        Arc::clone(&self.door.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An address on this machine that leads to a listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
    }
    address
}

fn accept_all(shared: &Arc<Shared>, listener: &TcpListener, name: &str) {
    loop {
        let accepted = listener.accept();
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, _)) => admit(shared, stream, name),
            // The process has as many files open as it may.
            Err(_) => edge::pause(NO_ROOM_PAUSE),
        }
    }
}

/// Gives a connection its thread. If that cannot be, it is closed.
fn admit(shared: &Arc<Shared>, mut stream: TcpStream, name: &str) {
    let mut connections = shared.connections();
    if connections.open.len() >= CONNECTIONS_MAX {
        drop(refuse(&mut stream, &Refusal::Busy));
        return;
    }
    let Ok(kept) = stream.try_clone() else { return };
    connections.last += 1;
    let number = connections.last;
    let theirs = Arc::clone(shared);
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Whatever goes wrong, the other side connects again.
        drop(serve(&theirs, &mut stream, number));
        drop(stream.shutdown(Shutdown::Both));
        theirs.connections().open.remove(&number);
    });
    if let Ok(thread) = thread {
        let connection = Connection { stream: kept, member: None, thread: Some(thread) };
        connections.open.insert(number, connection);
    }
}

fn serve(shared: &Shared, stream: &mut TcpStream, number: u64) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(GREETING_PATIENCE))?;
    stream.set_write_timeout(Some(GREETING_PATIENCE))?;
    let mut buffer = FrameBuffer::default();
    let preamble = loop {
        match buffer.raw::<PREAMBLE_BYTES>() {
            Some(bytes) => break Preamble::read(&bytes),
            None => fill(&mut buffer, stream)?,
        }
    };
    // Whoever speaks another protocol would not understand a refusal.
    let Some(preamble) = preamble else { return Ok(()) };
    let version = match Preamble::OURS.agree(preamble) {
        Ok(version) => version,
        Err(refusal) => return refuse(stream, &refusal),
    };
    let (kind, body) = loop {
        match buffer.next_frame() {
            Ok(Some((kind, body))) => break (kind, body.to_vec()),
            Ok(None) => fill(&mut buffer, stream)?,
            Err(_) => return refuse(stream, &Refusal::Malformed),
        }
    };
    let door = shared.door();
    match kind {
        kind::HELLO => {
            let hello = Hello::read(&body).ok_or(Refusal::Malformed);
            match hello.and_then(|hello| Ok((door.hello(&hello)?, hello.member))) {
                Err(refusal) => refuse(stream, &refusal),
                Ok((member, from)) => {
                    say(stream, |out| Welcome { version, member }.put(out))?;
                    take_over(shared, number, from);
                    stream.set_read_timeout(None)?;
                    drop(listen_to(&*door, from, stream, &mut buffer));
                    door.lost(from);
                    Ok(())
                }
            }
        }
        kind::ASK => {
            let ask = Ask::read(&body).ok_or(Refusal::Malformed);
            match ask.and_then(|ask| door.ask(ask)) {
                Err(refusal) => refuse(stream, &refusal),
                Ok(told) => say(stream, |out| told.put(out)),
            }
        }
        _ => refuse(stream, &Refusal::Malformed),
    }
}

/// A member has one connection: the latest. An older one is a leftover of a break in the network.
fn take_over(shared: &Shared, number: u64, from: MemberId) {
    for (&other, connection) in &mut shared.connections().open {
        if other == number {
            connection.member = Some(from);
        } else if connection.member == Some(from) {
            drop(connection.stream.shutdown(Shutdown::Both));
        }
    }
}

fn listen_to(
    door: &dyn Door,
    from: MemberId,
    stream: &mut TcpStream,
    buffer: &mut FrameBuffer,
) -> io::Result<()> {
    let mut messages = Vec::new();
    loop {
        let mut bytes = 0;
        while let Some((kind, body)) = buffer.next_frame().map_err(io::Error::other)? {
            let message = decode_message(kind, body);
            let message = message.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
            bytes += weight(&message);
            messages.push(message);
        }
        if !messages.is_empty() && !door.hear(from, &mut messages, bytes) {
            return Ok(());
        }
        fill(buffer, stream)?;
    }
}

fn say(stream: &mut TcpStream, put: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
    let mut out = Vec::new();
    Preamble::OURS.put(&mut out);
    put(&mut out);
    stream.write_all(&out)
}

fn refuse(stream: &mut TcpStream, refusal: &Refusal) -> io::Result<()> {
    say(stream, |out| refusal.put(out))
}
