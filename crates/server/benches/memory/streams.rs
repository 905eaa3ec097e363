//! Sessions that only exist, each on a connection of its own.
//!
//! The client's side is written by hand, frame by frame, so that ten thousand of them fit into one
//! process: it says what must be said, and answers pings.

use std::error::Error;
use std::io;

use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use prost::Message as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// An open session.
pub(crate) struct Stream {
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Stream {
    /// Ends it. An error, if it was not alive.
    pub(crate) async fn end(self) -> Result<(), Box<dyn Error>> {
        if self.stop.send(()).is_err() {
            self.task.await??;
            return Err("the session has ended by itself".into());
        }
        Ok(self.task.await??)
    }
}

/// Opens a session, and waits until it is welcome.
pub(crate) async fn open(address: &str) -> Result<Stream, Box<dyn Error>> {
    let mut socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let mut said = PREFACE.to_vec();
    put_frame(&mut said, SETTINGS, 0, 0, &[]);
    put_frame(&mut said, HEADERS, END_HEADERS, 1, &headers());
    let hello = v1::SessionHello {
        client_id: "idle".into(),
        version_min: 1,
        version_max: 1,
        ..Default::default()
    };
    let hello =
        v1::SessionRequest { request_id: 1, once: None, request: Some(Request::Hello(hello)) };
    let mut message = vec![0];
    message.extend(u32::try_from(hello.encoded_len())?.to_be_bytes());
    hello.encode(&mut message)?;
    put_frame(&mut said, DATA, 0, 1, &message);
    socket.write_all(&said).await?;
    while hear(&mut socket).await? != DATA {}
    let (stop, stopped) = oneshot::channel();
    Ok(Stream { stop, task: tokio::spawn(stay(socket, stopped)) })
}

/// Answers what must be answered until it is enough.
async fn stay(mut socket: TcpStream, mut stopped: oneshot::Receiver<()>) -> io::Result<()> {
    loop {
        tokio::select! {
            heard = hear(&mut socket) => heard?,
            // Half a frame does not matter any more.
            _ = &mut stopped => return Ok(()),
        };
    }
}

/// Takes one frame, and answers it if it wants that. Its kind.
async fn hear(socket: &mut TcpStream) -> io::Result<u8> {
    let mut head = [0; 9];
    socket.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, ..] = head;
    let mut body = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
    socket.read_exact(&mut body).await?;
    let mut answer = Vec::new();
    match kind {
        SETTINGS if flags & ACK == 0 => put_frame(&mut answer, SETTINGS, ACK, 0, &[]),
        PING if flags & ACK == 0 => put_frame(&mut answer, PING, ACK, 0, &body),
        _ => {}
    }
    socket.write_all(&answer).await?;
    Ok(kind)
}

fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, body: &[u8]) {
    let length = u32::try_from(body.len()).unwrap_or_default().to_be_bytes();
    out.extend(&length[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(body);
}

/// The headers of the call, each spelled out: nothing is compressed and nothing remembered.
fn headers() -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/fencepost.v1.LockService/Session"),
        (":authority", "localhost"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ] {
        block.push(0x10);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap_or_default());
            block.extend(text.as_bytes());
        }
    }
    block
}
