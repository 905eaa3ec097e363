//! How a node is to be run.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::notice::Observer;
use crate::config::NodeConfig;
use crate::peer::Listed;

/// Where a node with an empty directory comes from. One that has an identity ignores it: what it is,
/// it is for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is a new cluster of its own.
    Alone,
    /// It forms a new cluster with others. Every one of them is given the same list.
    Founders(Vec<Listed>),
    /// It joins a cluster through one of these addresses.
    Join(Vec<String>),
}

/// How a node is to be run.
pub struct Settings {
    /// Where it keeps what it must not forget.
    pub data_dir: PathBuf,
    /// What people call it. One that has an identity keeps the name that it has there.
    pub name: String,
    /// Whether a directory of another name is refused: somebody has said whose it should be.
    pub name_must_match: bool,
    /// Where it listens for other members.
    pub peer_listen: SocketAddr,
    /// Where other members reach it, if that is not where it listens.
    pub peer_advertised: Option<String>,
    /// Where clients reach it.
    pub client: String,
    /// Where it comes from, if its directory is empty.
    pub origin: Origin,
    /// What may be tuned. Who it is and its seed are filled in.
    pub config: NodeConfig,
    /// How long a segment of the log is.
    pub segment_bytes: u64,
    /// How long to wait for others before giving up; for ever if nothing is said.
    pub patience: Option<Duration>,
    /// Who hears of everything from the beginning.
    pub observers: Vec<Box<dyn Observer>>,
}

impl Settings {
    /// Where others reach this node, if that was said: by itself, or on the list that a cluster is
    /// formed from.
    pub(super) fn advertised(&self) -> Option<String> {
        let listed = match &self.origin {
            Origin::Founders(list) => list.iter().find(|listed| listed.name == self.name),
            Origin::Alone | Origin::Join(_) => None,
        };
        self.peer_advertised.clone().or_else(|| listed.map(|listed| listed.peer.clone()))
    }

    /// The usual, for a node that is alone and reached only from this machine, at a port that the
    /// system chooses.
    #[must_use]
    pub fn new(data_dir: PathBuf, name: &str) -> Settings {
        Settings {
            data_dir,
            name: name.to_owned(),
            name_must_match: false,
            peer_listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            peer_advertised: None,
            client: String::new(),
            origin: Origin::Alone,
            config: NodeConfig::new(0),
            segment_bytes: crate::wal::WalConfig::SEGMENT_BYTES,
            patience: None,
            observers: Vec::new(),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Settings");
        shown.field("data_dir", &self.data_dir).field("name", &self.name);
        shown.field("peer_listen", &self.peer_listen).field("origin", &self.origin);
        shown.finish_non_exhaustive()
    }
}
