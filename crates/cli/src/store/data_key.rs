//! Where the record of a name lies among the keys of the cluster.
//!
//! Guarantees: no such key stands in the queue of a lock. The queue of lock `N` is the keys `N/` and
//! a lease in hexadecimal digits; a name's slashes are escaped, and the prefix ends with a character
//! that is neither a slash nor such a digit.

/// A key of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataKey(String);

impl DataKey {
    /// Of this name.
    pub(super) fn of(prefix: &str, name: &str) -> DataKey {
        DataKey(format!("{prefix}{}", name.replace('%', "%25").replace('/', "%2F")))
    }

    pub(super) fn as_text(&self) -> &str {
        &self.0
    }
}

/// The name whose record lies at a key, if it is one of a store's.
pub(super) fn name(prefix: &str, key: &str) -> Option<String> {
    let name = key.strip_prefix(prefix)?.replace("%2F", "/").replace("%25", "%");
    (DataKey::of(prefix, &name).as_text() == key && !name.is_empty()).then_some(name)
}

/// Whether keys with this prefix are apart from all locks.
pub(super) fn check_prefix(prefix: &str) -> Result<(), &'static str> {
    match prefix.chars().last() {
        None => Err("it is empty"),
        Some('/') => Err("keys that end with a slash and a name may be those of a lock's queue"),
        Some(last) if last.is_ascii_hexdigit() => {
            Err("it ends with a hexadecimal digit, so a key may be one of a lock's queue")
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_is_in_no_queue() {
        for text in ["k", "2a", "jobs/2a", "100%", "%2F", "a%252Fb", "/", "é\n"] {
            let key = DataKey::of("data:", text);
            assert_eq!(name("data:", key.as_text()).as_deref(), Some(text));
            assert!(!key.as_text().contains('/'), "{key:?}");
        }
        for foreign in ["data:", "data:a/b", "data:%2", "data:%41", "other:k"] {
            assert_eq!(name("data:", foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_prefix_keeps_records_apart_from_queues() {
        for good in ["data:", "team/a/data:", "x"] {
            assert!(check_prefix(good).is_ok(), "{good}");
        }
        for bad in ["", "data/", "data", "0", "F"] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
    }
}
