//! Listens for other nodes, and serves each connection on a thread of its own.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::net::{SendFlags, send};

use super::descriptors::peer_connections;
use super::edge;
use super::log_writer::LogWork;
use super::post::{Ear, Post, listen_to};
use super::question::fill;
use crate::io::{MemberId, PeerMessage};
use crate::membership::Membership;
use crate::peer::{
    Ask, FrameBuffer, Hello, PREAMBLE_BYTES, Preamble, Refusal, Told, VERSION_HIGHEST,
    VERSION_LOWEST, Welcome, encode_message, kind,
};

/// Who says nothing for so long is not a node.
const GREETING_PATIENCE: Duration = Duration::from_secs(3);

/// How long not to accept connections if the system has no room for one.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Decides what becomes of those who come in.
pub(super) trait Door: Send + Sync {
    /// A member wants to talk. The number of this node, if it may.
    fn hello(&self, hello: &Hello, version: u32) -> Result<MemberId, Refusal>;
    /// Somebody asks.
    fn ask(&self, ask: Ask) -> Result<Told, Refusal>;

    /// The oldest version of the protocol that the cluster still takes.
    fn lowest_version(&self) -> u32 {
        VERSION_LOWEST
    }
    /// A member that was welcomed says this, in so many bytes. What the caller has to
    /// [write](Door::write) before it goes on, or nothing to close the connection.
    fn hear(
        &self,
        from: MemberId,
        messages: &mut Vec<PeerMessage>,
        bytes: usize,
    ) -> Option<Vec<LogWork>>;
    /// Writes what came of what was heard. Takes as long as the disk does.
    fn write(&self, work: Vec<LogWork>);
    /// The connection of a member has ended.
    fn lost(&self, from: MemberId);
}

/// Listens for other nodes.
pub(super) struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// What its threads are called.
    name: String,
    address: SocketAddr,
    door: Mutex<Arc<dyn Door>>,
    is_stopped: AtomicBool,
    connections_max: usize,
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
    /// Whoever listens, and those who were relieved of it.
    threads: Vec<JoinHandle<()>>,
    /// What whoever listens leaves behind while it waits for the disk.
    post: Arc<Post>,
}

