//! What a record holds: entries, the hard state, where the log begins, and witnesses.

use crate::bytes::{Reader, to_usize};

/// One entry of the log. What `kind` and `data` mean is the caller's matter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its place in the log, from 1 on.
    pub index: u64,
    /// The term of the leader that proposed it.
    pub term: u64,
    /// What sort of entry it is.
    pub kind: u8,
    /// What it says.
    pub data: Vec<u8>,
}

/// An entry whose bytes are somewhere else, so that appending copies them once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryRef<'a> {
    /// Its place in the log, from 1 on.
    pub index: u64,
    /// The term of the leader that proposed it.
    pub term: u64,
    /// What sort of entry it is.
    pub kind: u8,
    /// What it says.
    pub data: &'a [u8],
}

impl<'a> From<&'a Entry> for EntryRef<'a> {
    fn from(entry: &'a Entry) -> EntryRef<'a> {
        let Entry { index, term, kind, ref data } = *entry;
        EntryRef { index, term, kind, data }
    }
}

impl From<EntryRef<'_>> for Entry {
    fn from(entry: EntryRef<'_>) -> Entry {
        let EntryRef { index, term, kind, data } = entry;
        Entry { index, term, kind, data: data.to_vec() }
    }
}

/// What a member must not forget besides the entries.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct HardState {
    /// The latest term it has seen.
    pub term: u64,
    /// Whom it voted for in that term; 0 for nobody.
    pub vote: u64,
    /// Up to where it knows the log to be committed.
    pub commit: u64,
}

/// The log begins after this entry. A snapshot stands for it and for all before it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Start {
    /// The last entry that the snapshot covers.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
}

/// What this member has seen of another one. A later one of the same member replaces it, and one
/// whose numbers are all zero deletes it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Witness {
    /// The other member.
    pub member: u64,
    /// The highest index that it was seen to have confirmed durable, and that is committed.
    pub index: u64,
    /// The last boot counter that it introduced itself with.
    pub boot: u64,
    /// The nonce of that process.
    pub boot_nonce: u64,
}

impl Witness {
    /// Whether it says nothing, and so deletes an earlier one.
    pub(crate) fn is_empty(&self) -> bool {
        (self.index, self.boot) == (0, 0)
    }
}

/// What is appended in one go. After a crash it is there wholly or not at all.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// A snapshot from elsewhere takes the place of the whole log. Not for snapshots of the own
    /// state: see [`super::Wal::purge`].
    pub start: Option<Start>,
    /// The new hard state.
    pub hard_state: Option<HardState>,
    /// Without gaps. The first one may stand at or before the end of the log: it replaces the
    /// entry there and all after it.
    pub entries: Vec<EntryRef<'a>>,
    /// What was seen of other members.
    pub witnesses: Vec<Witness>,
}

/// The log as it was when a segment began. Written first in each segment, so that older ones can
/// go away.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) hard_state: HardState,
    pub(super) start: Start,
    pub(super) last_index: u64,
}

/// One thing in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Item<'a> {
    Head(Head),
    Entry(EntryRef<'a>),
    HardState(HardState),
    /// The whole log is replaced.
    Replace(Start),
    /// Entries up to here are dropped, those after it stay.
    Purge(Start),
    Witness(Witness),
}

const HEAD: u8 = 1;
const ENTRY: u8 = 2;
const HARD_STATE: u8 = 3;
const REPLACE: u8 = 4;
const PURGE: u8 = 5;
const WITNESS: u8 = 6;

impl Item<'_> {
    pub(super) fn put(&self, to: &mut Vec<u8>) {
        match self {
            Item::Head(head) => {
                to.push(HEAD);
                put_hard_state(to, head.hard_state);
                put_start(to, head.start);
                to.extend_from_slice(&head.last_index.to_le_bytes());
            }
            Item::Entry(entry) => {
                to.push(ENTRY);
                to.extend_from_slice(&entry.index.to_le_bytes());
                to.extend_from_slice(&entry.term.to_le_bytes());
                to.push(entry.kind);
                // A record beyond 4 GiB is refused as a whole before it is written, so a length
                // that does not fit never reaches the disk.
                let len = u32::try_from(entry.data.len()).unwrap_or(u32::MAX);
                to.extend_from_slice(&len.to_le_bytes());
                to.extend_from_slice(entry.data);
            }
            Item::HardState(hard_state) => {
                to.push(HARD_STATE);
                put_hard_state(to, *hard_state);
            }
            Item::Replace(start) => {
                to.push(REPLACE);
                put_start(to, *start);
            }
            Item::Purge(start) => {
                to.push(PURGE);
                put_start(to, *start);
            }
            Item::Witness(Witness { member, index, boot, boot_nonce }) => {
                to.push(WITNESS);
                for number in [member, index, boot, boot_nonce] {
                    to.extend_from_slice(&number.to_le_bytes());
                }
            }
        }
    }
}

fn put_hard_state(to: &mut Vec<u8>, hard_state: HardState) {
    to.extend_from_slice(&hard_state.term.to_le_bytes());
    to.extend_from_slice(&hard_state.vote.to_le_bytes());
    to.extend_from_slice(&hard_state.commit.to_le_bytes());
}

fn put_start(to: &mut Vec<u8>, start: Start) {
    to.extend_from_slice(&start.index.to_le_bytes());
    to.extend_from_slice(&start.term.to_le_bytes());
}

/// Reads the items of one record. Ends after the first complaint.
pub(super) fn items(body: &[u8]) -> impl Iterator<Item = Result<Item<'_>, &'static str>> {
    let mut from = Reader::new(body);
    let mut spoilt = false;
    std::iter::from_fn(move || {
        if spoilt || from.is_empty() {
            return None;
        }
        let item = take(&mut from);
        spoilt = item.is_none();
        Some(item.ok_or("a record with contents of no known shape"))
    })
}

fn take<'a>(from: &mut Reader<'a>) -> Option<Item<'a>> {
    Some(match from.u8()? {
        HEAD => {
            let (hard_state, start) = (take_hard_state(from)?, take_start(from)?);
            Item::Head(Head { hard_state, start, last_index: from.u64()? })
        }
        ENTRY => {
            let (index, term, kind) = (from.u64()?, from.u64()?, from.u8()?);
            let len = to_usize(from.u32()?.into());
            Item::Entry(EntryRef { index, term, kind, data: from.raw(len)? })
        }
        HARD_STATE => Item::HardState(take_hard_state(from)?),
        REPLACE => Item::Replace(take_start(from)?),
        PURGE => Item::Purge(take_start(from)?),
        WITNESS => {
            let (member, index) = (from.u64()?, from.u64()?);
            Item::Witness(Witness { member, index, boot: from.u64()?, boot_nonce: from.u64()? })
        }
        _ => return None,
    })
}

fn take_hard_state(from: &mut Reader<'_>) -> Option<HardState> {
    Some(HardState { term: from.u64()?, vote: from.u64()?, commit: from.u64()? })
}

fn take_start(from: &mut Reader<'_>) -> Option<Start> {
    Some(Start { index: from.u64()?, term: from.u64()? })
}
