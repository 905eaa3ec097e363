//! Sends snapshots to members that lag too far behind for the log.
//!
//! The engine says which snapshot a member needs; the member then asks for it piece by piece. The
//! engine sends it nothing else meanwhile, and must be told if the transfer has come to nothing:
//! otherwise the member would be left alone for good.

use std::collections::BTreeMap;

use raft::prelude::{Message, MessageType};
use raft::{ProgressState, SnapshotStatus};

use super::Node;
use crate::io::{MemberId, Output, PeerMessage, SnapshotPiece};
use crate::snapshot_keeper::SnapshotTask;
use crate::snapshot_store::SnapshotId;

/// How many pieces one member may have on their way.
pub(super) const PIECES_MAX: u32 = 4;

/// The snapshots that are being sent.
pub(super) type Giving = BTreeMap<MemberId, Gift>;

/// A snapshot for one member.
#[derive(Debug)]
pub(super) struct Gift {
    id: SnapshotId,
    /// When the member was last heard of in this matter.
    tick: u64,
    /// Pieces that are being read for it.
    reading: u32,
}

impl Node {
    /// Notes that a member is offered a snapshot.
    pub(super) fn note_offer(&mut self, message: &Message) {
        if message.get_msg_type() != MessageType::MsgSnapshot {
            return;
        }
        let metadata = message.get_snapshot().get_metadata();
        let id = SnapshotId { index: metadata.index, term: metadata.term };
        let reading = self.giving.get(&message.to).map_or(0, |gift| gift.reading);
        self.giving.insert(message.to, Gift { id, tick: self.ticks, reading });
    }

    /// A member asks for pieces of a snapshot.
    pub(super) fn give(
        &mut self,
        to: MemberId,
        id: SnapshotId,
        next: u64,
        room: u32,
        outputs: &mut Vec<Output>,
    ) {
        let tick = self.ticks;
        let gift = self.giving.entry(to).or_insert(Gift { id, tick, reading: 0 });
        gift.tick = tick;
        // A question that the network has doubled is not answered twice over.
        let room = room.min(PIECES_MAX - gift.reading.min(PIECES_MAX));
        gift.reading += room;
        for number in next..next.saturating_add(room.into()) {
            outputs.push(Output::Snapshot(Box::new(SnapshotTask::Read { to, id, number })));
        }
    }

    /// A piece was read for a member; nothing behind the last one. Or the snapshot is gone.
    pub(super) fn give_piece(
        &mut self,
        to: MemberId,
        id: SnapshotId,
        piece: Result<Option<SnapshotPiece>, String>,
        outputs: &mut Vec<Output>,
    ) {
        if let Some(gift) = self.giving.get_mut(&to) {
            gift.tick = self.ticks;
            gift.reading = gift.reading.saturating_sub(1);
        }
        match piece {
            Ok(Some(piece)) => outputs.push(Output::Send(to, PeerMessage::SnapshotPiece(piece))),
            Ok(None) => {}
            Err(_) => {
                if id == self.snapshot_id() {
                    self.making.base_is_lost();
                }
                outputs.push(Output::Send(to, PeerMessage::SnapshotGone(id)));
                // It may have been offered a newer one meanwhile.
                if self.giving.get(&to).is_some_and(|gift| gift.id == id) {
                    self.giving.remove(&to);
                    self.raft.report_snapshot(to, SnapshotStatus::Failure);
                }
            }
        }
    }

    /// Gives up transfers of which nothing was heard, and forgets those that are over.
    pub(super) fn give_up_gifts(&mut self) {
        let (ticks, patience) = (self.ticks, self.config.patience_ticks());
        let late: Vec<MemberId> = self
            .giving
            .extract_if(.., |_, gift| gift.tick + patience < ticks)
            .map(|one| one.0)
            .collect();
        for to in late {
            self.raft.report_snapshot(to, SnapshotStatus::Failure);
        }
        if !self.leads() {
            return;
        }
        // The engine waits for a snapshot that nobody sends: it was offered before this node
        // last lost sight of it.
        let waiting = self.raft.raft.prs().iter();
        let waiting = waiting.filter(|(_, progress)| progress.state == ProgressState::Snapshot);
        let forgotten: Vec<MemberId> =
            waiting.map(|(id, _)| *id).filter(|id| !self.giving.contains_key(id)).collect();
        for to in forgotten {
            self.raft.report_snapshot(to, SnapshotStatus::Failure);
        }
    }
}
