//! What members say to each other once they know each other.

use super::frame::put_frame;
use super::kind;
use crate::bytes::{Reader, put_u32, put_u64};
use crate::io::{
    Answer, Class, Forward, ForwardNumber, Introduction, PeerMessage, ProposeError, SnapshotPiece,
};
use crate::machine::{decode_reply, encode_reply};
use crate::snapshot_store::SnapshotId;

/// About how many bytes a message takes, for those who bound how much waits.
#[must_use]
pub fn weight(message: &PeerMessage) -> usize {
    const SMALL: usize = 64;
    match message {
        PeerMessage::Raft(bytes) => SMALL + bytes.len(),
        PeerMessage::Forward(forward) => SMALL + forward.command.len(),
        PeerMessage::SnapshotPiece(piece) => SMALL + piece.bytes.len(),
        _ => SMALL,
    }
}

/// The oldest version of the protocol that has this message. Over an older connection it is not
/// sent: the other side would close the connection.
#[must_use]
pub fn lowest_version(message: &PeerMessage) -> u32 {
    match message {
        PeerMessage::Introduction(_) | PeerMessage::CopiedDirectory { .. } => 2,
        _ => 1,
    }
}

/// Appends a message as a frame. `false`, and nothing is appended, if it is too long to be sent.
/// An answer that is too long is sent as one that nobody knows: the command may be done.
pub fn encode_message(message: &PeerMessage, out: &mut Vec<u8>) -> bool {
    match message {
        PeerMessage::Raft(bytes) => put_frame(kind::RAFT, out, |out| out.extend_from_slice(bytes)),
        PeerMessage::Forward(forward) => {
            put_frame(kind::FORWARD, out, |out| put_forward(forward, out))
        }
        PeerMessage::Forwarded(number, answer) => {
            put_frame(kind::FORWARDED, out, |out| put_forwarded(*number, answer, out))
                || put_frame(kind::FORWARDED, out, |out| {
                    put_forwarded(*number, &Err(ProposeError::Indeterminate), out);
                })
        }
        PeerMessage::SnapshotWanted { id, next, room } => {
            put_frame(kind::SNAPSHOT_WANTED, out, |out| {
                put_snapshot_id(*id, out);
                put_u64(*next, out);
                put_u32(*room, out);
            })
        }
        PeerMessage::SnapshotPiece(piece) => put_frame(kind::SNAPSHOT_PIECE, out, |out| {
            put_snapshot_id(piece.id, out);
            put_u64(piece.number, out);
            out.push(u8::from(piece.is_last));
            out.extend_from_slice(&piece.bytes);
        }),
        PeerMessage::SnapshotGone(id) => {
            put_frame(kind::SNAPSHOT_GONE, out, |out| put_snapshot_id(*id, out))
        }
        PeerMessage::YouWereRemoved => put_frame(kind::YOU_WERE_REMOVED, out, |_| {}),
        PeerMessage::AmIAMember => put_frame(kind::AM_I_A_MEMBER, out, |_| {}),
        PeerMessage::Introduction(introduction) => {
            put_frame(kind::INTRODUCTION, out, |out| put_introduction(introduction, out))
        }
        PeerMessage::CopiedDirectory { boot, boot_nonce } => {
            put_frame(kind::COPIED_DIRECTORY, out, |out| {
                put_u64(*boot, out);
                put_u64(*boot_nonce, out);
            })
        }
    }
}

