//! A server for tools that are not part of the workspace.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context as _, ensure};

use crate::command::cargo;

/// A server that ends with this.
pub(crate) struct Server {
    child: Child,
    program: PathBuf,
    /// Where clients reach it, as a URL.
    pub(crate) url: String,
}

impl Server {
    /// Starts one on this address, with nothing in it. It is the program as the tests have built it,
    /// so that nothing is built twice.
    pub(crate) fn start(root: &Path, home: &Path, listen: &str) -> anyhow::Result<Server> {
        cargo(root, &["test", "--no-run", "--workspace", "--locked"])?;
        let data = home.join("data");
        // What an earlier run has left.
        fs::remove_dir_all(&data).ok();
        let program = target(root).join("debug/fencepost");
        let mut command = Command::new(&program);
        command.args(["serve", "--listen", listen, "--peer-listen", "127.0.0.1:0", "--data-dir"]);
        command.arg(data).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start the server")?;
        let told = child.stderr.take().context("it is piped")?;
        let mut lines = BufReader::new(told).lines().map_while(Result::ok);
        // The line that says where clients connect, and some words behind it.
        let url = lines.find_map(|line| {
            let mut words = line.split_whitespace();
            words.by_ref().next().filter(|&word| word == "clients")?;
            words.next().map(str::to_owned)
        });
        let mut server = Server { child, program, url: String::new() };
        server.url = url.context("the server has ended")?;
        // Whoever does not read what it says would stop it.
        thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    /// What a verb of the program says on standard output.
    pub(crate) fn ask(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.program);
        command.args(["--endpoints", &self.url]).args(arguments).stderr(Stdio::inherit());
        let output = command.output().with_context(|| format!("run {arguments:?}"))?;
        ensure!(output.status.success(), "{arguments:?} has failed");
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// Where cargo puts what it builds.
fn target(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |target| root.join(target))
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
