//! ZooKeeper's own protocol, as far as the recipe for locks needs it.
//!
//! One connection is one session. Requests are answered in order, so there is no reader beside the
//! caller: that is the leanest client there can be, and to ZooKeeper's advantage.

use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest session that the default `tickTime` allows, and the shortest.
const SESSION_MS: i32 = 40_000;
pub const SESSION_MS_MIN: i32 = 4_000;
/// The largest answer that is read.
const FRAME_BYTES_MAX: usize = 32 << 20;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_CHILDREN: i32 = 8;
const PING: i32 = 11;
const PING_XID: i32 = -2;
const EVENT_XID: i32 = -1;

const PERSISTENT: i32 = 0;
const EPHEMERAL: i32 = 1;
const EPHEMERAL_SEQUENTIAL: i32 = 3;
const ALL_RIGHTS: i32 = 31;

const OK: i32 = 0;
const NO_NODE: i32 = -101;
const NODE_EXISTS: i32 = -110;

/// One session.
pub struct ZookeeperLean {
    socket: TcpStream,
    buffer: BytesMut,
    xid: i32,
    /// Events of watches that were not waited for yet.
    events: Vec<String>,
    held: String,
}

impl ZookeeperLean {
    pub async fn open(address: SocketAddr) -> anyhow::Result<ZookeeperLean> {
        ZookeeperLean::with_session(address, SESSION_MS).await
    }

