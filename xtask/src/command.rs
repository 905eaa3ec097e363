//! Calls to cargo.
//!
//! Guarantees: a child's output reaches the terminal unchanged, because people and machines read
//! the test runners' own closing lines.

use std::env;
use std::io::{IsTerminal as _, Read, Write as _, stderr, stdout};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};

/// Bound of the queue between the reader and the terminal.
const CHUNKS_MAX: usize = 64;
const CHUNK_BYTES: usize = 8 << 10;
/// How long the pipe of a child that has ended is read. A process that it left behind may hold the pipe
/// for hours.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// How often a silent child is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs `cargo` with `args` in `root`, and fails if it fails.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> anyhow::Result<()> {
    cargo_with(root, args, &[])
}

/// The same, with variables in its environment.
pub(crate) fn cargo_with(root: &Path, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<()> {
    let shown = format!("cargo {}", args.join(" "));
    eprintln!("    $ {shown}");
    let status = base(root)
        .args(args)
        .envs(env.iter().copied())
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(status.success(), "`{shown}` failed with {status}");
    Ok(())
}

/// The same, and hands back what it says on standard output.
pub(crate) fn cargo_output(root: &Path, args: &[&str]) -> anyhow::Result<String> {
    let shown = format!("cargo {}", args.join(" "));
    eprintln!("    $ {shown}");
    let mut command = base(root);
    command.args(args).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}` failed with {}", output.status);
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` says what is no text"))
}

/// Which output of a child is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn is_terminal(self) -> bool {
        match self {
            Stream::Stdout => stdout().is_terminal(),
            Stream::Stderr => stderr().is_terminal(),
        }
    }

    fn show(self, chunk: &[u8]) -> anyhow::Result<()> {
        match self {
            Stream::Stdout => stdout().lock().write_all(chunk)?,
            Stream::Stderr => stderr().lock().write_all(chunk)?,
        }
        Ok(())
    }
}

/// Runs `cargo` with `args`, forwards its output to the terminal, and returns what it wrote to one
/// stream.
pub(crate) fn cargo_captured(
    root: &Path,
    args: &[&str],
    env: &[(&str, &str)],
    stream: Stream,
) -> anyhow::Result<String> {
    let shown = format!("cargo {}", args.join(" "));
    eprintln!("    $ {shown}");
    let mut command = base(root);
    command.args(args).envs(env.iter().copied());
    match stream {
        Stream::Stdout => command.stdout(Stdio::piped()),
        Stream::Stderr => command.stderr(Stdio::piped()),
    };
    // The child sees a pipe, but its output ends on a terminal.
    if stream.is_terminal() && env::var_os("CARGO_TERM_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
    let output = capture(&mut child, stream)?;
    let status = child.wait()?;
    ensure!(status.success(), "`{shown}` failed with {status}");
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Forwards and keeps the output of a child until it ends.
fn capture(child: &mut Child, stream: Stream) -> anyhow::Result<Vec<u8>> {
    let chunks = match stream {
        Stream::Stdout => child.stdout.take().map(chunks),
        Stream::Stderr => child.stderr.take().map(chunks),
    };
    let chunks = chunks.context("it is piped")?;
    let mut output = Vec::new();
    let mut has_ended = false;
    loop {
        match chunks.recv_timeout(if has_ended { DRAIN_TIMEOUT } else { POLL_INTERVAL }) {
            Ok(chunk) => {
                stream.show(&chunk)?;
                output.extend(chunk);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(output),
            Err(RecvTimeoutError::Timeout) if has_ended => return Ok(output),
            Err(RecvTimeoutError::Timeout) => has_ended = child.try_wait()?.is_some(),
        }
    }
}

/// Reads a pipe to its end, on a thread of its own.
fn chunks(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(CHUNKS_MAX);
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(read @ 1..) = pipe.read(&mut chunk) {
            if sender.send(chunk[..read].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Whether `cargo <subcommand>` is installed. The answer only ever chooses between two ways of
/// working, so any trouble counts as a no.
pub(crate) fn has_cargo(root: &Path, subcommand: &str) -> bool {
    base(root)
        .args([subcommand, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The cargo that started us, so that every step uses the same toolchain.
fn base(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_child_is_captured_to_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo a; echo b >&2; printf c"]).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("there is a shell");
        let output = capture(&mut child, Stream::Stdout).expect("it is piped");
        assert!(child.wait().expect("it ends").success());
        assert_eq!(output, b"a\nc");
    }

    #[test]
    fn a_process_that_holds_the_pipe_is_not_waited_for() {
        let mut command = Command::new("sh");
        // The one that is left behind holds the pipe until its own input ends.
        command.args(["-c", "exec 3<&0; cat <&3 & printf a"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("there is a shell");
        let output = capture(&mut child, Stream::Stdout).expect("it is piped");
        assert_eq!(output, b"a");
        drop(child.stdin.take());
    }

    #[test]
    fn a_missing_subcommand_is_a_no() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!has_cargo(here, "no-such-subcommand-anywhere"));
    }
}
