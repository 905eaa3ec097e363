//! As little of a client over HTTP/2 as a misbehaving one needs: it never reads.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The largest frame that every server takes.
const FRAME_BYTES_MAX: usize = 16 << 10;

pub(super) struct Client(TcpStream);

impl Client {
    /// Opens a connection, and says how much it is ready to take on each stream.
    pub(super) fn open(mut stream: TcpStream, window: Option<u32>) -> anyhow::Result<Client> {
        stream.write_all(PREFACE)?;
        let mut client = Client(stream);
        let mut settings = Vec::new();
        if let Some(window) = window {
            settings.extend(INITIAL_WINDOW_SIZE.to_be_bytes());
            settings.extend(window.to_be_bytes());
        }
        client.frame(SETTINGS, 0, 0, &settings)?;
        // The server says at once how much it takes. Before that, it takes very little.
        client.0.read_exact(&mut [0; 9])?;
        Ok(client)
    }

    /// Begins the call of this number.
    pub(super) fn begin(&mut self, number: u32, path: &str) -> anyhow::Result<()> {
        let headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "127.0.0.1"),
            (":path", path),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        let mut block = Vec::new();
        for (name, value) in headers {
            // A literal that is not indexed, with its name.
            block.push(0);
            for text in [name, value] {
                block.push(u8::try_from(text.len())?);
                block.extend(text.as_bytes());
            }
        }
        self.frame(HEADERS, END_HEADERS, id(number), &block)
    }

    /// Sends data of the call of this number.
    pub(super) fn send(&mut self, number: u32, data: &[u8], is_end: bool) -> anyhow::Result<()> {
        let mut pieces = data.chunks(FRAME_BYTES_MAX).peekable();
        while let Some(piece) = pieces.next() {
            let flags = if is_end && pieces.peek().is_none() { END_STREAM } else { 0 };
            self.frame(DATA, flags, id(number), piece)?;
        }
        Ok(())
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> anyhow::Result<()> {
        let length = u32::try_from(payload.len())?.to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([kind, flags]);
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        self.0.write_all(&bytes)?;
        Ok(())
    }
}

/// The number of a stream that a client opens.
fn id(number: u32) -> u32 {
    2 * number + 1
}

/// A message of gRPC that announces so many bytes, and brings so many of them.
pub(super) fn message(announced: u32, sent: usize) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(announced.to_be_bytes());
    bytes.resize(bytes.len() + sent, 7);
    bytes
}
