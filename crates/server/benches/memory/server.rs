//! The server, in a process of its own.

use std::error::Error;
use std::io::{self, Write};
use std::process::Stdio;
use std::time::Duration;

use fencepost_node::shell::{Settings, start};
use fencepost_server::Server;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;

/// Tells a process that it is the server.
pub(crate) const ROLE: &str = "--as-server";

const PATIENCE: Duration = Duration::from_secs(60);

/// Serves until its standard input ends.
pub(crate) async fn serve() -> Result<(), Box<dyn Error>> {
    let folder = TempDir::new()?;
    let node = start(Settings::new(folder.path().join("data"), "n1"))?;
    let leads = node.handle().board().wait_until(PATIENCE, |status| status.role.leads);
    leads.map_err(|_| "it does not lead")?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = Server::start(node.handle(), listener).await?;
    writeln!(io::stdout(), "{}", server.address())?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// A server in a process of its own. It ends when this is dropped.
pub(crate) struct Child {
    process: tokio::process::Child,
    pub(crate) address: String,
}

impl Child {
    pub(crate) async fn start() -> Result<Child, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ROLE).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let said = process.stdout.take().ok_or("it cannot be heard")?;
        let mut address = String::new();
        BufReader::new(said).read_line(&mut address).await?;
        Ok(Child { process, address: address.trim().to_owned() })
    }

    /// The memory that it has, once that does not grow any more.
    pub(crate) async fn settled(&self) -> Result<u64, Box<dyn Error>> {
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        let (mut last, mut calm) = (0, 0);
        while calm < 4 {
            ticks.tick().await;
            let now = self.memory()?;
            calm = if now.abs_diff(last) < 64 << 10 { calm + 1 } else { 0 };
            last = now;
        }
        Ok(last)
    }

    fn memory(&self) -> Result<u64, Box<dyn Error>> {
        let id = self.process.id().ok_or("it has ended")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")).ok_or("it is not told")?;
        Ok(kib.trim().parse::<u64>()? << 10)
    }
}
