//! Sessions without HTTP/2: messages with their lengths on a plain connection.
//!
//! Owns: connections on the ordinary port that begin with the preface of `fencepost_proto::framing`.
//! What is said on them is exactly what is said on the gRPC stream, and means the same;
//! `docs/session.md` describes it. Guarantees: one task, one read and one write for everything that
//! comes or goes together; whoever reads too little is no longer listened to, and then cut off; the
//! last thing said before an end by the server is why. Refuses: whatever has another preface.

mod connection;
mod voice;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use fencepost_core::ClientId;
use fencepost_proto::framing::{self, CLIENT_PREFACE, Frames, SERVER_PREFACE};
use fencepost_proto::v1;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::booth::Booths;
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;
use crate::serve::Tuning;
use crate::session::Session;
use crate::socket;
use connection::{Connection, Ending};

/// Whether a connection that begins with this byte is one of these, as far as that can be told.
pub(crate) fn is_begun_by(first: u8) -> bool {
    CLIENT_PREFACE.first() == Some(&first)
}

/// What a connection has said first.
pub(crate) struct Greeting {
    /// What it has said behind its preface.
    frames: Frames,
    /// Whether the preface is ours.
    is_known: bool,
}

/// Waits until the preface is there, or something else in its place.
pub(crate) async fn greeted(stream: &mut TcpStream) -> io::Result<Greeting> {
    let mut frames = Frames::new(limits::MESSAGE_BYTES_MAX);
    loop {
        if let Some(is_known) = frames.begins_with(&CLIENT_PREFACE) {
            return Ok(Greeting { frames, is_known });
        }
        if stream.read_buf(frames.room()).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Serves a connection until one of both ends it.
pub(crate) async fn serve(
    house: Arc<House>,
    mut stream: TcpStream,
    peer: SocketAddr,
    greeting: Greeting,
    tuning: Tuning,
    booths: &Booths,
) -> io::Result<()> {
    socket::prepare(&stream);
    let Greeting { frames, is_known } = greeting;
    if !is_known {
        let mut said = SERVER_PREFACE.to_vec();
        framing::put(&farewell(Failure::from(Wrong::VersionUnsupported).into()), &mut said);
        stream.write_all(&said).await?;
        return linger(&mut stream).await;
    }
    // It is served on another thread from here on.
    let stream = stream.into_std()?;
    let serve = async move {
        let stream = TcpStream::from_std(stream)?;
        let session = Session::open(&house, ClientId::from(&*peer.to_string()), None);
        let mut connection = Connection::new(stream, frames, session, &house.unread, &tuning);
        match talk(&house, &mut connection).await? {
            Ending::Said => connection.linger().await,
            Ending::Gone => Ok(()),
        }
    };
    booths.host(serve).await
}

async fn talk(house: &House, connection: &mut Connection) -> io::Result<Ending> {
    let session = connection.session();
    tokio::select! {
        ending = connection.talk() => ending,
        () = session.idle(house.idle_patience) => {
            connection.finish(Wrong::Idle.into());
            tokio::time::timeout(limits::FAREWELL, connection.talk()).await?
        }
        () = house.closed() => {
            connection.finish(Wrong::ShuttingDown.into());
            tokio::time::timeout(limits::FAREWELL, connection.talk()).await?
        }
    }
}

/// The last message on a connection: why it ends.
fn farewell(failure: v1::Failure) -> v1::SessionResponse {
    v1::SessionResponse { failure: Some(failure), ..v1::SessionResponse::default() }
}

/// Ends a connection on which everything was said. What the client still sends is read for a little
/// while, because a connection that is closed before may take our last words with it.
async fn linger(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown().await?;
    hear_out(stream).await;
    Ok(())
}

/// Reads on for a little while, for nothing.
pub(crate) async fn hear_out(stream: &mut (impl AsyncRead + Unpin)) {
    let (mut unheard, mut nowhere) = (stream.take(limits::LINGER_BYTES_MAX), tokio::io::sink());
    let rest = tokio::io::copy(&mut unheard, &mut nowhere);
    // However it ends, nothing more is to be done.
    drop(tokio::time::timeout(limits::LINGER, rest).await);
}

/// What must hold for any bytes: cut into pieces of whatever size they give the same messages, each
/// of which is written and read again as it was, and the same end.
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let whole = read_in_pieces(bytes, bytes.len());
    let pieces = read_in_pieces(bytes, usize::from(*size));
    assert_eq!(whole, pieces);
    let mut again = Vec::new();
    for message in &whole.0 {
        framing::put(message, &mut again);
    }
    assert_eq!(read_in_pieces(&again, again.len()), (whole.0, None));
}

fn read_in_pieces(
    bytes: &[u8],
    size: usize,
) -> (Vec<v1::SessionRequest>, Option<framing::Unframed>) {
    let (mut frames, mut read) = (Frames::new(limits::MESSAGE_BYTES_MAX), Vec::new());
    for piece in bytes.chunks(size.max(1)) {
        frames.room().extend(piece);
        loop {
            match frames.message() {
                Ok(Some(message)) => read.push(message),
                Ok(None) => break,
                Err(why) => return (read, Some(why)),
            }
        }
        frames.rest();
    }
    (read, None)
}
