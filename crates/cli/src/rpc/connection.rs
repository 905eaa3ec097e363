//! A connection on which a node speaks JSON over TCP.
//!
//! Guarantees: an answer takes a bounded time and a bounded part of the memory.

use std::io;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Bytes in an answer: more than any that a node gives.
const ANSWER_LEN_MAX: u64 = 4 << 20;

pub(super) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub(super) async fn open(address: &str, patience: Duration) -> Result<Connection, String> {
        let stream = match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("it cannot be reached in time".to_owned()),
        };
        // A request is one small write, and nothing follows it.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Connection { stream: BufReader::new(stream) })
    }

    /// Whether the node has neither closed it nor sent what was not asked for.
    pub(super) fn is_open(&self) -> bool {
        let found = self.stream.get_ref().try_read(&mut [0]);
        let is_quiet = found.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
        is_quiet && self.stream.buffer().is_empty()
    }

    /// Sends a line and waits for the one that answers it. After a failure, the connection is of no
    /// use any more.
    pub(super) async fn call(&mut self, line: &str, patience: Duration) -> Result<Value, String> {
        let calling = async {
            self.stream.write_all(line.as_bytes()).await?;
            let mut answer = Vec::new();
            let mut limited = (&mut self.stream).take(ANSWER_LEN_MAX);
            limited.read_until(b'\n', &mut answer).await?;
            Ok::<_, io::Error>(answer)
        };
        let answer = match timeout(patience, calling).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("no answer came in time".to_owned()),
        };
        match answer.last() {
            Some(b'\n') => {}
            None => return Err("the connection was closed without an answer".to_owned()),
            Some(_) if answer.len() as u64 == ANSWER_LEN_MAX => {
                return Err(format!("the answer is longer than {ANSWER_LEN_MAX} bytes"));
            }
            Some(_) => return Err("the connection was closed within the answer".to_owned()),
        }
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| format!("the answer is no JSON: {error}"))?;
        match answer["success"].is_boolean() {
            true => Ok(answer),
            false => Err("the answer has no \"success\": this is no JSON over TCP".to_owned()),
        }
    }
}
