//! Writes a database file as etcd keeps one, so that a snapshot taken here can be looked at and
//! restored with etcd's own tools.
//!
//! The file is a B+ tree of pages, built from the leaves up. Two meta pages say where its root is;
//! the root is a leaf that names the buckets; each bucket is a tree of its own. Nothing is ever
//! changed in place here, so there are no free pages.

/// As etcd's files have it on most machines.
const PAGE_BYTES: usize = 4_096;
const PAGE_HEAD_BYTES: usize = 16;
const ELEMENT_BYTES: usize = 16;

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;

const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const META: u16 = 0x04;
const FREE_LIST: u16 = 0x10;
/// Marks an element whose value is a bucket.
const BUCKET: u32 = 0x01;

/// The pages that come first: two metas and the list of free pages.
const FIRST_PAGE: u64 = 3;

/// A key and its value, in the order of the keys.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// The bytes of a database with these buckets, each in the order of its keys.
pub(super) fn database(buckets: &[(&str, Vec<Pair>)]) -> Vec<u8> {
    let mut file = File { bytes: vec![0; PAGE_BYTES * 3] };
    let mut roots = Vec::new();
    for (name, pairs) in buckets {
        let root = file.tree(pairs, 0);
        roots.push((name.as_bytes().to_vec(), bucket(root)));
    }
    roots.sort();
    let root = file.tree(&roots, BUCKET);
    file.finish(root)
}

/// What stands for a bucket: its root page, and a counter that nobody uses.
fn bucket(root: u64) -> Vec<u8> {
    [root.to_le_bytes(), [0; 8]].concat()
}

struct File {
    bytes: Vec<u8>,
}

/// An element on its way into a page. In a leaf it has a value, in a branch a page.
struct Element<'a> {
    key: &'a [u8],
    value: &'a [u8],
    page: u64,
}

impl File {
    fn next_page(&self) -> u64 {
        (self.bytes.len() / PAGE_BYTES) as u64
    }

    /// Writes a tree; its root.
    fn tree(&mut self, pairs: &[Pair], flags: u32) -> u64 {
        let leaves: Vec<Element<'_>> =
            pairs.iter().map(|(key, value)| Element { key, value, page: 0 }).collect();
        let mut level = self.level(&leaves, LEAF, flags);
        while level.len() > 1 {
            let branches: Vec<Element<'_>> = level
                .iter()
                .map(|(page, first)| Element { key: first, value: &[], page: *page })
                .collect();
            level = self.level(&branches, BRANCH, 0);
        }
        level[0].0
    }

