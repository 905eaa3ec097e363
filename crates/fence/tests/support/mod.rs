//! Real stores for the tests: found, started in a temporary folder, and stopped.
//!
//! They are reached through sockets in that folder, so two tests can never meet on one port.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod example;
pub(crate) mod http;
pub(crate) mod postgres;
pub(crate) mod redis;

use std::io::{BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::{env, fs, thread};

use tempfile::TempDir;

/// A server in a folder of its own. Both are gone when this is dropped.
pub(crate) struct Server {
    child: Child,
    folder: Arc<TempDir>,
}

impl Server {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it without a warning, as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program on the path or in one of the folders.
pub(crate) fn find(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    folders
        .iter()
        .cloned()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// Whom to run a server as: some refuse to run as the administrator.
#[derive(Clone, Copy)]
pub(crate) struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// Nobody else, unless this process belongs to the administrator.
    pub(crate) fn unprivileged() -> Option<User> {
        use std::os::unix::fs::MetadataExt as _;
        let own = fs::metadata("/proc/self").expect("this is Linux").uid();
        if own != 0 {
            return None;
        }
        let names = fs::read_to_string("/etc/passwd").expect("it can be read by everybody");
        ["postgres", "nobody"].iter().find_map(|name| {
            let line = names.lines().find(|line| line.split(':').next() == Some(name))?;
            let mut numbers = line.split(':').skip(2).map(str::parse);
            Some(User { uid: numbers.next()?.ok()?, gid: numbers.next()?.ok()? })
        })
    }

    pub(crate) fn own(self, path: &Path) {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid)).expect("we may do it");
    }

    pub(crate) fn run(self, command: &mut Command) {
        use std::os::unix::process::CommandExt as _;
        command.uid(self.uid).gid(self.gid);
    }
}

/// Starts a server and waits until a line of its output says that it is ready.
pub(crate) fn start(command: &mut Command, folder: Arc<TempDir>, ready: &str) -> Server {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was found");
    let stdout = child.stdout.take().expect("it is piped");
    let stderr = child.stderr.take().expect("it is piped");
    let server = Server { child, folder };
    let (tell, told) = std::sync::mpsc::sync_channel(1_024);
    for output in [Box::new(stdout) as Box<dyn Read + Send>, Box::new(stderr)] {
        let tell = tell.clone();
        // It reads to the end, so that the server never waits for a reader.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = tell.try_send(line);
            }
        });
    }
    drop(tell);
    let mut seen = Vec::new();
    while let Ok(line) = told.recv() {
        if line.contains(ready) {
            return server;
        }
        seen.push(line);
    }
    panic!("the server ended before it was ready:\n{}", seen.join("\n"));
}
