//! Messages in a few words, for people who read a trace.

use std::fmt;

use fencepost_node::io::PeerMessage;

/// A message in a few words.
pub(super) struct Shown<'a>(pub(super) &'a PeerMessage);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            PeerMessage::Raft(bytes) => show_raft(bytes, f),
            PeerMessage::Forward(forward) => {
                write!(f, "forwards {} in term {}", forward.number.count, forward.term)
            }
            PeerMessage::Forwarded(number, answer) => {
                write!(f, "answers forward {}: {answer:?}", number.count)
            }
            PeerMessage::SnapshotWanted { id, next, room } => {
                write!(f, "wants {room} pieces of {} from {next} on", id.index)
            }
            PeerMessage::SnapshotPiece(piece) => {
                write!(f, "piece {} of {}", piece.number, piece.id.index)
            }
            PeerMessage::SnapshotGone(id) => write!(f, "snapshot {} is gone", id.index),
            PeerMessage::AmIAMember => write!(f, "am I a member"),
            PeerMessage::YouWereRemoved => write!(f, "you were removed"),
            PeerMessage::CopiedDirectory { boot, .. } => {
                write!(f, "boot {boot} runs from a copied directory")
            }
            PeerMessage::Introduction(introduction) => {
                write!(f, "boot {}, last {}", introduction.boot, introduction.last_index)
            }
        }
    }
}

/// The engine's kinds of messages, by number.
const KINDS: [&str; 19] = [
    "Hup",
    "Beat",
    "Propose",
    "Append",
    "AppendResponse",
    "RequestVote",
    "RequestVoteResponse",
    "Snapshot",
    "Heartbeat",
    "HeartbeatResponse",
    "Unreachable",
    "SnapStatus",
    "CheckQuorum",
    "TransferLeader",
    "TimeoutNow",
    "ReadIndex",
    "ReadIndexResp",
    "RequestPreVote",
    "RequestPreVoteResponse",
];

/// Fields of the engine's message that are worth a look, by number.
const FIELDS: [(u64, &str); 6] =
    [(4, "term"), (5, "log term"), (6, "index"), (8, "commit"), (10, "rejects"), (11, "hint")];

/// Whether a message of the engine says yes to a candidate.
pub(super) fn is_vote(bytes: &[u8]) -> bool {
    let (mut votes, mut rejects) = (false, false);
    for (field, value) in Fields(bytes) {
        votes |= field == 1 && value == 6;
        rejects |= field == 10 && value != 0;
    }
    votes && !rejects
}

fn show_raft(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut kind, mut entries) = (0, 0);
    let mut shown = String::new();
    for (field, value) in Fields(bytes) {
        match field {
            1 => kind = value,
            7 => entries += 1,
            _ => {}
        }
        if let Some((_, name)) = FIELDS.iter().find(|(number, _)| *number == field) {
            shown += &format!(", {name} {value}");
        }
    }
    let name = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind)).unwrap_or(&"?");
    write!(f, "{name}{shown}, {entries} entries")
}

/// The fields of a message in the engine's encoding: whole numbers, and the lengths of others.
struct Fields<'a>(&'a [u8]);

impl Iterator for Fields<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let key = varint(&mut self.0)?;
        let value = varint(&mut self.0)?;
        match key & 7 {
            0 => {}
            2 => self.0 = self.0.get(usize::try_from(value).ok()?..)?,
            _ => return None,
        }
        Some((key >> 3, value))
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
