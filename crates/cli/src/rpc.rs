//! `fencepost rpc`: a client for JSON over TCP.
//!
//! Guarantees: a line is sent once, and an answer that does not come is called unknown unless the
//! request changes nothing. Refuses: what is no request, before anything is sent.

mod connection;
mod message;

use std::io::{self, BufRead, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use self::connection::Connection;
use self::message::Message;
use crate::common::{Common, block_on};
use crate::failure::Failure;
use crate::output;
use crate::words::plain;

/// Bytes in a line that is sent. The service takes no longer one.
const LINE_LEN_MAX: usize = 64 << 10;
const ADDRESS: &str = "127.0.0.1:9000";

/// Send JSON over TCP to a node that was started with --json-tcp, and print the answers
///
/// Each answer is one line of JSON. Without TYPE, messages are read from standard input, one on a
/// line: a JSON object as it is to be sent, or TYPE FIELD=VALUE... as here. The exit code is 1 if an
/// answer says that something was not done.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where the node speaks JSON over TCP [default: 127.0.0.1:9000]
    #[arg(long, env = "FENCEPOST_RPC_ADDRESS", hide_env_values = true, value_name = "HOST:PORT")]
    address: Option<String>,

    /// What is asked for: acquire_lock, renew_lock, release_lock, get_lock, get_leader,
    /// get_cluster_info, heartbeat or ping
    #[arg(value_name = "TYPE")]
    kind: Option<String>,

    /// Fields of the payload, such as key=jobs owner=me ttl=30s. FIELD:=VALUE takes VALUE as JSON
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
}

/// The connection, once there is one, and how long anything may take.
struct Caller {
    address: String,
    patience: Duration,
    connection: Option<Connection>,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let patience = common.endpoints.timeout(None, &common.endpoints.file()?)?.value;
    let address = args.address.as_deref().unwrap_or(ADDRESS);
    let address = address.strip_prefix("tcp://").unwrap_or(address).to_owned();
    let mut caller = Caller { address, patience, connection: None };
    let is_done = block_on(async {
        match &args.kind {
            Some(kind) => {
                let message = Message::of_fields(kind, &args.fields).map_err(|why| {
                    Failure::usage(
                        format!("cannot send the request {}", plain(kind)),
                        why,
                        "write fields as FIELD=VALUE, or as FIELD:=JSON",
                    )
                })?;
                Ok(caller.call(&message).await?)
            }
            None => caller.converse().await,
        }
    })?;
    Ok(if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Caller {
    /// Sends what stands on standard input, line by line. Says whether all of it was done.
    async fn converse(&mut self) -> anyhow::Result<bool> {
        // Nothing else runs on this thread, so it may wait for people.
        let mut input = io::stdin().lock();
        let mut is_all_done = true;
        for number in 1_u64.. {
            prompt()?;
            let Some(line) = next_line(&mut input)? else { break };
            let message = match line {
                Ok(line) if line.trim().is_empty() => continue,
                Ok(line) => Message::parse(line.trim()),
                Err(why) => Err(why),
            };
            match message {
                Ok(message) => is_all_done &= self.call(&message).await?,
                Err(why) => {
                    is_all_done = false;
                    // Standard error may be closed.
                    let _ = writeln!(io::stderr(), "line {number} was not sent: {why}");
                }
            }
        }
        Ok(is_all_done)
    }

    /// Sends one message and prints its answer. Says whether it was done.
    async fn call(&mut self, message: &Message) -> anyhow::Result<bool> {
        let mut connection = match self.connection.take() {
            // The node closes connections on which nothing is asked for ten minutes.
            Some(connection) if connection.is_open() => connection,
            _ => Connection::open(&self.address, self.patience).await.map_err(|why| {
                Failure::new(
                    format!("cannot reach {}", plain(&self.address)),
                    why,
                    "start a node with --json-tcp, and name its address with --address",
                )
            })?,
        };
        let patience = self.patience.saturating_add(message.wait());
        let answer = connection.call(message.line(), patience).await;
        let answer = answer.map_err(|why| self.unanswered(message, why))?;
        self.connection = Some(connection);
        output::line(&answer.to_string())?;
        Ok(answer["success"] == Value::Bool(true))
    }

    fn unanswered(&self, message: &Message, why: String) -> Failure {
        let kind = plain(message.kind());
        let address = plain(&self.address);
        match message.changes_nothing() {
            true => Failure::new(
                format!("cannot ask {address} for {kind}"),
                why,
                "try again, or ask another node",
            ),
            false => Failure::new(
                format!("it is not known whether this was done: {kind} at {address}"),
                why,
                "look with `fencepost rpc get_lock key=KEY` how it is; naming the token makes a \
                 repetition safe",
            ),
        }
    }
}

/// People see that they are asked.
fn prompt() -> io::Result<()> {
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        let mut out = io::stdout().lock();
        out.write_all(b"> ")?;
        out.flush()?;
    }
    Ok(())
}

/// The next line, or nothing at the end. One that cannot be sent says why.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<String, String>>> {
    let mut line = Vec::new();
    let limit = LINE_LEN_MAX as u64 + 1;
    if input.by_ref().take(limit).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    if line.len() > LINE_LEN_MAX && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
        return Ok(Some(Err(format!("it is longer than {LINE_LEN_MAX} bytes"))));
    }
    Ok(Some(String::from_utf8(line).map_err(|_| "it is not UTF-8".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_cannot_be_sent_is_passed_over() {
        let fits = "y".repeat(LINE_LEN_MAX);
        let mut text = format!("{}\n{fits}\n", "x".repeat(LINE_LEN_MAX + 1)).into_bytes();
        text.extend_from_slice(b"\xff\nlast");
        let mut input = text.as_slice();
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).expect("memory can be read") {
            lines.push(line.map(|line| line.trim().to_owned()));
        }
        let long = Err(format!("it is longer than {LINE_LEN_MAX} bytes"));
        let odd = Err("it is not UTF-8".to_owned());
        assert_eq!(lines, [long, Ok(fits), odd, Ok("last".to_owned())]);
    }
}
