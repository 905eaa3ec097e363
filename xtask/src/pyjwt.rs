//! A signed token of a real server, verified by the JWT library of another language.
//!
//! The server, the command and the key set are ours; whether the token is good is decided by PyJWT.
//! It wants a package from PyPI. Where that cannot be had, it is skipped.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::python::environment;
use crate::server::Server;
use crate::steps::Outcome;

const PACKAGE: &str = "PyJWT[crypto]";
const SCRIPT: &str = include_str!("pyjwt.py");
const LOCK: &str = "demo";
/// What the command under the lock tells: its token, and the signed one.
const TELL: &str = r#"printf '%s %s' "$FENCEPOST_TOKEN" "$FENCEPOST_SIGNED_TOKEN""#;

pub(crate) fn run(root: &Path) -> anyhow::Result<Outcome> {
    let home = root.join("target/pyjwt");
    let python = match environment(&home, &[PACKAGE]) {
        Ok(python) => python,
        Err(why) => return Ok(Outcome::Skipped(format!("{why:#}"))),
    };
    let server = Server::start(root, &home, "127.0.0.1:0")?;
    let told = server.ask(&["lock", LOCK, "--", "sh", "-c", TELL])?;
    let (token, signed) = told.split_once(' ').context("the command was told both")?;
    ensure!(!signed.is_empty(), "the server has signed nothing");
    let status = server.ask(&["status", "-o", "json"])?;
    let jwks = format!("{}/.well-known/jwks.json", server.url);
    let mut check = Command::new(python);
    check.args(["-c", SCRIPT, &jwks, &status, LOCK, token]).stdin(Stdio::piped());
    let mut check = check.spawn().context("run the script")?;
    check.stdin.take().context("it is piped")?.write_all(signed.as_bytes())?;
    ensure!(check.wait()?.success(), "PyJWT does not agree");
    Ok(Outcome::Passed)
}
