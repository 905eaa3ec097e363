//! What the tests of the shell share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fencepost_core::codec::encode_command;
use fencepost_core::command::Put;
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::{Action, Command, Key, Outcome, Value};
use fencepost_node::config::NodeConfig;
use fencepost_node::io::{Answer, Class, ProposeError};
use fencepost_node::machine::Machine;
use fencepost_node::shell::cluster::Cluster;
use fencepost_node::shell::{Freshness, Handle, Origin, RunningNode, Settings, Status, start};
use tempfile::TempDir;

/// Longer than anything here takes on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a directory for each of so many nodes.
pub(crate) fn folder(nodes: usize) -> (TempDir, Vec<PathBuf>) {
    let folder = TempDir::new().expect("there is room for a folder");
    let dirs = (1..=nodes).map(|number| folder.path().join(format!("n{number}"))).collect();
    (folder, dirs)
}

/// A cluster of so many nodes, with a leader.
pub(crate) fn cluster(nodes: usize) -> (TempDir, Vec<PathBuf>, Cluster) {
    let (folder, dirs) = folder(nodes);
    let cluster = Cluster::start(&dirs, &NodeConfig::new(0)).expect("the directories are new");
    cluster.leader(PATIENCE).expect("a leader is elected");
    (folder, dirs, cluster)
}

pub(crate) fn put(key: &str, value: &str) -> Vec<u8> {
    let (key, value) = (Key::from(key), Value::from(value));
    encoded(Action::Put(Put { key, value, ..Put::default() }))
}

pub(crate) fn encoded(action: Action) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_command(&Command::from(action), &mut bytes);
    bytes
}

/// Puts a key through a node. What certainly was not done for want of a leader is tried again.
pub(crate) fn write(handle: &Handle, key: &str) -> Outcome {
    answered(|| handle.propose_and_wait(Class::Ordinary, put(key, "v")))
        .expect("it is done")
        .outcome
}

/// Asks until somebody leads. Repeating a put does no harm, so an unknown outcome is repeated too.
pub(crate) fn answered(mut ask: impl FnMut() -> Answer) -> Answer {
    loop {
        match ask() {
            Err(ProposeError::NoLeader | ProposeError::Indeterminate) => std::thread::yield_now(),
            answer => return answer,
        }
    }
}

/// Whether a key is there, as it is now.
pub(crate) fn has(handle: &Handle, key: &str, freshness: Freshness) -> Result<bool, ProposeError> {
    let query = RangeQuery::from(KeyRange::One(Key::from(key)));
    handle.read_and_wait(freshness, move |machine: &Machine| {
        !machine.state().range(&query).kvs.is_empty()
    })
}

/// Waits until a node is as wanted.
pub(crate) fn until(node: &RunningNode, wanted: impl FnMut(&Status) -> bool) -> Status {
    let waited = node.handle().board().wait_until(PATIENCE, wanted);
    waited.unwrap_or_else(|status| panic!("it has not come to that: {status:?}"))
}

/// A node that joins through another.
pub(crate) fn join(dir: &Path, name: &str, through: &RunningNode) -> RunningNode {
    let seed = through.handle().status().peer;
    let origin = Origin::Join(vec![seed]);
    let settings =
        Settings { origin, patience: Some(PATIENCE), ..Settings::new(dir.to_owned(), name) };
    start(settings).expect("it is let in")
}

/// Waits until somebody votes in the eyes of a node.
pub(crate) fn until_votes(eyes: &RunningNode, id: u64) {
    until(eyes, |status| status.members.voters().contains(&id));
}
