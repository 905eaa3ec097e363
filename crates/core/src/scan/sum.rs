//! A hash of a set of keys that does not depend on their order.

use crate::event::KeyValue;

/// The sum of the hashes of single keys, so that one can be taken out again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum([u64; 4]);

impl Sum {
    pub(super) fn add(&mut self, kv: &KeyValue) {
        for (sum, part) in self.0.iter_mut().zip(parts(kv)) {
            *sum = sum.wrapping_add(part);
        }
    }

    pub(super) fn remove(&mut self, kv: &KeyValue) {
        for (sum, part) in self.0.iter_mut().zip(parts(kv)) {
            *sum = sum.wrapping_sub(part);
        }
    }

    /// The hash of so many keys.
    pub(super) fn hash(self, count: u64) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for number in self.0.into_iter().chain([count]) {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize().into()
    }
}

/// The hash of one key: what users see of it, each part of a known length.
fn parts(kv: &KeyValue) -> [u64; 4] {
    let numbers = [
        kv.key.len() as u64,
        kv.value.len() as u64,
        kv.create_revision.0,
        kv.mod_revision.0,
        kv.version,
        kv.lease.0.cast_unsigned(),
    ];
    let mut hasher = blake3::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&kv.key);
    hasher.update(&kv.value);
    let bytes: [u8; 32] = hasher.finalize().into();
    let (parts, _) = bytes.as_chunks();
    core::array::from_fn(|place| u64::from_le_bytes(parts[place]))
}
