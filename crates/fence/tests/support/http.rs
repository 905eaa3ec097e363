//! As much of HTTP as a test needs to see what really comes over the wire.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

/// A connection that is used for several requests.
pub(crate) struct Caller {
    address: SocketAddr,
    from: BufReader<TcpStream>,
}

impl Caller {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Caller> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Caller { address, from: BufReader::new(stream) })
    }

    /// Asks, and gives the status and the body of the answer.
    pub(crate) fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<(u16, String)> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        self.send((head + body).as_bytes())?;
        self.answer()
    }

    pub(crate) fn post(&mut self, path: &str, body: &str) -> io::Result<(u16, String)> {
        self.call("POST", path, &[], body)
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<(u16, String)> {
        self.call("GET", path, &[], "")
    }

    /// Sends any bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.from.get_mut().write_all(bytes)
    }

    /// Reads one answer.
    pub(crate) fn answer(&mut self) -> io::Result<(u16, String)> {
        let bad = || io::Error::other("this is no answer");
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(bad)?;
        let mut length = 0;
        loop {
            line.clear();
            if self.from.read_line(&mut line)? == 0 {
                return Err(bad());
            }
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().map_err(|_| bad())?;
            }
        }
        let mut body = vec![0; length];
        self.from.read_exact(&mut body)?;
        Ok((status, String::from_utf8(body).map_err(|_| bad())?))
    }
}
