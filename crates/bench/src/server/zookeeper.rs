//! ZooKeeper, with its defaults, as Debian packages it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::ensure;
use tokio::process::Command;

use super::{Recipe, free_ports, program};

/// Names all other parts by itself.
pub(super) const JAR: &str = "/usr/share/java/zookeeper.jar";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

/// An error says what is missing.
pub(super) fn is_there() -> anyhow::Result<()> {
    ensure!(Path::new(JAR).is_file(), "ZooKeeper is not installed: {JAR} is missing");
    program("java").map(drop)
}

pub(super) fn recipes(nodes: usize, data: &Path) -> anyhow::Result<Vec<Recipe>> {
    is_there()?;
    let ports = free_ports(nodes * 3)?;
    let (clients, rest) = ports.split_at(nodes);
    let (peers, elections) = rest.split_at(nodes);
    let mut members = String::new();
    if nodes > 1 {
        for (at, (peer, election)) in peers.iter().zip(elections).enumerate() {
            let (peer, election) = (peer.port(), election.port());
            writeln!(members, "server.{}=127.0.0.1:{peer}:{election}", at + 1)?;
        }
    }
    let mut recipes = Vec::new();
    for (at, client) in clients.iter().enumerate() {
        let home = data.join(format!("n{at}"));
        fs::create_dir_all(&home)?;
        fs::write(home.join("myid"), (at + 1).to_string())?;
        let config = home.join("zoo.cfg");
        let text = format!(
            "tickTime=2000\ninitLimit=10\nsyncLimit=5\nmaxClientCnxns=0\n\
             admin.enableServer=false\ndataDir={}\nclientPortAddress=127.0.0.1\n\
             clientPort={}\n{members}",
            home.display(),
            client.port()
        );
        fs::write(&config, text)?;
        let mut command = Command::new(program("java")?);
        command.args(["-Xmx1000m", "-cp", JAR, MAIN]).arg(config);
        recipes.push(Recipe { command, client: *client });
    }
    Ok(recipes)
}

/// From the name under which the package keeps the file beside the one without a version.
pub(super) fn version() -> Option<String> {
    let versions = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("zookeeper-")?.strip_suffix(".jar")?;
        version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
    };
    let folder = fs::read_dir(Path::new(JAR).parent()?).ok()?;
    folder.flatten().find_map(versions)
}
