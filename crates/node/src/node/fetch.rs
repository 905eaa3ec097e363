//! Receives a snapshot, because the log that this node lacks is gone.
//!
//! The leader's offer says which snapshot. Its pieces are asked for a few at a time, written to
//! disk as they come, and asked for again if they do not come. When all are there the snapshot is
//! made durable and read, and only then the engine hears of the offer. An offer of the same
//! snapshot by another leader goes on where the last one stopped.

use raft::StateRole;
use raft::prelude::{Message, MessageType, Snapshot, SnapshotMetadata};

use super::Node;
use super::give::PIECES_MAX;
use crate::io::{MemberId, Output, PeerMessage, SnapshotPiece};
use crate::mutant::Mutant;
use crate::replica::Replica;
use crate::snapshot_keeper::SnapshotTask;
use crate::snapshot_store::SnapshotId;
use crate::wal::Start;

/// Pieces that did not come within so many ticks are asked for again.
const ASK_AGAIN_TICKS: u64 = 20;

/// A snapshot that is being received.
#[derive(Debug)]
pub(super) struct Fetch {
    id: SnapshotId,
    /// Who has it.
    from: MemberId,
    stage: Stage,
    /// When it was last asked for, and when something last came.
    asked: u64,
    heard: u64,
}

#[derive(Debug)]
enum Stage {
    /// Waits for the piece of this number, and has asked for those before `asked_to`.
    Pieces { next: u64, asked_to: u64 },
    /// All pieces are there and are being read.
    Loading,
    /// It can be installed.
    Loaded(Box<Replica>),
}

impl Fetch {
    /// Whether something came lately, or all is here.
    fn is_alive(&self, tick: u64, patience: u64) -> bool {
        self.heard + patience >= tick || !matches!(self.stage, Stage::Pieces { .. })
    }
}

impl Node {
    /// The leader offers a snapshot.
    pub(super) fn offered(&mut self, message: Message, outputs: &mut Vec<Output>) {
        let metadata = message.get_snapshot().get_metadata();
        let id = SnapshotId { index: metadata.index, term: metadata.term };
        let log = &self.raft.raft.raft_log;
        let committed = log.committed;
        let is_there = log.match_term(id.index, id.term);
        // What is committed here has one term only.
        let is_wrong = id.index == committed && !is_there;
        if message.term < self.raft.raft.term || is_wrong {
            return;
        }
        if id.index <= committed || is_there {
            // It is not needed. The engine tells the leader so.
            drop(self.raft.step(message));
            return;
        }
        let (from, tick, patience) = (message.from, self.ticks, self.config.patience_ticks());
        match &mut self.fetch {
            Some(fetch) if fetch.id == id => (fetch.from, fetch.heard) = (from, tick),
            // What is on its way is of use although it is older. In a busy cluster there is always
            // a newer one, and none would ever arrive.
            Some(fetch) if fetch.id.index > committed && fetch.is_alive(tick, patience) => return,
            _ => {
                let stage = Stage::Pieces { next: 0, asked_to: 0 };
                self.fetch = Some(Fetch { id, from, stage, asked: 0, heard: tick });
            }
        }
        self.ask_for_pieces(outputs);
        self.install_if_loaded();
    }

    /// Asks for the pieces that are missing, or says that the snapshot is being worked on.
    fn ask_for_pieces(&mut self, outputs: &mut Vec<Output>) {
        let Some(fetch) = &mut self.fetch else { return };
        let (next, room) = match &mut fetch.stage {
            Stage::Pieces { next, asked_to } => {
                *asked_to = *next + u64::from(PIECES_MAX);
                (*next, PIECES_MAX)
            }
            Stage::Loading | Stage::Loaded(_) => (0, 0),
        };
        fetch.asked = self.ticks;
        let wanted = PeerMessage::SnapshotWanted { id: fetch.id, next, room };
        outputs.push(Output::Send(fetch.from, wanted));
    }

