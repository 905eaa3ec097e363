//! Redis, in memory or with every write synced.

use std::path::Path;

use tokio::process::Command;

use super::{Recipe, free_port, program};

pub(super) fn recipes(with_log: bool, data: &Path) -> anyhow::Result<Vec<Recipe>> {
    let client = free_port()?;
    let mut command = Command::new(program("redis-server")?);
    command.args(["--bind", "127.0.0.1", "--port", &client.port().to_string()]);
    command.args(["--save", "", "--daemonize", "no", "--loglevel", "warning"]);
    command.arg("--dir").arg(data);
    if with_log {
        command.args(["--appendonly", "yes", "--appendfsync", "always"]);
    } else {
        command.args(["--appendonly", "no"]);
    }
    Ok(vec![Recipe { command, client }])
}
