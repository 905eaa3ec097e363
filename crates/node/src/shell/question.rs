//! Opens a connection to another node: as a member that wants to talk, or to ask one question.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::peer::{
    Ask, FrameBuffer, Hello, PREAMBLE_BYTES, Preamble, Refusal, Told, VERSION_HIGHEST,
    VERSION_LOWEST, Welcome, kind,
};

/// How long to wait for a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
/// How long to wait for the other side to greet, and for a write to go out. A change of members
/// may take an election.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(15);
const GREETING_PATIENCE: Duration = Duration::from_secs(3);

/// Why nothing came of a connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    /// The other node cannot be reached.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It does not want to talk.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

impl Failed {
    /// Whether nobody listens there. That is how a process that has died looks, and one that is
    /// merely slow does not.
    pub(super) fn is_nobody_there(&self) -> bool {
        matches!(self, Failed::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused)
    }
}

/// Connects as a member. Also returns the version that both sides speak.
pub(super) fn greet(address: &str, hello: &Hello) -> Result<(TcpStream, u32), Failed> {
    let mut stream = connect(address, GREETING_PATIENCE)?;
    let mut out = Vec::new();
    Preamble::OURS.put(&mut out);
    hello.put(&mut out);
    stream.write_all(&out)?;
    let (kind, body) = answer(&mut stream)?;
    let welcome = (kind == kind::WELCOME).then(|| Welcome::read(&body)).flatten();
    let welcome = welcome.ok_or(Refusal::Malformed)?;
    let is_spoken = (VERSION_LOWEST..=VERSION_HIGHEST).contains(&welcome.version);
    if welcome.member != hello.to || !is_spoken {
        return Err(Refusal::Malformed.into());
    }
    // A write that cannot go out for so long is as good as a broken connection.
    stream.set_read_timeout(None)?;
    Ok((stream, welcome.version))
}

/// Asks one question.
pub(super) fn ask(address: &str, ask: &Ask) -> Result<Told, Failed> {
    let mut stream = connect(address, ANSWER_PATIENCE)?;
    let mut out = Vec::new();
    Preamble::OURS.put(&mut out);
    ask.put(&mut out);
    stream.write_all(&out)?;
    let (kind, body) = answer(&mut stream)?;
    let told = (kind == kind::TOLD).then(|| Told::read(&body)).flatten();
    Ok(told.ok_or(Refusal::Malformed)?)
}

/// How the failure begins to find the address of a host by its name.
pub(super) const UNRESOLVED: &str = "no address is known for ";

fn connect(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name leads to no address");
    let addresses = address.to_socket_addrs().map_err(|error| {
        let what = error.to_string();
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        io::Error::new(error.kind(), format!("{UNRESOLVED}{host}: {what}"))
    })?;
    for one in addresses {
        match TcpStream::connect_timeout(&one, CONNECT_PATIENCE) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(GREETING_PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The first frame of the other side, after its preamble. A refusal is an error.
fn answer(stream: &mut TcpStream) -> Result<(u8, Vec<u8>), Failed> {
    let mut buffer = FrameBuffer::default();
    let preamble = loop {
        match buffer.raw::<PREAMBLE_BYTES>() {
            Some(bytes) => break Preamble::read(&bytes).ok_or(Refusal::Malformed)?,
            None => fill(&mut buffer, stream)?,
        }
    };
    // Said in the other's words: what it speaks is what the operator wants to know.
    let Preamble { lowest, highest } = preamble;
    let agreed = Preamble::OURS.agree(preamble);
    agreed.map_err(|_| Refusal::Version { lowest, highest })?;
    let (kind, body) = loop {
        let frame = buffer.next_frame().map_err(|_| Refusal::Malformed)?;
        match frame {
            Some((kind, body)) => break (kind, body.to_vec()),
            None => fill(&mut buffer, stream)?,
        }
    };
    if kind == kind::REFUSED {
        return Err(Refusal::read(&body).unwrap_or(Refusal::Malformed).into());
    }
    Ok((kind, body))
}

/// Reads more, and takes the end of the stream for an error: more was promised.
pub(super) fn fill(buffer: &mut FrameBuffer, from: &mut impl Read) -> io::Result<()> {
    match buffer.fill(from)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
