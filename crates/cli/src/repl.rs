//! `fencepost repl`: lock commands as text, line by line.

use std::io::{self, BufRead, IsTerminal as _, Read as _, Write as _};
use std::process::ExitCode;

use fencepost_client::Client;
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::output;

/// The longest line that is sent. The service takes no longer one.
const LINE_BYTES_MAX: u64 = 4 << 10;

const HELP: &str = "\
ACQUIRE:<lock>:<client>:<ttl in ms>  take a lock, or hold it for longer
HEARTBEAT:<lock>:<client>            hold it for as long again
RELEASE:<lock>:<client>              give it back
help                                 this text
quit                                 end, as the end of the input does
A colon in a name is written as %3A, a percent sign as %25. Results: Acquired, Renewed, Released,
Denied(why), NotFound, Error(why); with -o json also the fencing token.";

/// The founding demonstration: what is said, and by which name its result is shown.
const DEMO: [(&str, &str); 6] = [
    ("Acquire", "ACQUIRE:db-migration:client-1:30000"),
    ("Client-2 attempt", "ACQUIRE:db-migration:client-2:30000"),
    ("Heartbeat", "HEARTBEAT:db-migration:client-1"),
    ("Release", "RELEASE:db-migration:client-1"),
    ("Client-2 retry", "ACQUIRE:db-migration:client-2:30000"),
    ("Client-2 release", "RELEASE:db-migration:client-2"),
];

/// Type lock commands, one on a line
///
/// ACQUIRE:<lock>:<client>:<ttl in ms>, HEARTBEAT:<lock>:<client>, RELEASE:<lock>:<client>, and help.
/// Reads standard input until it ends, so that it can be typed or piped. Locks by owner name are
/// weaker than those of `fencepost lock`: whoever knows the name can renew and release.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run a short demonstration with two clients instead
    #[arg(long)]
    demo: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    command: &'a str,
    result: String,
    key: Option<String>,
    fencing_token: Option<i64>,
    remaining_ms: Option<i64>,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect("repl").await?;
        if args.demo {
            for (name, line) in DEMO {
                let document = done(&client, line).await;
                let text = format!("{name}: {}", document.result);
                common.output().either(&document, &text)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let mut input = io::stdin().lock();
        loop {
            prompt()?;
            // The client has a thread of its own, so this one may wait for people.
            let Some(line) = next_line(&mut input)? else { break };
            match line.trim() {
                "" => {}
                "help" => output::line(HELP)?,
                "quit" | "exit" => break,
                line => {
                    let document = done(&client, line).await;
                    common.output().either(&document, &document.result)?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Has a command done. What goes wrong on the way is a result as well, and the next line is read.
async fn done<'a>(client: &Client, line: &'a str) -> Document<'a> {
    let nothing = |result| Document {
        command: line,
        result,
        key: None,
        fencing_token: None,
        remaining_ms: None,
    };
    match client.text_command(line).await {
        Ok(told) if told.key.is_empty() => nothing(told.result),
        Ok(told) => Document {
            command: line,
            result: told.result,
            key: Some(told.key),
            fencing_token: Some(told.fencing_token),
            remaining_ms: Some(told.remaining_ms),
        },
        Err(error) => nothing(format!("Error({error})")),
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

/// The next line, or nothing at the end. Of one that is too long the beginning is taken, which is
/// enough to say what is wrong with it.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let is_cut = line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n');
    if is_cut {
        input.skip_until(b'\n')?;
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_cut_and_the_next_one_is_whole() {
        let text = format!("{}\nnext\nlast", "x".repeat(10_000));
        let mut input = text.as_bytes();
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).expect("memory can be read") {
            lines.push(line);
        }
        assert_eq!(lines[0].len() as u64, LINE_BYTES_MAX);
        assert_eq!(lines[1..], ["next\n", "last"]);
    }
}