/// Reads the body of a frame; nothing if it cannot be a message.
#[must_use]
pub fn decode_message(kind: u8, body: &[u8]) -> Option<PeerMessage> {
    let mut from = Reader::new(body);
    let message = match kind {
        kind::RAFT => PeerMessage::Raft(from.rest().to_vec()),
        kind::FORWARD => PeerMessage::Forward(forward(&mut from)?),
        kind::FORWARDED => {
            let number = number(&mut from)?;
            PeerMessage::Forwarded(number, Box::new(answer(&mut from)?))
        }
        kind::SNAPSHOT_WANTED => {
            let id = snapshot_id(&mut from)?;
            PeerMessage::SnapshotWanted { id, next: from.u64()?, room: from.u32()? }
        }
        kind::SNAPSHOT_PIECE => {
            let id = snapshot_id(&mut from)?;
            let (number, is_last) = (from.u64()?, from.bool()?);
            let bytes = from.rest().to_vec();
            PeerMessage::SnapshotPiece(SnapshotPiece { id, number, is_last, bytes })
        }
        kind::SNAPSHOT_GONE => PeerMessage::SnapshotGone(snapshot_id(&mut from)?),
        kind::YOU_WERE_REMOVED => PeerMessage::YouWereRemoved,
        kind::AM_I_A_MEMBER => PeerMessage::AmIAMember,
        kind::INTRODUCTION => PeerMessage::Introduction(Box::new(introduction(&mut from)?)),
        kind::COPIED_DIRECTORY => {
            PeerMessage::CopiedDirectory { boot: from.u64()?, boot_nonce: from.u64()? }
        }
        _ => return None,
    };
    from.is_empty().then_some(message)
}

fn put_forward(forward: &Forward, out: &mut Vec<u8>) {
    put_u64(forward.term, out);
    put_number(forward.number, out);
    out.push(match forward.class {
        Class::Ordinary => 0,
        Class::Renewal => 1,
    });
    out.extend_from_slice(&forward.command);
}

fn forward(from: &mut Reader<'_>) -> Option<Forward> {
    let (term, number) = (from.u64()?, number(from)?);
    let class = match from.u8()? {
        0 => Class::Ordinary,
        1 => Class::Renewal,
        _ => return None,
    };
    Some(Forward { term, number, class, command: from.rest().to_vec() })
}

fn put_forwarded(number: ForwardNumber, answer: &Answer, out: &mut Vec<u8>) {
    put_number(number, out);
    match answer {
        Ok(reply) => {
            out.push(0);
            encode_reply(reply, out);
        }
        Err(ProposeError::NoLeader) => out.push(1),
        Err(ProposeError::Malformed) => out.push(2),
        Err(ProposeError::Overloaded) => out.push(3),
        Err(ProposeError::Indeterminate) => out.push(4),
        Err(ProposeError::DiskFull) => out.push(5),
    }
}

fn answer(from: &mut Reader<'_>) -> Option<Answer> {
    let error = match from.u8()? {
        0 => return Some(Ok(decode_reply(from.rest()).ok()?)),
        1 => ProposeError::NoLeader,
        2 => ProposeError::Malformed,
        3 => ProposeError::Overloaded,
        4 => ProposeError::Indeterminate,
        5 => ProposeError::DiskFull,
        _ => return None,
    };
    Some(Err(error))
}

fn put_introduction(introduction: &Introduction, out: &mut Vec<u8>) {
    put_u64(introduction.boot, out);
    put_u64(introduction.boot_nonce, out);
    put_u32(introduction.feature_level, out);
    put_u64(introduction.memory_bytes, out);
    put_u64(introduction.last_term, out);
    put_u64(introduction.last_index, out);
    put_u64(introduction.commit, out);
    put_u64(introduction.witnessed, out);
    out.push(introduction.wants_answer.into());
}

fn introduction(from: &mut Reader<'_>) -> Option<Introduction> {
    Some(Introduction {
        boot: from.u64()?,
        boot_nonce: from.u64()?,
        feature_level: from.u32()?,
        memory_bytes: from.u64()?,
        last_term: from.u64()?,
        last_index: from.u64()?,
        commit: from.u64()?,
        witnessed: from.u64()?,
        wants_answer: from.bool()?,
    })
}

fn put_number(number: ForwardNumber, out: &mut Vec<u8>) {
    put_u64(number.boot, out);
    put_u64(number.count, out);
}

fn number(from: &mut Reader<'_>) -> Option<ForwardNumber> {
    Some(ForwardNumber { boot: from.u64()?, count: from.u64()? })
}

fn put_snapshot_id(id: SnapshotId, out: &mut Vec<u8>) {
    put_u64(id.index, out);
    put_u64(id.term, out);
}

fn snapshot_id(from: &mut Reader<'_>) -> Option<SnapshotId> {
    Some(SnapshotId { index: from.u64()?, term: from.u64()? })
}
