//! Replaces a file under a fence: `guard FILE`, with lines of `TOKEN CONTENTS` on standard input.
//!
//! Answers each line with `ok`, or with the reason why the file stays as it is.

use std::env;
use std::io::{self, BufRead as _, Write as _};

use fencepost_fence::{GuardedFile, Presented, Token};

fn main() -> io::Result<()> {
    let path = env::args().nth(1).ok_or_else(|| io::Error::other("usage: guard FILE"))?;
    let file = GuardedFile::new(path);
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (token, contents) = line.split_once(' ').unwrap_or((&line, ""));
        let outcome = match token.parse::<Token>() {
            Ok(token) => file
                .write(Presented::exclusive(token), contents.as_bytes())
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(()) => writeln!(io::stdout(), "ok")?,
            Err(reason) => writeln!(io::stdout(), "{reason}")?,
        }
    }
    Ok(())
}
