//! Events as bytes, one behind the other, oldest first.
//!
//! Most events are never looked at again and go in the order in which they came. As values they
//! would lie all over the memory, and whoever drops the oldest and makes the newest would wait for
//! that memory longer than for everything else about a command. As bytes they take less of it, and
//! it is gone through from front to back.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::codec;
use crate::event::Event;
use crate::ids::Revision;

/// What a block has room for, unless a single event takes more.
const BLOCK_BYTES: usize = 64 << 10;
/// Before each event: its revision, its weight, and how many bytes it has.
const HEAD_BYTES: usize = 16;

/// Events as bytes.
#[derive(Clone, Default)]
pub(super) struct Ring {
    /// None of them is empty.
    blocks: VecDeque<Block>,
    len: usize,
    /// The place of the newest event.
    newest: Option<(Revision, u32)>,
    /// Room for the next block.
    spare: Vec<u8>,
}

#[derive(Clone)]
struct Block {
    bytes: Vec<u8>,
    /// Where the oldest event begins that was not dropped.
    begin: usize,
    /// The revision of the first event that was written to it.
    first: Revision,
}

struct Head {
    revision: Revision,
    weight: usize,
    len: usize,
}

impl Head {
    /// What stands at the beginning of these bytes, and what follows it.
    fn take(bytes: &[u8]) -> Option<(Head, &[u8])> {
        let (revision, bytes) = bytes.split_first_chunk()?;
        let (weight, bytes) = bytes.split_first_chunk()?;
        let (len, bytes) = bytes.split_first_chunk()?;
        let size = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
        let revision = Revision(u64::from_le_bytes(*revision));
        Some((Head { revision, weight: size(weight), len: size(len) }, bytes))
    }
}

impl Block {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.begin..).unwrap_or_default()
    }
}

impl Ring {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The place of the newest event, if there is one.
    pub(super) fn newest(&self) -> Option<(Revision, u32)> {
        self.newest.filter(|_| self.len > 0)
    }

    /// The revision of the oldest event.
    pub(super) fn oldest(&self) -> Option<Revision> {
        let (head, _) = Head::take(self.blocks.front()?.rest())?;
        Some(head.revision)
    }

    pub(super) fn push(&mut self, event: &Event, weight: usize) {
        let bytes = self.room(event.revision, weight);
        let size = |size: usize| u32::try_from(size).expect("an entry of the log is smaller");
        let mut head = [0; HEAD_BYTES];
        let (revision, sizes) = head.split_at_mut(8);
        revision.copy_from_slice(&event.revision.0.to_le_bytes());
        sizes[..4].copy_from_slice(&size(weight).to_le_bytes());
        bytes.extend_from_slice(&head);
        let begin = bytes.len();
        codec::put_event(event, bytes);
        let length = size(bytes.len() - begin).to_le_bytes();
        bytes[begin - length.len()..begin].copy_from_slice(&length);
        self.len += 1;
        self.newest = Some((event.revision, event.sub));
    }

    /// Where the next event is written. Blocks do not grow, because they would take twice their room.
    fn room(&mut self, revision: Revision, weight: usize) -> &mut Vec<u8> {
        // It hardly ever takes more than it weighs; then the block grows.
        let is_full = |block: &Block| block.bytes.len() + weight > BLOCK_BYTES;
        if self.blocks.back().is_none_or(is_full) {
            let mut bytes = core::mem::take(&mut self.spare);
            bytes.reserve_exact(BLOCK_BYTES);
            self.blocks.push_back(Block { bytes, begin: 0, first: revision });
        }
        &mut self.blocks.back_mut().expect("it was just made").bytes
    }

    /// Drops the oldest event. Its weight.
    pub(super) fn drop_oldest(&mut self) -> Option<usize> {
        let block = self.blocks.front_mut()?;
        let (head, _) = Head::take(block.rest())?;
        block.begin += HEAD_BYTES + head.len;
        if block.begin >= block.bytes.len() {
            let mut bytes = self.blocks.pop_front().map(|block| block.bytes).unwrap_or_default();
            bytes.clear();
            self.spare = if bytes.capacity() <= BLOCK_BYTES { bytes } else { Vec::new() };
        }
        self.len -= 1;
        Some(head.weight)
    }

    /// The events from this revision on.
    pub(super) fn from(&self, revision: Revision) -> impl Iterator<Item = Arc<Event>> {
        self.starting_behind(revision, 0).map(|(event, _)| event)
    }

