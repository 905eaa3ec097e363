//! Sessions without HTTP/2 that only exist, each on a connection of its own.

use std::error::Error;

use fencepost_proto::framing::{self, CLIENT_PREFACE, Frames, SERVER_PREFACE};
use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ANSWER_BYTES_MAX: usize = 1 << 20;

/// An open session.
pub(crate) struct Session {
    socket: TcpStream,
    frames: Frames,
}

impl Session {
    /// Opens a session, and waits until it is welcome.
    pub(crate) async fn open(address: &str) -> Result<Session, Box<dyn Error>> {
        let mut socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        socket.write_all(&CLIENT_PREFACE).await?;
        let mut session = Session { socket, frames: Frames::new(ANSWER_BYTES_MAX) };
        let hello = v1::SessionHello {
            client_id: "idle".into(),
            version_min: 1,
            version_max: 1,
            ..Default::default()
        };
        session.say(Request::Hello(hello)).await?;
        while session.frames.begins_with(&SERVER_PREFACE).is_none() {
            session.read().await?;
        }
        session.hear().await?;
        session.ping().await?;
        Ok(session)
    }

    /// An error, if it is not alive.
    pub(crate) async fn ping(&mut self) -> Result<(), Box<dyn Error>> {
        self.say(Request::Ping(v1::Ping {})).await?;
        self.hear().await
    }

    async fn say(&mut self, request: Request) -> Result<(), Box<dyn Error>> {
        let mut frame = Vec::new();
        let request = v1::SessionRequest { request_id: 1, once: None, request: Some(request) };
        framing::put(&request, &mut frame);
        Ok(self.socket.write_all(&frame).await?)
    }

    async fn hear(&mut self) -> Result<(), Box<dyn Error>> {
        loop {
            if let Some(answer) = self.frames.message::<v1::SessionResponse>()? {
                return match answer.failure {
                    None => Ok(()),
                    Some(failure) => Err(failure.message.into()),
                };
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> Result<(), Box<dyn Error>> {
        match self.socket.read_buf(self.frames.room()).await? {
            0 => Err("the session has ended by itself".into()),
            _ => Ok(()),
        }
    }
}
