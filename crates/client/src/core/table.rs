//! Records by numbers of this process's own: found by hashing, walked in the order of the numbers.
//!
//! Nobody outside chooses the numbers, and they count up, so one multiplication is hash enough.
//! There is no walk in the order of the hash: what a session does follows from its inputs alone.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A hash map for keys that are numbers of this process's own.
pub(crate) type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Spreads numbers that count up.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl NumberHasher {
    /// Odd, so that neighbours never meet, and without a pattern in its bits.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
}

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(8) ^ number).wrapping_mul(NumberHasher::FACTOR);
    }

    /// Which variant an enum is.
    fn write_isize(&mut self, variant: isize) {
        self.write_u64(u64::try_from(variant).unwrap_or(u64::MAX));
    }
}

pub(super) struct Table<K, V>(ByNumber<K, V>);

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table(HashMap::default())
    }
}

impl<K: Copy + Ord + Hash, V> Table<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn insert(&mut self, key: K, record: V) {
        self.0.insert(key, record);
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in order.
    pub(super) fn keys(&self) -> Vec<K> {
        self.keys_where(|_| true)
    }

    /// Those whose record is like this, in order.
    pub(super) fn keys_where(&self, is_like: impl Fn(&V) -> bool) -> Vec<K> {
        let found = self.0.iter().filter(|(_, record)| is_like(record));
        let mut keys: Vec<K> = found.map(|(&key, _)| key).collect();
        keys.sort_unstable();
        keys
    }

    /// The first one whose record is like this.
    pub(super) fn first_where(&self, is_like: impl Fn(&V) -> bool) -> Option<K> {
        self.0.iter().filter(|(_, record)| is_like(record)).map(|(&key, _)| key).min()
    }
}

impl<K: Copy + Ord + Hash + fmt::Debug, V: fmt::Debug> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.keys().iter().map(|key| (key, &self.0[key]))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_walked_in_order_whatever_came_and_went() {
        let mut table = Table::default();
        for number in (0..1_000_u64).rev() {
            table.insert(number, number);
        }
        for number in (0..1_000).filter(|number| number % 7 != 0) {
            assert_eq!(table.remove(&number), Some(number));
        }
        let left: Vec<u64> = (0..1_000).step_by(7).collect();
        assert_eq!(table.keys(), left);
        assert_eq!(table.first_where(|&record| record > 500), Some(504));
        assert_eq!(table.len(), left.len());
    }
}
