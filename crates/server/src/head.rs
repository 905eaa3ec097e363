//! What comes with every answer: which cluster, who answers, who leads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fencepost_core::Revision;
use fencepost_node::shell::{Board, Handle};
use fencepost_proto::v1;
use tokio::sync::watch;

use crate::show;

/// What is known about the cluster, kept ready for the next answer.
pub(crate) struct Head {
    handle: Handle,
    header: Mutex<v1::Header>,
    /// The revision that this member has applied.
    revision: AtomicU64,
    /// Which edition of the header this is, and whether this member leads by it, in the lowest bit.
    edition: AtomicU64,
    /// Counts changes of who leads and who belongs to the cluster.
    changes: watch::Sender<u64>,
}

impl Head {
    pub(crate) fn new(handle: &Handle) -> Head {
        let head = Head {
            handle: handle.clone(),
            header: Mutex::new(v1::Header::default()),
            revision: AtomicU64::new(0),
            edition: AtomicU64::new(0),
            changes: watch::Sender::new(0),
        };
        head.refresh();
        head
    }

    fn known(&self) -> MutexGuard<'_, v1::Header> {
        // Nothing panics while it is held, so it is never left half changed.
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks again at who leads. The board is read under the guard, so that of two who refresh the
    /// last one to write has read last as well.
    pub(crate) fn refresh(&self) {
        let mut header = self.known();
        let board: &Board = self.handle.board();
        let status = board.status();
        let ended = status.ended.is_some();
        let leader = status.role.leader.filter(|_| !ended).unwrap_or(0);
        let address = status.members.members.get(&leader).map(|member| member.client.clone());
        *header = v1::Header {
            cluster_id: status.cluster_id,
            member_id: status.id,
            revision: 0,
            raft_term: status.role.term,
            leader_id: leader,
            leader_address: address.unwrap_or_default(),
            incarnation: status.incarnation,
        };
        let leads = u64::from(leader == status.id);
        let edition = self.edition.load(Ordering::Relaxed);
        self.edition.store(((edition | 1) + 1) | leads, Ordering::Release);
        drop(header);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The state has reached this revision.
    pub(crate) fn reach(&self, revision: Revision) {
        self.revision.fetch_max(revision.0, Ordering::Relaxed);
    }

    /// The header of an answer as of this revision.
    pub(crate) fn at(&self, revision: Revision) -> v1::Header {
        v1::Header { revision: show::signed(revision.0), ..self.known().clone() }
    }

    /// The header of an answer that is about no revision in particular.
    pub(crate) fn now(&self) -> v1::Header {
        self.at(self.revision())
    }

    /// The header of an answer to somebody who was told `told` before: while this member leads, and
    /// has said so, there is nothing new but the revision.
    pub(crate) fn brief(&self, told: &AtomicU64, revision: Revision) -> v1::Header {
        let edition = self.edition.load(Ordering::Acquire);
        let leads = edition & 1 == 1;
        if leads && told.load(Ordering::Relaxed) == edition {
            return v1::Header { revision: show::signed(revision.0), ..v1::Header::default() };
        }
        told.store(edition, Ordering::Relaxed);
        self.at(revision)
    }

    /// The revision that this member has applied.
    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Relaxed))
    }

    /// Who leads; nobody, if that is not known.
    pub(crate) fn leader(&self) -> Option<u64> {
        Some(self.known().leader_id).filter(|&leader| leader != 0)
    }

    /// To hear when the cluster changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
