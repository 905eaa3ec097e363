//! The public keys, as this member last saw them in the state.

use std::collections::BTreeMap;

use fencepost_core::signing::{KeyStage, SigningKey};
use fencepost_core::{LogTime, Millis, NodeId, PublicKey, State};
use fencepost_fence::signed;

/// The public keys of all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Which version of them this is.
    pub(crate) changes: u64,
    /// When it was looked at.
    pub(crate) now: LogTime,
    pub(crate) keys: BTreeMap<PublicKey, SigningKey>,
    /// The members that owe a new key, and how long that is to get around.
    pub(crate) rotations: BTreeMap<NodeId, Millis>,
}

impl Known {
    pub(crate) fn of(state: &State) -> Known {
        Known {
            changes: state.signing_changes(),
            now: state.now(),
            keys: state.signing_keys().collect(),
            rotations: state.rotations().collect(),
        }
    }

    /// What a key of this member is good for. Nothing, if it is not published.
    pub(super) fn stage(&self, node: NodeId, key: &PublicKey) -> Option<KeyStage> {
        self.keys.get(key).filter(|known| known.node == node).map(|known| known.stage)
    }

    /// The keys that a resource may believe.
    pub(super) fn believed(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter().filter(|(_, key)| key.stage.is_believed()).map(|(bytes, _)| bytes)
    }

    /// The key of this name.
    pub(crate) fn named(&self, name: &str) -> Option<PublicKey> {
        self.keys.keys().copied().find(|key| kid(key) == name)
    }
}

/// The name of a key, which follows from its bytes.
pub(crate) fn kid(key: &PublicKey) -> String {
    signed::PublicKey::new(&key.0).kid().to_owned()
}
