//! A PostgreSQL of our own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fencepost_fence::POSTGRES_SQL;
use fencepost_testkit::skip;
use tokio_postgres::{Client, NoTls};

use super::{Server, User, find, start};

/// A fresh database with the rule in it; none if PostgreSQL is not installed.
pub(crate) fn postgres() -> Option<Server> {
    let folders = debian_folders();
    let (Some(initdb), Some(postgres)) = (find("initdb", &folders), find("postgres", &folders))
    else {
        skip("postgres is missing", "apt-get install postgresql");
        return None;
    };
    let folder = Arc::new(tempfile::tempdir().expect("there is room"));
    let user = User::unprivileged();
    let data = folder.path().join("data");
    let mut init = Command::new(initdb);
    // Nothing here has to survive this machine, so nothing is synced.
    init.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "-D"])
        .arg(&data)
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut serve = Command::new(postgres);
    serve
        .arg("-D")
        .arg(&data)
        .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=20"])
        .args(["-c", "logging_collector=off", "-c", "log_destination=stderr", "-k"])
        .arg(folder.path())
        .env("LC_ALL", "C")
        .current_dir(folder.path());
    if let Some(user) = user {
        user.own(folder.path());
        user.run(&mut init);
        user.run(&mut serve);
    }
    let status = init.status().expect("initdb was found");
    assert!(status.success(), "initdb failed with {status}");
    Some(start(&mut serve, folder, "ready to accept connections"))
}

/// Debian keeps the programs of each version in a folder of its own. The newest comes first.
fn debian_folders() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    folders
}

/// A connection.
pub(crate) async fn connect(server: &Server) -> Client {
    connect_as(server, "postgres").await
}

/// A connection of this user.
pub(crate) async fn connect_as(server: &Server, user: &str) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host_path(server.folder()).user(user).dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.expect("the server is ready");
    tokio::spawn(async move {
        // Ends with the client, or with the server.
        let _ = connection.await;
    });
    client
}

/// A connection to a database in which the rule is installed.
pub(crate) async fn install(server: &Server) -> Client {
    let client = connect(server).await;
    client.batch_execute(POSTGRES_SQL).await.expect("the file is SQL");
    client
}

/// The code and the words of an error of the database.
pub(crate) fn told(error: &tokio_postgres::Error) -> (String, String) {
    let error = error.as_db_error().expect("the database refuses");
    (error.code().code().to_owned(), error.message().to_owned())
}
