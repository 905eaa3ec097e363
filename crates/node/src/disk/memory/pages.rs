//! The bytes of one simulated file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bytes::{to_u64, to_usize};

const PAGE: usize = 4096;

/// Bytes in pages. A page that is not there is all zeros, and copies share their pages, so that
/// preallocated files and copies of whole disks cost next to nothing.
#[derive(Clone, Default, Debug)]
pub(super) struct Pages {
    len: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Fills `into`. `None` if it reaches beyond the end.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> Option<()> {
        if offset.checked_add(to_u64(into.len()))? > self.len {
            return None;
        }
        for (page, within, range) in parts(offset, into.len()) {
            let into = &mut into[range];
            match self.pages.get(&page) {
                Some(bytes) => into.copy_from_slice(&bytes[within..within + into.len()]),
                None => into.fill(0),
            }
        }
        Some(())
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, within, range) in parts(offset, bytes.len()) {
            let bytes = &bytes[range];
            self.page_mut(page)[within..within + bytes.len()].copy_from_slice(bytes);
        }
        self.len = self.len.max(offset + to_u64(bytes.len()));
    }

    pub(super) fn write_zeros(&mut self, offset: u64, len: u64) {
        for (page, within, range) in parts(offset, to_usize(len)) {
            if range.len() == PAGE {
                self.pages.remove(&page);
            } else if self.pages.contains_key(&page) {
                self.page_mut(page)[within..within + range.len()].fill(0);
            }
        }
        self.len = self.len.max(offset + len);
    }

    fn page_mut(&mut self, page: u64) -> &mut [u8; PAGE] {
        Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE])))
    }
}

/// Cuts a stretch of a file at the borders of its pages: the page, the offset within it, and the
/// part of the stretch that lies there.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + to_u64(done);
        let within = to_usize(at % to_u64(PAGE));
        let piece = (PAGE - within).min(len - done);
        let range = done..done + piece;
        done += piece;
        Some((at / to_u64(PAGE), within, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_across_pages_come_back() {
        let mut pages = Pages::default();
        let bytes: Vec<u8> = (0..10_000_u32).map(|n| n.to_le_bytes()[0] | 1).collect();
        pages.write(3_000, &bytes);
        let copy = pages.clone();
        pages.write_zeros(4_000, 5_000);
        let mut whole = vec![7; 13_000];
        assert!(pages.read(0, &mut whole).is_some());
        assert!(whole[..3_000].iter().all(|byte| *byte == 0));
        assert_eq!(whole[3_000..4_000], bytes[..1_000]);
        assert!(whole[4_000..9_000].iter().all(|byte| *byte == 0));
        assert_eq!(whole[9_000..], bytes[6_000..]);
        assert!(copy.read(3_000, &mut whole[..10_000]).is_some());
        assert_eq!(whole[..10_000], bytes);
        assert!(pages.read(12_999, &mut whole[..2]).is_none());
    }
}
