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

/// How much of the output waits to be shown, in pieces.
const PIECES_MAX: usize = 64;
const PIECE_BYTES: usize = 8 << 10;
/// How long a child that has ended may still be heard. A process that it has left behind may hold the
/// pipe for hours.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often is looked whether the child has ended.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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

    fn show(self, piece: &[u8]) -> anyhow::Result<()> {
        match self {
            Stream::Stdout => stdout().lock().write_all(piece)?,
            Stream::Stderr => stderr().lock().write_all(piece)?,
        }
        Ok(())
    }
}

/// Runs `cargo` with `args`, shows what it says, and hands back what it says on one stream.
pub(crate) fn cargo_heard(
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
    // A pipe is no terminal, but ours is one.
    if stream.is_terminal() && env::var_os("CARGO_TERM_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
    let heard = hear(&mut child, stream)?;
    let status = child.wait()?;
    ensure!(status.success(), "`{shown}` failed with {status}");
    Ok(String::from_utf8_lossy(&heard).into_owned())
}

/// Shows and keeps what a child says, until it has ended.
fn hear(child: &mut Child, stream: Stream) -> anyhow::Result<Vec<u8>> {
    let pieces = match stream {
        Stream::Stdout => child.stdout.take().map(pieces),
        Stream::Stderr => child.stderr.take().map(pieces),
    };
    let pieces = pieces.context("it is piped")?;
    let mut heard = Vec::new();
    let mut has_ended = false;
    loop {
        match pieces.recv_timeout(if has_ended { LAST_WORDS } else { LOOK_EVERY }) {
            Ok(piece) => {
                stream.show(&piece)?;
                heard.extend(piece);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(heard),
            Err(RecvTimeoutError::Timeout) if has_ended => return Ok(heard),
            Err(RecvTimeoutError::Timeout) => has_ended = child.try_wait()?.is_some(),
        }
    }
}

/// What comes out of a pipe, read on a thread of its own up to the end.
fn pieces(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(PIECES_MAX);
    thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(read @ 1..) = pipe.read(&mut piece) {
            if sender.send(piece[..read].to_vec()).is_err() {
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
    fn what_a_child_says_is_heard_to_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo a; echo b >&2; printf c"]).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("there is a shell");
        let heard = hear(&mut child, Stream::Stdout).expect("it is piped");
        assert!(child.wait().expect("it ends").success());
        assert_eq!(heard, b"a\nc");
    }

    #[test]
    fn a_process_that_is_left_behind_is_not_waited_for() {
        let mut command = Command::new("sh");
        // The one that is left behind holds the pipe until its own input ends.
        command.args(["-c", "exec 3<&0; cat <&3 & printf a"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("there is a shell");
        let heard = hear(&mut child, Stream::Stdout).expect("it is piped");
        assert_eq!(heard, b"a");
        drop(child.stdin.take());
    }

    #[test]
    fn a_missing_subcommand_is_a_no() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(!has_cargo(here, "no-such-subcommand-anywhere"));
    }
}
