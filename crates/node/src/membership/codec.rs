//! The bytes of a membership, in snapshots and in the log. `docs/format.md` describes them.

use std::collections::{BTreeMap, BTreeSet};

use raft::prelude::ConfState;

use super::{Member, Membership};
use crate::bytes::{Reader, to_u64, to_usize};

/// The format that this build writes, and the only one that it reads.
const VERSION: u32 = 1;

/// What a change says that changes nothing and settles the one before. No member reads like this.
pub const SETTLING: &[u8] = b"settled";

/// How long a name or an address may be.
pub(crate) const TEXT_BYTES_MAX: usize = 255;

impl Membership {
    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Membership { cluster_id, conf, members, leaving, removed, is_settled } = self;
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&cluster_id.to_le_bytes());
        for ids in [&conf.voters, &conf.learners, &conf.voters_outgoing, &conf.learners_next] {
            put_numbers(ids.iter().copied(), ids.len(), out);
        }
        out.push(u8::from(conf.auto_leave));
        out.extend_from_slice(&to_u64(members.len()).to_le_bytes());
        for member in members.values() {
            encode_member(member, out);
        }
        for ids in [leaving, removed] {
            put_numbers(ids.iter().copied(), ids.len(), out);
        }
        out.push(u8::from(*is_settled));
    }

    /// Reads what [`Membership::encode`] wrote; nothing if it cannot be that.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Membership> {
        let mut from = Reader::new(bytes);
        if from.u32()? != VERSION {
            return None;
        }
        let cluster_id = from.u64()?;
        let conf = ConfState {
            voters: numbers(&mut from)?,
            learners: numbers(&mut from)?,
            voters_outgoing: numbers(&mut from)?,
            learners_next: numbers(&mut from)?,
            auto_leave: from.u8()? != 0,
        };
        let mut members = BTreeMap::new();
        for _ in 0..from.u64()? {
            let member = member_from(&mut from)?;
            members.insert(member.id, member);
        }
        let leaving: BTreeSet<u64> = numbers(&mut from)?.into_iter().collect();
        let removed: BTreeSet<u64> = numbers(&mut from)?.into_iter().collect();
        let is_settled = from.u8()? != 0;
        let membership = Membership { cluster_id, conf, members, leaving, removed, is_settled };
        from.is_empty().then_some(membership)
    }
}

/// Whether a member can be one: it has a number and a name, and nothing is too long.
#[must_use]
pub fn is_sound(member: &Member) -> bool {
    let Member { id, name, peer, client } = member;
    let short = [name, peer, client].iter().all(|text| text.len() <= TEXT_BYTES_MAX);
    *id != 0 && !name.is_empty() && short
}

/// Appends the bytes of a member.
pub fn encode_member(member: &Member, out: &mut Vec<u8>) {
    out.extend_from_slice(&member.id.to_le_bytes());
    for text in [&member.name, &member.peer, &member.client] {
        let len = u32::try_from(text.len()).expect("checked where it came from");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    }
}

/// Reads what [`encode_member`] wrote; nothing if it cannot be that.
#[must_use]
pub fn decode_member(bytes: &[u8]) -> Option<Member> {
    let mut from = Reader::new(bytes);
    let member = member_from(&mut from)?;
    from.is_empty().then_some(member)
}

fn member_from(from: &mut Reader<'_>) -> Option<Member> {
    let id = from.u64().filter(|&id| id != 0)?;
    Some(Member { id, name: text(from)?, peer: text(from)?, client: text(from)? })
}

fn text(from: &mut Reader<'_>) -> Option<String> {
    let len = to_usize(from.u32()?.into());
    if len > TEXT_BYTES_MAX {
        return None;
    }
    String::from_utf8(from.raw(len)?.to_vec()).ok()
}

fn put_numbers(numbers: impl Iterator<Item = u64>, len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&to_u64(len).to_le_bytes());
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn numbers(from: &mut Reader<'_>) -> Option<Vec<u64>> {
    let len = from.u64()?;
    (0..len).map(|_| from.u64()).collect()
}
