//! The model's other door: sessions without HTTP/2.

use std::io;

use fencepost_proto::framing::{self, CLIENT_PREFACE, Frames, SERVER_PREFACE};
use fencepost_proto::v1::{SessionRequest, SessionResponse};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tonic::Status;

const MESSAGE_BYTES_MAX: usize = 3 << 19;

/// Whether a connection begins like one of these.
pub(super) async fn is_begun(stream: &TcpStream) -> bool {
    let mut first = [0];
    stream.peek(&mut first).await.is_ok_and(|_| first[0] == CLIENT_PREFACE[0])
}

/// Talks until one of both ends it.
pub(super) async fn talk(
    mut stream: TcpStream,
    mut answers: mpsc::Receiver<Result<SessionResponse, Status>>,
    mut hear: impl FnMut(SessionRequest),
) -> io::Result<()> {
    let mut frames = Frames::new(MESSAGE_BYTES_MAX);
    while frames.begins_with(&CLIENT_PREFACE).is_none() {
        read(&mut stream, &mut frames).await?;
    }
    stream.write_all(&SERVER_PREFACE).await?;
    loop {
        while let Some(frame) = frames.message().map_err(io::Error::other)? {
            hear(frame);
        }
        tokio::select! {
            read = read(&mut stream, &mut frames) => read?,
            answer = answers.recv() => {
                let Some(Ok(answer)) = answer else { return stream.shutdown().await };
                let mut bytes = Vec::new();
                framing::put(&answer, &mut bytes);
                stream.write_all(&bytes).await?;
            }
        }
    }
}

async fn read(stream: &mut TcpStream, frames: &mut Frames) -> io::Result<()> {
    match stream.read_buf(frames.room()).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
