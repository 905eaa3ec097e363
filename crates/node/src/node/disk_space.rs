//! Keeps the last of the disk for what must go on.
//!
//! Owns: what a leader refuses while its disk has only its reserve left. Guarantees: renewals,
//! releases, deletes and reads are never refused for that. Refuses: to look at the disks of others;
//! each member says when its own is low, and only the leader's decides.

use super::Node;
use super::peers::INTRODUCTION_VERSION;
use super::propose::Asker;
use crate::io::ProposeError;
use crate::machine::Read;

impl Node {
    /// Why a command must not enter the log on a disk that is nearly full.
    pub(super) fn refusal_for_want_of_disk(
        &self,
        asker: Asker,
        command: &Read,
    ) -> Option<ProposeError> {
        if !self.disk_is_low || !self.machine.may_grow(command) {
            return None;
        }
        match asker {
            Asker::Here(_) => Some(ProposeError::DiskFull),
            Asker::There(member, _) => {
                // A member of an earlier build would close the connection over what it cannot read.
                let version = self.peer_info(member).map_or(0, |info| info.version);
                let reads_it = !(1..INTRODUCTION_VERSION).contains(&version);
                Some(if reads_it { ProposeError::DiskFull } else { ProposeError::Overloaded })
            }
            // What the node does by itself keeps the cluster going.
            Asker::Itself => None,
        }
    }
}