    /// A piece has come. Only the next one is of use.
    pub(super) fn take_piece(&mut self, piece: SnapshotPiece, outputs: &mut Vec<Output>) {
        let cluster_id = self.membership.cluster_id;
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.id == piece.id) else { return };
        let Stage::Pieces { next, .. } = &mut fetch.stage else { return };
        if piece.number != *next {
            return;
        }
        fetch.heard = self.ticks;
        *next += 1;
        let (id, is_last) = (piece.id, piece.is_last);
        outputs.push(Output::Snapshot(Box::new(SnapshotTask::Keep(piece))));
        if is_last {
            fetch.stage = Stage::Loading;
            outputs.push(Output::Snapshot(Box::new(SnapshotTask::Load { id, cluster_id })));
        }
    }

    /// A piece was written to disk, or not. Then the next offer begins anew.
    ///
    /// More is asked for only now: a disk that is slower than the network must not fill the
    /// memory.
    pub(super) fn kept(
        &mut self,
        id: SnapshotId,
        number: u64,
        result: &Result<(), String>,
        outputs: &mut Vec<Output>,
    ) {
        let Some(fetch) = self.fetch.as_ref().filter(|fetch| fetch.id == id) else { return };
        if result.is_err() {
            self.fetch = None;
            return;
        }
        if let Stage::Pieces { asked_to, .. } = fetch.stage
            && number + 1 == asked_to
        {
            self.ask_for_pieces(outputs);
        }
    }

    /// The member that has the snapshot has it no more.
    pub(super) fn snapshot_gone(&mut self, from: MemberId, id: SnapshotId) {
        let lost = |fetch: &mut Fetch| {
            (fetch.id, fetch.from) == (id, from) && matches!(fetch.stage, Stage::Pieces { .. })
        };
        self.fetch.take_if(lost);
    }

    /// The snapshot is durable and was read, or cannot be.
    pub(super) fn loaded(&mut self, id: SnapshotId, result: Result<Box<Replica>, String>) {
        let Some(fetch) = self.fetch.as_mut().filter(|fetch| fetch.id == id) else { return };
        match result {
            Ok(replica) => fetch.stage = Stage::Loaded(replica),
            Err(_) => self.fetch = None,
        }
        self.install_if_loaded();
    }

    /// Asks again, and tries again to install.
    pub(super) fn tick_fetch(&mut self, outputs: &mut Vec<Output>) {
        let Some(fetch) = &self.fetch else { return };
        // Whoever had it may be gone. The next leader will offer one.
        let is_alive = fetch.is_alive(self.ticks, self.config.patience_ticks());
        if fetch.asked.max(fetch.heard) + ASK_AGAIN_TICKS <= self.ticks && is_alive {
            self.ask_for_pieces(outputs);
        }
        self.install_if_loaded();
    }

    /// Lets the engine hear of the offer, now that it can be kept.
    ///
    /// The offer may be old, but what a snapshot holds is committed and stays so. It is passed on
    /// as if the present leader had made it: the engine would ignore one from an earlier term.
    fn install_if_loaded(&mut self) {
        let Some(Fetch { id, stage: Stage::Loaded(replica), .. }) = &self.fetch else { return };
        let raft = &self.raft.raft;
        if id.index <= raft.raft_log.committed {
            self.fetch = None;
            return;
        }
        let Some(leader) = self.role.leader.filter(|_| raft.state == StateRole::Follower) else {
            return;
        };
        let mut message = Message { to: self.config.id, from: leader, ..Message::default() };
        message.term = raft.term;
        message.set_msg_type(MessageType::MsgSnapshot);
        let conf_state = Some(replica.membership.conf.clone());
        let metadata = SnapshotMetadata { index: id.index, term: id.term, conf_state };
        message.snapshot = Some(Snapshot { data: Vec::new(), metadata: Some(metadata) });
        // If the engine has no use for it, it has said so to the leader.
        let refused = self.raft.step(message).is_err() || self.raft.snap().is_none();
        if refused {
            self.fetch = None;
        }
    }

    /// The engine has taken the snapshot: it becomes the state, and the log begins behind it.
    pub(super) fn install(&mut self, snapshot: &Snapshot, outputs: &mut Vec<Output>) -> Start {
        let metadata = snapshot.get_metadata();
        let id = SnapshotId { index: metadata.index, term: metadata.term };
        let fetch = self.fetch.take().filter(|fetch| fetch.id == id);
        let Some(Fetch { stage: Stage::Loaded(replica), .. }) = fetch else {
            unreachable!("the engine hears only of snapshots that are loaded");
        };
        let Replica { machine, membership } = *replica;
        self.machine = machine;
        self.making.installed(&self.machine);
        if self.mutant(Mutant::InstallLosesGrants) {
            self.machine.lose_grants();
        }
        self.raft.mut_store().install(id, membership.conf.clone());
        self.membership = membership;
        outputs.push(Output::Installed(id));
        outputs.push(Output::Members(Box::new(self.membership.clone())));
        Start { index: id.index, term: id.term }
    }
}
