//! The directory that holds all that one node keeps.
//!
//! Owns: that only one process uses it, and who the node is. Guarantees: the boot counter grows
//! at each opening and is durable before the node does anything, so two lives of a node are never
//! taken for one. What an interrupted process left behind is removed before anything is written, so
//! that a full disk does not keep a node from starting. Refuses: to guess an identity that it cannot
//! read.

mod error;
mod identity;

use std::path::Path;

use crate::disk::{Disk, LockFile, RealDisk, is_full};
use crate::snapshot_store;
use crate::wal::{self, WalConfig};
pub use error::Error;
pub use identity::{Identity, NAME_BYTES_MAX};

/// The file whose lock stands for the directory.
const LOCK: &str = "lock";

/// A data directory that this process has for itself.
#[derive(Debug)]
pub struct DataDir {
    disk: RealDisk,
    identity: Option<Identity>,
    /// Held as long as the directory is used.
    _lock: LockFile,
}

impl DataDir {
    /// Opens a directory, or makes it. Counts a boot if it has an identity.
    ///
    /// # Errors
    ///
    /// See [`Error`].
    pub fn open(path: &Path) -> Result<DataDir, Error> {
        let disk = RealDisk::open(path).map_err(|error| Error::opening(path, error))?;
        let lock = disk.lock(LOCK).map_err(|error| Error::opening(path, error))?;
        let lock = lock.ok_or_else(|| Error::InUse { path: path.to_owned() })?;
        let identity = count_boot(&disk)?;
        Ok(DataDir { disk, identity, _lock: lock })
    }

    /// Who this node is; `None` in a new directory.
    #[must_use]
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// Says who this node is, for good: cluster and node cannot change after that. The boot
    /// counter is the directory's: the one given is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::OtherIdentity`] if the directory belongs to another node.
    pub fn adopt(&mut self, identity: Identity) -> Result<(), Error> {
        if let Some(present) = &self.identity
            && (present.cluster_id, present.node_id) != (identity.cluster_id, identity.node_id)
        {
            return Err(Error::OtherIdentity { present: Box::new(present.clone()) });
        }
        let boot = self.identity.as_ref().map_or(1, |present| present.boot);
        let identity = Identity { boot, ..identity };
        identity.store(&self.disk)?;
        self.identity = Some(identity);
        Ok(())
    }

    /// The directory, for the log and the snapshots.
    #[must_use]
    pub fn disk(&self) -> RealDisk {
        self.disk.clone()
    }
}

/// Reads the identity of a directory, and counts a boot. What nobody needs makes room for that first.
///
/// # Errors
///
/// See [`Error`].
pub fn count_boot<D: Disk>(disk: &D) -> Result<Option<Identity>, Error> {
    let identity = Identity::load(disk)?;
    let Some(mut identity) = identity else { return Ok(None) };
    clear_away(disk, WalConfig::SEGMENT_BYTES)?;
    identity.boot = identity.boot.checked_add(1).ok_or(Error::BootsUsedUp)?;
    match identity.store(disk) {
        Err(Error::Io { source, .. }) if is_full(&source) => {
            // Spares that are whole are of no use on a disk without room for anything else.
            clear_away(disk, u64::MAX)?;
            identity.store(disk)?;
        }
        stored => stored?,
    }
    Ok(Some(identity))
}

/// Removes unfinished snapshots, and spare segments that are shorter than this.
fn clear_away<D: Disk>(disk: &D, whole: u64) -> Result<(), Error> {
    let cleared =
        snapshot_store::discard_unfinished(disk).and_then(|()| wal::discard_spares(disk, whole));
    cleared.map_err(|source| Error::Io { doing: "clearing away unfinished files", source })
}