impl Server {
    /// Listens on an address. The name is for its threads.
    pub(super) fn listen(
        listener: TcpListener,
        name: &str,
        door: Arc<dyn Door>,
    ) -> io::Result<Server> {
        let name = format!("{name}<");
        let shared = Arc::new(Shared {
            name: name.clone(),
            address: listener.local_addr()?,
            door: Mutex::new(door),
            is_stopped: AtomicBool::new(false),
            connections_max: peer_connections(),
            connections: Mutex::default(),
        });
        let theirs = Arc::clone(&shared);
        let accept = std::thread::Builder::new().name(name);
        let thread = accept.spawn(move || accept_all(&theirs, &listener))?;
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

    /// Sends a message over the connection that a member has made, if the system takes it at once.
    pub(super) fn send_back(&self, to: MemberId, message: &PeerMessage) {
        let mut bytes = Vec::new();
        encode_message(message, &mut bytes);
        for connection in self.shared.connections().open.values() {
            if connection.member == Some(to) {
                // It is lost if there is no room. The reason for it comes again.
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let _ = send(&connection.stream, &bytes, flags);
            }
        }
    }

    /// Has somebody else listen to the members whose listeners have waited for the disk for too long: a
    /// disk that hangs must not make a node deaf.
    pub(super) fn relieve(&self, now: Instant) {
        self.shared.connections().open.retain(|&number, connection| {
            // A finished thread keeps its stack as long as its handle is there.
            connection.threads.retain(|thread| !thread.is_finished());
            let Some(ear) = connection.post.take_over(now) else { return true };
            let (shared, post) = (Arc::clone(&self.shared), Arc::clone(&connection.post));
            let thread = std::thread::Builder::new().name(self.shared.name.clone());
            match thread.spawn(move || listen_to_the_end(&shared, number, ear, &post)) {
                Ok(thread) => connection.threads.push(thread),
                // The member connects again.
                Err(_) => {
                    drop(connection.stream.shutdown(Shutdown::Both));
                    return false;
                }
            }
            true
        });
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
            open.flat_map(|connection| {
                drop(connection.stream.shutdown(Shutdown::Both));
                std::mem::take(&mut connection.threads)
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

fn accept_all(shared: &Arc<Shared>, listener: &TcpListener) {
    loop {
        let accepted = listener.accept();
        if shared.is_stopped.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, _)) => admit(shared, stream),
            // The process has as many files open as it may.
            Err(_) => edge::pause(NO_ROOM_PAUSE),
        }
    }
}

/// Gives a connection its thread. If that cannot be, it is closed.
fn admit(shared: &Arc<Shared>, mut stream: TcpStream) {
    let mut connections = shared.connections();
    if connections.open.len() >= shared.connections_max {
        drop(refuse(&mut stream, &Refusal::Busy));
        return;
    }
    let Ok(kept) = stream.try_clone() else { return };
    connections.last += 1;
    let number = connections.last;
    let (theirs, post) = (Arc::clone(shared), Arc::<Post>::default());
    let left = Arc::clone(&post);
    let thread = std::thread::Builder::new().name(shared.name.clone());
    let thread = thread.spawn(move || {
        // Whatever goes wrong, the other side connects again.
        match welcome(&theirs, &mut stream, number) {
            Ok(Some((from, buffer))) => {
                listen_to_the_end(&theirs, number, Ear { from, stream, buffer }, &left);
            }
            Ok(None) | Err(_) => close(&theirs, number, &stream),
        }
    });
    if let Ok(thread) = thread {
        let (stream, threads) = (kept, vec![thread]);
        connections.open.insert(number, Connection { stream, member: None, threads, post });
    }
}

fn close(shared: &Shared, number: u64, stream: &TcpStream) {
    drop(stream.shutdown(Shutdown::Both));
    shared.connections().open.remove(&number);
}

/// Hears who is there, and answers. If it is a member that wants to talk: who it is, and what was read of
/// it already.
fn welcome(
    shared: &Shared,
    stream: &mut TcpStream,
    number: u64,
) -> io::Result<Option<(MemberId, FrameBuffer)>> {
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
    let Some(preamble) = preamble else { return Ok(None) };
    let version = match Preamble::OURS.agree(preamble) {
        Ok(version) => version,
        Err(refusal) => return refuse(stream, &refusal).map(|()| None),
    };
    let (kind, body) = loop {
        match buffer.next_frame() {
            Ok(Some((kind, body))) => break (kind, body.to_vec()),
            Ok(None) => fill(&mut buffer, stream)?,
            Err(_) => return refuse(stream, &Refusal::Malformed).map(|()| None),
        }
    };
    let door = shared.door();
    let lowest = door.lowest_version();
    if version < lowest {
        let refusal = Refusal::Version { lowest, highest: VERSION_HIGHEST };
        return refuse(stream, &refusal).map(|()| None);
    }
    match kind {
        kind::HELLO => {
            let hello = Hello::read(&body).ok_or(Refusal::Malformed);
            match hello.and_then(|hello| Ok((door.hello(&hello, version)?, hello.member))) {
                Err(refusal) => refuse(stream, &refusal)?,
                Ok((member, from)) => {
                    say(stream, |out| Welcome { version, member }.put(out))?;
                    take_over(shared, number, from);
                    stream.set_read_timeout(None)?;
                    return Ok(Some((from, buffer)));
                }
            }
        }
        kind::ASK => {
            let ask = Ask::read(&body).ok_or(Refusal::Malformed);
            match ask.and_then(|ask| door.ask(ask)) {
                Err(refusal) => refuse(stream, &refusal)?,
                Ok(told) => say(stream, |out| told.put(out))?,
            }
        }
        _ => refuse(stream, &Refusal::Malformed)?,
    }
    Ok(None)
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

/// Listens to a member until the connection ends, or somebody else has taken over.
fn listen_to_the_end(shared: &Shared, number: u64, ear: Ear, post: &Post) {
    let (door, from) = (shared.door(), ear.from);
    if let Ok(stream) = listen_to(&*door, ear, post) {
        close(shared, number, &stream);
        door.lost(from);
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

#[cfg(test)]
mod tests {
    use std::sync::Condvar;

    use super::super::post::RELIEF;
    use super::super::question;
    use super::*;

    /// What a door has seen.
    #[derive(Clone, Copy, Default)]
    struct Seen {
        heard: usize,
        writes: usize,
        written: usize,
        lost: usize,
        /// The writes that the disk carries out.
        allowed: usize,
    }

    /// A door whose first message is to be written, on a disk that hangs.
    #[derive(Default)]
    struct Stuck {
        seen: Mutex<Seen>,
        changed: Condvar,
        /// So is every other message.
        writes_all: bool,
    }

    impl Stuck {
        fn note(&self, note: impl FnOnce(&mut Seen)) {
            note(&mut self.seen.lock().expect("nobody panics"));
            self.changed.notify_all();
        }

        fn until(&self, done: impl Fn(&Seen) -> bool) -> Seen {
            let seen = self.seen.lock().expect("nobody panics");
            *self.changed.wait_while(seen, |seen| !done(seen)).expect("nobody panics")
        }
    }

    impl Door for Stuck {
        fn hello(&self, _: &Hello, _: u32) -> Result<MemberId, Refusal> {
            Ok(1)
        }

        fn ask(&self, _: Ask) -> Result<Told, Refusal> {
            Err(Refusal::NotReady)
        }

        fn hear(
            &self,
            _: MemberId,
            messages: &mut Vec<PeerMessage>,
            _: usize,
        ) -> Option<Vec<LogWork>> {
            let is_first = self.seen.lock().expect("nobody panics").heard == 0;
            self.note(|seen| seen.heard += messages.len());
            messages.clear();
            Some(if is_first || self.writes_all {
                vec![LogWork::Close(super::super::log_writer::Closing::default())]
            } else {
                Vec::new()
            })
        }

        fn write(&self, _: Vec<LogWork>) {
            let mut number = 0;
            self.note(|seen| {
                seen.writes += 1;
                number = seen.writes;
            });
            self.until(|seen| seen.allowed >= number);
            self.note(|seen| seen.written += 1);
        }

        fn lost(&self, _: MemberId) {
            self.note(|seen| seen.lost += 1);
        }
    }

    fn say_something(stream: &mut TcpStream) {
        let mut bytes = Vec::new();
        encode_message(&PeerMessage::YouWereRemoved, &mut bytes);
        stream.write_all(&bytes).expect("the other side is there");
    }

    /// A server with this door, and the connection of a member.
    fn serve(door: &Arc<Stuck>) -> (Server, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let theirs: Arc<dyn Door> = Arc::clone(door) as Arc<dyn Door>;
        let server = Server::listen(listener, "n1", theirs).expect("it listens");
        let hello = Hello { member: 2, to: 1, ..Hello::default() };
        let address = server.address().to_string();
        let Ok((stream, _)) = question::greet(&address, &hello) else { panic!("not welcome") };
        (server, stream)
    }

    #[test]
    fn slow_disk_leaves_no_finished_threads_behind() {
        let door = Arc::new(Stuck { writes_all: true, ..Stuck::default() });
        let (server, mut stream) = serve(&door);
        let count = |wanted: fn(&JoinHandle<()>) -> bool| {
            let connections = server.shared.connections();
            let threads = connections.open.values().flat_map(|connection| &connection.threads);
            threads.filter(|thread| wanted(thread)).count()
        };
        for write in 1..=20 {
            say_something(&mut stream);
            door.until(|seen| seen.writes == write);
            server.relieve(edge::now() + RELIEF);
            door.note(|seen| seen.allowed = write);
            // The thread that has written ends: another one listens.
            while count(|thread| !thread.is_finished()) > 1 {
                std::thread::yield_now();
            }
        }
        server.relieve(edge::now());
        assert_eq!(count(|_| true), 1, "each handle keeps the stack of its thread");
    }

    #[test]
    fn a_disk_that_hangs_does_not_make_a_node_deaf() {
        let door = Arc::<Stuck>::default();
        let (mut server, mut stream) = serve(&door);
        say_something(&mut stream);
        door.until(|seen| seen.writes == 1);
        say_something(&mut stream);
        server.relieve(edge::now());
        assert_eq!(door.until(|_| true).heard, 1, "nobody is relieved too soon");
        server.relieve(edge::now() + RELIEF);
        door.until(|seen| seen.heard == 2);
        // Whoever was relieved does not listen any more, and ends nothing.
        door.note(|seen| seen.allowed = usize::MAX);
        door.until(|seen| seen.written == 1);
        say_something(&mut stream);
        door.until(|seen| seen.heard == 3);
        assert_eq!(door.until(|_| true).lost, 0);
        drop(stream);
        assert_eq!(door.until(|seen| seen.lost > 0).lost, 1);
        server.stop();
        assert_eq!(door.until(|_| true).lost, 1, "the end is told once");
    }
}
