//! Which watches an event concerns.
//!
//! Owns: the live watches by key, by prefix, and the few of other ranges. Guarantees: an event costs
//! one lookup for its key and one for each length that a watched prefix has, however many watches
//! there are. Only watches of ranges that are neither one key nor a prefix are compared one by one.

use std::collections::{BTreeMap, HashMap};

use fencepost_core::Key;
use fencepost_core::range::KeyRange;

/// The numbers of watches by what they watch.
#[derive(Debug, Default)]
pub(super) struct Index {
    by_key: HashMap<Key, Vec<u64>>,
    by_prefix: HashMap<Key, Vec<u64>>,
    /// How many watched prefixes have each length.
    lengths: BTreeMap<usize, usize>,
    others: Vec<u64>,
}

/// What a range is to the index.
enum Kind<'a> {
    One(&'a Key),
    Prefix(&'a Key),
    Other,
}

impl Kind<'_> {
    fn of(range: &KeyRange) -> Kind<'_> {
        match range {
            KeyRange::One(key) => Kind::One(key),
            range if KeyRange::prefix(range.start()) == *range => Kind::Prefix(range.start()),
            _ => Kind::Other,
        }
    }
}

impl Index {
    pub(super) fn add(&mut self, range: &KeyRange, number: u64) {
        match Kind::of(range) {
            Kind::One(key) => self.by_key.entry(key.clone()).or_default().push(number),
            Kind::Prefix(prefix) => {
                let numbers = self.by_prefix.entry(prefix.clone()).or_default();
                if numbers.is_empty() {
                    *self.lengths.entry(prefix.len()).or_default() += 1;
                }
                numbers.push(number);
            }
            Kind::Other => self.others.push(number),
        }
    }

    /// A watch that was added has ended.
    pub(super) fn remove(&mut self, range: &KeyRange, number: u64) {
        match Kind::of(range) {
            Kind::One(key) => {
                take_out(&mut self.by_key, key, number);
            }
            Kind::Prefix(prefix) => {
                if take_out(&mut self.by_prefix, prefix, number)
                    && let Some(count) = self.lengths.get_mut(&prefix.len())
                {
                    *count -= 1;
                    if *count == 0 {
                        self.lengths.remove(&prefix.len());
                    }
                }
            }
            Kind::Other => self.others.retain(|&one| one != number),
        }
    }

    /// The watches of this key and of its prefixes, and those of other ranges, wherever they lie.
    pub(super) fn candidates<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = u64> + 'a {
        let exact = self.by_key.get(key).into_iter().flatten();
        let lengths = self.lengths.range(..=key.len()).map(|(&length, _)| length);
        let prefixes = lengths.filter_map(|length| self.by_prefix.get(&key[..length])).flatten();
        exact.chain(prefixes).chain(&self.others).copied()
    }
}

/// Takes a number out. Whether it was the last one of its key.
fn take_out(all: &mut HashMap<Key, Vec<u64>>, key: &Key, number: u64) -> bool {
    let Some(numbers) = all.get_mut(key) else { return false };
    numbers.retain(|&one| one != number);
    let is_last = numbers.is_empty();
    if is_last {
        all.remove(key);
    }
    is_last
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn found(index: &Index, key: &str) -> BTreeSet<u64> {
        let key = Key::from(key);
        let all: Vec<u64> = index.candidates(&key).collect();
        let found: BTreeSet<u64> = all.iter().copied().collect();
        assert_eq!(found.len(), all.len(), "a watch is found twice: {all:?}");
        found
    }

    // Requirements: S0-116.
    #[test]
    fn index_finds_the_watches_of_exactly_one_key() {
        let mut index = Index::default();
        for number in 0..1_000 {
            index.add(&KeyRange::One(Key::from(&*format!("k{}", number % 500))), number);
        }
        assert_eq!(found(&index, "k7"), BTreeSet::from([7, 507]));
        assert!(found(&index, "k").is_empty() && found(&index, "k70/x").is_empty());
        index.remove(&KeyRange::One(Key::from("k7")), 7);
        assert_eq!(found(&index, "k7"), BTreeSet::from([507]));
    }

    // Requirements: S0-117, S0-137.
    #[test]
    fn index_finds_the_watches_of_every_prefix() {
        let mut index = Index::default();
        for number in 0..1_000 {
            index.add(&KeyRange::prefix(format!("p{number}/").as_bytes()), number);
        }
        for (number, prefix) in [(1_000, "p7/a"), (1_001, "p"), (1_002, ""), (1_003, "p7/a")] {
            index.add(&KeyRange::prefix(prefix.as_bytes()), number);
        }
        assert_eq!(found(&index, "p7/ab"), BTreeSet::from([7, 1_000, 1_001, 1_002, 1_003]));
        assert_eq!(found(&index, "p7/"), BTreeSet::from([7, 1_001, 1_002]));
        assert_eq!(found(&index, "p7"), BTreeSet::from([1_001, 1_002]));
        assert_eq!(found(&index, "q"), BTreeSet::from([1_002]));
        index.remove(&KeyRange::prefix(b"p7/a"), 1_000);
        assert_eq!(found(&index, "p7/ab"), BTreeSet::from([7, 1_001, 1_002, 1_003]));
    }

    #[test]
    fn index_agrees_with_the_ranges_themselves() {
        let texts = ["", "a", "ab", "abc", "b", "a\u{7f}", "zz"];
        let mut keys: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        keys.extend([vec![0xff], vec![0xff, 0xff], vec![b'a', 0xff], vec![b'a', 0xff, 0]]);
        let mut index = Index::default();
        let ones = keys.iter().map(|key| KeyRange::One(Key::from(&**key)));
        let prefixes = keys.iter().map(|key| KeyRange::prefix(key));
        let ranges: Vec<KeyRange> = ones.chain(prefixes).collect();
        for (number, range) in (0..).zip(&ranges) {
            index.add(range, number);
        }
        let spans = KeyRange::Span(Key::from("a"), Key::from("zz"));
        index.add(&spans, 1_000);
        for key in &keys {
            let key = Key::from(&**key);
            let expected = (0..).zip(&ranges).filter(|(_, range)| range.contains(&key));
            let mut expected: BTreeSet<u64> = expected.map(|(number, _)| number).collect();
            expected.insert(1_000);
            assert_eq!(index.candidates(&key).collect::<BTreeSet<u64>>(), expected, "{key}");
        }
        for (number, range) in (0..).zip(&ranges).chain([(1_000, &spans)]) {
            index.remove(range, number);
        }
        assert!(index.by_key.is_empty() && index.by_prefix.is_empty());
        assert!(index.lengths.is_empty() && index.others.is_empty());
    }
}