    /// With a session that lasts for so long without a word.
    pub async fn with_session(address: SocketAddr, ms: i32) -> anyhow::Result<ZookeeperLean> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let buffer = BytesMut::with_capacity(256);
        let mut client =
            ZookeeperLean { socket, buffer, xid: 0, events: Vec::new(), held: String::new() };
        let mut hello = BytesMut::new();
        hello.put_i32(0);
        hello.put_i64(0);
        hello.put_i32(ms);
        hello.put_i64(0);
        hello.put_i32(16);
        hello.put_slice(&[0; 16]);
        hello.put_u8(0);
        client.send(&hello).await?;
        let mut welcome = client.frame().await?;
        ensure!(welcome.len() >= 16, "a short welcome");
        let _version = welcome.get_i32();
        ensure!(welcome.get_i32() > 0, "no session");
        Ok(client)
    }

    async fn send(&mut self, body: &[u8]) -> anyhow::Result<()> {
        let mut frame = BytesMut::with_capacity(body.len() + 4);
        frame.put_i32(i32::try_from(body.len())?);
        frame.put_slice(body);
        Ok(self.socket.write_all(&frame).await?)
    }

    /// The next frame, whatever it is.
    async fn frame(&mut self) -> anyhow::Result<BytesMut> {
        loop {
            if let Some(head) = self.buffer.first_chunk::<4>() {
                let length = usize::try_from(i32::from_be_bytes(*head))?;
                ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
                if self.buffer.len() >= length + 4 {
                    self.buffer.advance(4);
                    return Ok(self.buffer.split_to(length));
                }
            }
            ensure!(self.socket.read_buf(&mut self.buffer).await? > 0, "the connection has ended");
        }
    }

    /// The answer to a request, and its error. Events that come before it are kept.
    async fn answer(&mut self, xid: i32) -> anyhow::Result<(i32, BytesMut)> {
        loop {
            let mut frame = self.frame().await?;
            ensure!(frame.len() >= 16, "a short answer");
            let (got, _zxid, error) = (frame.get_i32(), frame.get_i64(), frame.get_i32());
            if got == EVENT_XID {
                let (_kind, _state) = (frame.get_i32(), frame.get_i32());
                self.events.push(text(&mut frame)?);
            } else if got == xid {
                return Ok((error, frame));
            }
        }
    }

    async fn ask(&mut self, kind: i32, body: &[u8]) -> anyhow::Result<(i32, BytesMut)> {
        self.xid = self.xid.wrapping_add(1) & i32::MAX;
        let mut request = BytesMut::with_capacity(body.len() + 8);
        request.put_i32(self.xid);
        request.put_i32(kind);
        request.put_slice(body);
        self.send(&request).await?;
        self.answer(self.xid).await
    }

    /// Keeps the session: what a renewal is elsewhere.
    pub async fn ping(&mut self) -> anyhow::Result<()> {
        let mut request = BytesMut::with_capacity(8);
        request.put_i32(PING_XID);
        request.put_i32(PING);
        self.send(&request).await?;
        self.answer(PING_XID).await?;
        Ok(())
    }

    async fn create(&mut self, path: &str, flags: i32) -> anyhow::Result<Option<String>> {
        let mut body = BytesMut::new();
        put_text(&mut body, path)?;
        body.put_i32(0);
        body.put_i32(1);
        body.put_i32(ALL_RIGHTS);
        put_text(&mut body, "world")?;
        put_text(&mut body, "anyone")?;
        body.put_i32(flags);
        match self.ask(CREATE, &body).await? {
            (OK, mut answer) => Ok(Some(text(&mut answer)?)),
            (NODE_EXISTS, _) => Ok(None),
            (error, _) => bail!("cannot create {path}: error {error}"),
        }
    }

    /// Makes a node that stays, if it is not there.
    pub async fn make(&mut self, path: &str) -> anyhow::Result<()> {
        self.create(path, PERSISTENT).await.map(|_| ())
    }

    /// Makes a node that goes with the session.
    pub async fn make_ephemeral(&mut self, path: &str) -> anyhow::Result<()> {
        self.create(path, EPHEMERAL).await.map(|_| ())
    }

    async fn delete(&mut self, path: &str) -> anyhow::Result<()> {
        let mut body = BytesMut::new();
        put_text(&mut body, path)?;
        body.put_i32(-1);
        match self.ask(DELETE, &body).await? {
            (OK, _) => Ok(()),
            (error, _) => bail!("cannot delete {path}: error {error}"),
        }
    }

    async fn children(&mut self, path: &str) -> anyhow::Result<Vec<String>> {
        let mut body = BytesMut::new();
        put_text(&mut body, path)?;
        body.put_u8(0);
        let (error, mut answer) = self.ask(GET_CHILDREN, &body).await?;
        ensure!(error == OK, "cannot list {path}: error {error}");
        let count = if answer.len() < 4 { 0 } else { answer.get_i32() };
        (0..count).map(|_| text(&mut answer)).collect()
    }

    /// Whether it is there. If it is, an event will tell when it goes.
    async fn watch(&mut self, path: &str) -> anyhow::Result<bool> {
        let mut body = BytesMut::new();
        put_text(&mut body, path)?;
        body.put_u8(1);
        match self.ask(EXISTS, &body).await? {
            (OK, _) => Ok(true),
            (NO_NODE, _) => Ok(false),
            (error, _) => bail!("cannot look at {path}: error {error}"),
        }
    }

    async fn event(&mut self, path: &str) -> anyhow::Result<()> {
        loop {
            if let Some(at) = self.events.iter().position(|event| event == path) {
                self.events.swap_remove(at);
                return Ok(());
            }
            let mut frame = self.frame().await?;
            ensure!(frame.len() >= 24, "a short event");
            if frame.get_i32() == EVENT_XID {
                frame.advance(12 + 8);
                self.events.push(text(&mut frame)?);
            }
        }
    }

    /// The recipe: a node at the end of the queue; whoever is first has the lock, and everybody else
    /// watches the one before.
    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        let mine = self.create(&format!("{name}/l-"), EPHEMERAL_SEQUENTIAL).await?;
        let mine = mine.context("a sequential node is always new")?;
        let own = mine.rsplit('/').next().unwrap_or_default().to_owned();
        self.held = mine;
        loop {
            let children = self.children(name).await?;
            let Some(before) = children.iter().filter(|child| **child < own).max() else {
                return Ok(());
            };
            let before = format!("{name}/{before}");
            if self.watch(&before).await? {
                self.event(&before).await?;
            }
        }
    }

    pub async fn release(&mut self) -> anyhow::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.delete(&held).await
    }
}

fn put_text(out: &mut BytesMut, text: &str) -> anyhow::Result<()> {
    out.put_i32(i32::try_from(text.len())?);
    out.put_slice(text.as_bytes());
    Ok(())
}

fn text(from: &mut BytesMut) -> anyhow::Result<String> {
    ensure!(from.len() >= 4, "a short text");
    let length = usize::try_from(from.get_i32())?;
    ensure!(from.len() >= length, "a text that ends too early");
    Ok(String::from_utf8(from.split_to(length).to_vec())?)
}
