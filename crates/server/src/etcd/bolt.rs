//! Writes a database file as etcd keeps one, so that a snapshot taken here can be looked at and
//! restored with etcd's own tools.
//!
//! The file is a B+ tree of pages, built from the leaves up. Two meta pages say where its root is;
//! the root is a leaf that names the buckets; each bucket is a tree of its own. Nothing is ever
//! changed in place here, so there are no free pages. It is written page by page: whoever asks for a
//! snapshot must not cost as much memory as everything that is stored.

use std::io::{self, Seek, Write};

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

/// Writes a database with these buckets, page by page. Of a bucket only one page is in memory, and
/// the first key of each.
pub(super) struct Database<W> {
    to: W,
    /// How many pages were written.
    pages: u64,
    roots: Vec<Pair>,
}

/// An element on its way into a page. In a leaf it has a value, in a branch a page.
struct Element {
    key: Vec<u8>,
    value: Vec<u8>,
    page: u64,
}

impl Element {
    fn bytes(&self) -> usize {
        ELEMENT_BYTES + self.key.len() + self.value.len()
    }
}

/// The pages of one level of a tree, each with its first key.
type Level = Vec<(u64, Vec<u8>)>;

impl<W: Write + Seek> Database<W> {
    /// Begins one.
    pub(super) fn new(mut to: W) -> io::Result<Database<W>> {
        let first = usize::try_from(FIRST_PAGE).expect("a handful") * PAGE_BYTES;
        to.write_all(&vec![0; first])?;
        Ok(Database { to, pages: FIRST_PAGE, roots: Vec::new() })
    }

    /// Writes a bucket with these pairs, which are in the order of their keys.
    pub(super) fn bucket(
        &mut self,
        name: &str,
        pairs: impl IntoIterator<Item = Pair>,
    ) -> io::Result<()> {
        let root = self.tree(pairs, 0)?;
        self.roots.push((name.as_bytes().to_vec(), bucket(root)));
        Ok(())
    }

    /// Writes what names the buckets, and fills in the pages that come first.
    pub(super) fn finish(mut self) -> io::Result<W> {
        let mut roots = std::mem::take(&mut self.roots);
        roots.sort();
        let root = self.tree(roots, BUCKET)?;
        let end = self.pages;
        self.to.rewind()?;
        for id in 0..2_u64 {
            let mut page = page_head(id, META, 0, 0);
            let meta = meta(root, end, id);
            page.extend_from_slice(&meta);
            page.extend_from_slice(&fnv(&meta).to_le_bytes());
            page.resize(PAGE_BYTES, 0);
            self.to.write_all(&page)?;
        }
        self.to.write_all(&page_head(FIRST_PAGE - 1, FREE_LIST, 0, 0))?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// Writes a tree; its root.
    fn tree(&mut self, pairs: impl IntoIterator<Item = Pair>, flags: u32) -> io::Result<u64> {
        let leaves = pairs.into_iter().map(|(key, value)| Element { key, value, page: 0 });
        let mut level = self.level(leaves, LEAF, flags)?;
        while level.len() > 1 {
            let branches =
                level.into_iter().map(|(page, key)| Element { key, value: Vec::new(), page });
            level = self.level(branches, BRANCH, 0)?;
        }
        let (root, _) = level.first().expect("every level has a page");
        Ok(*root)
    }

    /// Writes one level of a tree. At least one element goes into a page, however long it is.
    fn level(
        &mut self,
        elements: impl Iterator<Item = Element>,
        kind: u16,
        flags: u32,
    ) -> io::Result<Level> {
        let (mut level, mut here, mut len) = (Level::new(), Vec::new(), PAGE_HEAD_BYTES);
        for element in elements {
            if len + element.bytes() > PAGE_BYTES && !here.is_empty() {
                level.push(self.page(&here, kind, flags)?);
                here.clear();
                len = PAGE_HEAD_BYTES;
            }
            len += element.bytes();
            here.push(element);
        }
        if level.is_empty() || !here.is_empty() {
            level.push(self.page(&here, kind, flags)?);
        }
        Ok(level)
    }

    /// Writes a page; its number, and its first key.
    fn page(&mut self, elements: &[Element], kind: u16, flags: u32) -> io::Result<(u64, Vec<u8>)> {
        let id = self.pages;
        let data: usize = elements.iter().map(|one| one.key.len() + one.value.len()).sum();
        let len = PAGE_HEAD_BYTES + elements.len() * ELEMENT_BYTES + data;
        let pages = len.div_ceil(PAGE_BYTES).max(1);
        let mut page = page_head(id, kind, elements.len(), pages - 1);
        page.reserve_exact(pages * PAGE_BYTES - page.len());
        let mut from_element = elements.len() * ELEMENT_BYTES;
        for one in elements {
            let (position, key, value) =
                (small(from_element), small(one.key.len()), one.value.len());
            match kind {
                BRANCH => {
                    page.extend_from_slice(&position.to_le_bytes());
                    page.extend_from_slice(&key.to_le_bytes());
                    page.extend_from_slice(&one.page.to_le_bytes());
                }
                _ => {
                    for number in [flags, position, key, small(value)] {
                        page.extend_from_slice(&number.to_le_bytes());
                    }
                }
            }
            from_element = from_element - ELEMENT_BYTES + one.key.len() + value;
        }
        for one in elements {
            page.extend_from_slice(&one.key);
            page.extend_from_slice(&one.value);
        }
        page.resize(pages * PAGE_BYTES, 0);
        self.to.write_all(&page)?;
        self.pages += pages as u64;
        Ok((id, elements.first().map(|one| one.key.clone()).unwrap_or_default()))
    }
}

/// What stands for a bucket: its root page, and a counter that nobody uses.
fn bucket(root: u64) -> Vec<u8> {
    [root.to_le_bytes(), [0; 8]].concat()
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
    use std::io::Cursor;

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
            let mut database = Database::new(Cursor::new(Vec::new())).expect("it is memory");
            database.bucket("key", pairs.clone()).expect("it is memory");
            database.bucket("a", Vec::new()).expect("it is memory");
            let file = database.finish().expect("it is memory").into_inner();
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