    /// Writes one level of a tree: its pages, each with its first key.
    fn level(&mut self, elements: &[Element<'_>], kind: u16, flags: u32) -> Vec<(u64, Vec<u8>)> {
        let mut pages = Vec::new();
        let mut rest = elements;
        loop {
            let count = fits(rest);
            let (here, later) = rest.split_at(count);
            let first = here.first().map(|one| one.key.to_vec()).unwrap_or_default();
            pages.push((self.page(here, kind, flags), first));
            rest = later;
            if rest.is_empty() {
                return pages;
            }
        }
    }

    fn page(&mut self, elements: &[Element<'_>], kind: u16, flags: u32) -> u64 {
        let id = self.next_page();
        let data: usize = elements.iter().map(|one| one.key.len() + one.value.len()).sum();
        let len = PAGE_HEAD_BYTES + elements.len() * ELEMENT_BYTES + data;
        let overflow = len.div_ceil(PAGE_BYTES).max(1) - 1;
        let start = self.bytes.len();
        self.head(id, kind, elements.len(), overflow);
        let mut from_element = elements.len() * ELEMENT_BYTES;
        for one in elements {
            let (position, key, value) =
                (small(from_element), small(one.key.len()), one.value.len());
            match kind {
                BRANCH => {
                    self.put(&position.to_le_bytes());
                    self.put(&key.to_le_bytes());
                    self.put(&one.page.to_le_bytes());
                }
                _ => {
                    for number in [flags, position, key, small(value)] {
                        self.put(&number.to_le_bytes());
                    }
                }
            }
            from_element = from_element - ELEMENT_BYTES + one.key.len() + value;
        }
        for one in elements {
            self.put(one.key);
            self.put(one.value);
        }
        self.bytes.resize(start + (overflow + 1) * PAGE_BYTES, 0);
        id
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, id: u64, kind: u16, count: usize, overflow: usize) {
        self.put(&page_head(id, kind, count, overflow));
    }

    /// Fills in the pages that come first.
    fn finish(mut self, root: u64) -> Vec<u8> {
        let end = self.next_page();
        for id in 0..2_u64 {
            let mut page = page_head(id, META, 0, 0);
            let meta = meta(root, end, id);
            page.extend_from_slice(&meta);
            page.extend_from_slice(&fnv(&meta).to_le_bytes());
            let start = if id == 0 { 0 } else { PAGE_BYTES };
            self.bytes[start..start + page.len()].copy_from_slice(&page);
        }
        let free = page_head(FIRST_PAGE - 1, FREE_LIST, 0, 0);
        self.bytes[2 * PAGE_BYTES..2 * PAGE_BYTES + free.len()].copy_from_slice(&free);
        self.bytes
    }
}

/// How many elements go into one page. At least one does, however long it is.
fn fits(elements: &[Element<'_>]) -> usize {
    let mut len = PAGE_HEAD_BYTES;
    let mut count = 0;
    for one in elements {
        len += ELEMENT_BYTES + one.key.len() + one.value.len();
        if len > PAGE_BYTES && count > 0 {
            break;
        }
        count += 1;
    }
    count
}

fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn page_head(id: u64, kind: u16, count: usize, overflow: usize) -> Vec<u8> {
    let mut head = id.to_le_bytes().to_vec();
    head.extend_from_slice(&kind.to_le_bytes());
    head.extend_from_slice(&u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
    head.extend_from_slice(&small(overflow).to_le_bytes());
    head
}

/// A meta page: the one with the larger transaction counts.
fn meta(root: u64, end: u64, txn: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    for number in [MAGIC, VERSION, small(PAGE_BYTES), 0] {
        meta.extend_from_slice(&number.to_le_bytes());
    }
    for number in [root, 0, FIRST_PAGE - 1, end, txn] {
        meta.extend_from_slice(&number.to_le_bytes());
    }
    meta
}

/// The checksum of a meta page: FNV-1a of 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn short(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
    }

    /// Reads a tree as its definition says.
    fn read(file: &[u8], page: u64, found: &mut Vec<Pair>) {
        let start = usize::try_from(page).expect("it is small") * PAGE_BYTES;
        assert_eq!(number(file, start), page);
        let kind = u16::from_le_bytes([file[start + 8], file[start + 9]]);
        let count = usize::from(u16::from_le_bytes([file[start + 10], file[start + 11]]));
        for place in 0..count {
            let element = start + PAGE_HEAD_BYTES + place * ELEMENT_BYTES;
            if kind == BRANCH {
                read(file, number(file, element + 8), found);
                continue;
            }
            let (position, key) = (short(file, element + 4), short(file, element + 8));
            let (from, value) = (element + position, short(file, element + 12));
            let key_end = from + key;
            found.push((file[from..key_end].to_vec(), file[key_end..key_end + value].to_vec()));
        }
    }

    #[test]
    fn what_was_written_is_read_again_whatever_its_length() {
        for count in [0, 1, 50, 5_000] {
            let pairs: Vec<Pair> = (0..count)
                .map(|number: u32| {
                    let len = if number.is_multiple_of(97) { 9_000 } else { number % 300 };
                    (number.to_be_bytes().to_vec(), vec![7; len as usize])
                })
                .collect();
            let file = database(&[("key", pairs.clone()), ("a", Vec::new())]);
            assert_eq!(file.len() % PAGE_BYTES, 0);
            let root = number(&file, PAGE_HEAD_BYTES + 16);
            let mut buckets = Vec::new();
            read(&file, root, &mut buckets);
            let names: Vec<&[u8]> = buckets.iter().map(|(name, _)| &**name).collect();
            assert_eq!(names, [b"a".as_slice(), b"key"]);
            let mut found = Vec::new();
            read(&file, number(&buckets[1].1, 0), &mut found);
            assert_eq!(found, pairs);
        }
    }
}
