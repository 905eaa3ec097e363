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
            PeerMessage::YouWereRemoved => write!(f, "you were removed"),
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

/// Reads as much of the engine's encoding as a trace needs: whole numbers, and how many entries.
fn show_raft(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (mut rest, mut kind, mut entries) = (bytes, 0, 0);
    let mut shown = String::new();
    while let Some(key) = varint(&mut rest) {
        match (key >> 3, key & 7) {
            (field, 0) => {
                let value = varint(&mut rest).unwrap_or_default();
                if field == 1 {
                    kind = value;
                }
                if let Some((_, name)) = FIELDS.iter().find(|(number, _)| *number == field) {
                    shown += &format!(", {name} {value}");
                }
            }
            (field, 2) => {
                let len = varint(&mut rest).and_then(|len| usize::try_from(len).ok());
                rest = rest.get(len.unwrap_or(usize::MAX)..).unwrap_or_default();
                entries += u32::from(field == 7);
            }
            _ => break,
        }
    }
    let name = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind)).unwrap_or(&"?");
    write!(f, "{name}{shown}, {entries} entries")
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