    /// The events from this revision on, without the first `skipped` of them, and how many bytes
    /// each takes. What is skipped is not decoded.
    pub(super) fn starting_behind(
        &self,
        revision: Revision,
        skipped: usize,
    ) -> impl Iterator<Item = (Arc<Event>, usize)> {
        // The first events of a revision may stand at the end of the block before.
        let later = self.blocks.partition_point(|block| block.first < revision);
        let blocks = self.blocks.range(later.saturating_sub(1)..);
        let all = blocks.flat_map(|block| Records(block.rest()));
        let wanted = all.skip_while(move |(head, _)| head.revision < revision).skip(skipped);
        wanted.map(|(_, bytes)| (Arc::new(codec::take_event(bytes)), bytes.len()))
    }

    /// Every event, as it was written.
    pub(super) fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.blocks.iter().flat_map(|block| Records(block.rest())).map(|(_, bytes)| bytes)
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.from(Revision::NONE)).finish()
    }
}

/// The events of a block.
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = (Head, &'a [u8]);

    fn next(&mut self) -> Option<(Head, &'a [u8])> {
        let (head, rest) = Head::take(self.0)?;
        let (bytes, rest) = rest.split_at_checked(head.len)?;
        self.0 = rest;
        Some((head, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventKind, KeyValue};
    use crate::ids::Value;

    /// An event with a value of this length.
    fn event(revision: u64, sub: u32, len: usize) -> Event {
        let value = Value::from(&*alloc::vec![7; len]);
        let kv = KeyValue { key: "k".into(), value, ..KeyValue::default() };
        Event { revision: Revision(revision), sub, kind: EventKind::Put { kv, prev: None } }
    }

    fn push(ring: &mut Ring, event: &Event) {
        ring.push(event, event.weight());
    }

    fn places(ring: &Ring, from: u64) -> Vec<(u64, u32)> {
        ring.from(Revision(from)).map(|event| (event.revision.0, event.sub)).collect()
    }

    #[test]
    fn what_was_pushed_comes_back_in_order_over_many_blocks() {
        let mut ring = Ring::default();
        let mut all = Vec::new();
        for (revision, len) in (1..=400).zip((0..1_000).step_by(10).cycle()) {
            for sub in 0..3 {
                let event = event(revision, sub, len);
                push(&mut ring, &event);
                all.push(event);
            }
        }
        assert!(ring.blocks.len() > 5, "{}", ring.blocks.len());
        for from in [0, 1, 2, 77, 200, 399, 400] {
            let expected = all.iter().filter(|event| event.revision.0 >= from);
            let found: Vec<Arc<Event>> = ring.from(Revision(from)).collect();
            assert!(expected.eq(found.iter().map(|event| &**event)), "from {from}");
        }
        assert_eq!(places(&ring, 401), []);
        assert_eq!(ring.newest(), Some((Revision(400), 2)));
    }

    #[test]
    fn the_oldest_go_first_and_their_room_is_used_again() {
        let mut ring = Ring::default();
        for revision in 1..=20_000 {
            let event = event(revision, 0, 100);
            push(&mut ring, &event);
            if ring.len() > 1_000 {
                assert_eq!(ring.oldest(), Some(Revision(revision - 1_000)));
                assert_eq!(ring.drop_oldest(), Some(event.weight()));
            }
        }
        assert_eq!(places(&ring, 0).len(), 1_000);
        assert_eq!(places(&ring, 19_998), [(19_998, 0), (19_999, 0), (20_000, 0)]);
        let kept: usize = ring.blocks.iter().map(|block| block.bytes.capacity()).sum();
        assert!(kept <= 4 * BLOCK_BYTES, "{kept} bytes for a thousand events");
        while ring.drop_oldest().is_some() {}
        assert_eq!((ring.len(), ring.oldest(), ring.newest()), (0, None, None));
        push(&mut ring, &event(30_000, 1, 1));
        assert_eq!(places(&ring, 0), [(30_000, 1)]);
    }

    #[test]
    fn the_room_of_a_large_event_is_given_back() {
        let mut ring = Ring::default();
        push(&mut ring, &event(1, 0, 1 << 20));
        push(&mut ring, &event(2, 0, 1));
        assert_eq!(places(&ring, 0), [(1, 0), (2, 0)]);
        ring.drop_oldest();
        assert_eq!(ring.spare.capacity(), 0);
        assert_eq!(places(&ring, 0), [(2, 0)]);
    }
}
