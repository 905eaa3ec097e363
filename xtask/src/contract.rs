//! The description of the HTTP door, held against the door: thousands of requests that follow from
//! it, and requests that break it. No answer may be a failure of the server, and none may be other
//! than described.
//!
//! The tool comes from PyPI. Where that cannot be reached, it is skipped.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::python::environment;
use crate::server::Server;
use crate::steps::Outcome;

/// The versions that this was written for.
const PACKAGES: [&str; 2] = ["schemathesis==4.32.5", "hypothesis==6.170.15"];
/// What an answer is held against. That every request which fits the description succeeds is not
/// demanded: a random lease does not exist, and a lock may be held.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,unsupported_method,allow_header_conformance";
/// How many requests are drawn for each path, beside those that are derived from its description.
const EXAMPLES: &str = "30";
/// Longer than any answer takes.
const PATIENCE_SECONDS: &str = "30";
/// Nobody releases what is waited for, so the waits that are drawn are made short.
const HOOKS: &str = r#"
import schemathesis

WAIT_MS_MAX = 2_592_000_000

@schemathesis.hook
def before_call(context, case, kwargs):
    body = case.body
    if isinstance(body, dict):
        wait = body.get("wait_ms")
        if isinstance(wait, int) and not isinstance(wait, bool) and 5 < wait <= WAIT_MS_MAX:
            body["wait_ms"] = 5
"#;

pub(crate) fn run(root: &Path) -> anyhow::Result<Outcome> {
    let home = root.join("target/contract");
    let python = match environment(&home, &PACKAGES) {
        Ok(python) => python,
        Err(why) => return Ok(Outcome::Skipped(format!("{why:#}"))),
    };
    fs::write(home.join("hooks.py"), HOOKS)?;
    let server = Server::start(root, &home, "127.0.0.1:0")?;
    let mut tool = Command::new(python);
    tool.current_dir(&home).args(["-m", "schemathesis.cli", "run"]);
    tool.arg(format!("{}/v1/openapi.json", server.url));
    // A watch never ends; the tests of the server look at it.
    tool.args(["--exclude-path", "/v1/watch", "--checks", CHECKS]);
    // One worker: the tool reads its own sources while it draws, and threads get in each other's way.
    tool.args(["--phases", "examples,coverage,fuzzing", "--workers", "1", "--warnings", "off"]);
    tool.args(["--max-examples", EXAMPLES, "--seed", "1", "--generation-database", "none"]);
    tool.args(["--request-timeout", PATIENCE_SECONDS, "--suppress-health-check", "all"]);
    tool.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", &home);
    let status = tool.status().context("run the tool")?;
    drop(server);
    ensure!(status.success(), "the HTTP door is not what its description says");
    Ok(Outcome::Passed)
}
