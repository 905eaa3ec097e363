//! Which lock a key belongs to.

use fencepost_core::{Key, LeaseId, LockName};

/// The lock in whose queue a key stands, and the lease it is named after, if it is named so.
pub(in crate::check) fn split_key(key: &Key) -> Option<(LockName, LeaseId)> {
    let slash = key.iter().rposition(|&byte| byte == b'/')?;
    let segment = std::str::from_utf8(&key[slash + 1..]).ok()?;
    if slash == 0 || segment.len() > 16 {
        return None;
    }
    let number = u64::from_str_radix(segment, 16).ok()?;
    let lease = i64::try_from(number).ok().filter(|&lease| lease > 0)?;
    // Only the canonical spelling is a lease's.
    (format!("{lease:x}") == segment).then(|| (LockName::from(&key[..slash]), LeaseId(lease)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lease_in_its_own_spelling_counts() {
        let split = |key: &str| split_key(&Key::from(key)).map(|(name, id)| (name.to_vec(), id.0));
        assert_eq!(split("a/b/1f"), Some((b"a/b".to_vec(), 0x1f)));
        for plain in ["a", "/1", "a/", "a/0", "a/01", "a/1F", "a/x1", "a/11111111111111111"] {
            assert_eq!(split(plain), None, "{plain}");
        }
    }
}
