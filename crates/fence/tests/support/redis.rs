//! A Redis of our own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use fencepost_testkit::skip;
use redis::Connection;
use tempfile::TempDir;

use super::{Server, find, start};

/// An empty Redis; none if it is not installed.
pub(crate) fn redis() -> Option<Server> {
    let Some(program) = find("redis-server", &[]) else {
        skip("redis-server is missing", "apt-get install redis-server");
        return None;
    };
    Some(start_in(&program, Arc::new(tempfile::tempdir().expect("there is room"))))
}

/// The same Redis, after it was killed.
pub(crate) fn again(mut server: Server) -> Server {
    server.kill();
    start_in(&find("redis-server", &[]).expect("it was there before"), server.folder.clone())
}

fn start_in(program: &Path, folder: Arc<TempDir>) -> Server {
    let mut command = Command::new(program);
    command
        .args(["--port", "0", "--appendonly", "yes", "--appendfsync", "always", "--dir"])
        .arg(folder.path())
        .arg("--unixsocket")
        .arg(folder.path().join("socket"))
        .current_dir(folder.path());
    start(&mut command, folder, "ready to accept connections")
}

/// A connection.
pub(crate) fn connect(server: &Server) -> Connection {
    let address = format!("redis+unix://{}", server.folder().join("socket").display());
    let client = redis::Client::open(address).expect("this is an address");
    client.get_connection().expect("the server is ready")
}
