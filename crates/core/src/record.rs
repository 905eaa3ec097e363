//! What the state stores for each key, and for each place in a queue.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::command::Mode;
use crate::event::{Holding, KeyValue};
use crate::ids::{
    CallId, ClientId, Key, LeaseId, LockName, LogTime, Millis, Revision, Seq, Token, Value,
};

/// A key's record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) value: Value,
    pub(crate) created: Revision,
    pub(crate) modified: Revision,
    pub(crate) version: u64,
    pub(crate) lease: LeaseId,
    /// Its place among the keys that were created at the same revision.
    pub(crate) sub: u32,
    pub(crate) role: Role,
}

/// What a key is to the lock that is its parent path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Role {
    /// Nothing: its last segment is no lease id.
    Plain,
    /// It stands in the queue and blocks, but can never be granted.
    Foreign,
    /// It stands in the queue for its lease.
    Contender(Contender),
}

/// A place in a queue that can be granted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contender {
    pub(crate) mode: Mode,
    /// Since when it has waited, or held.
    pub(crate) since: LogTime,
    /// The revision at which it was granted; none while it waits.
    pub(crate) granted: Revision,
    /// The number of the acquire that made it, whose answer the grant completes.
    pub(crate) seq: Seq,
    pub(crate) wait_until: LogTime,
    pub(crate) metadata: Value,
    /// What few contenders have, so that the many do not pay for it.
    pub(crate) extra: Option<Box<Extra>>,
}

/// What few contenders have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extra {
    /// Part of an atomic acquisition of several locks, all created at one revision.
    pub(crate) grouped: bool,
    /// Several acquires were answered with this place, not only `Contender::seq`.
    pub(crate) shared_answer: bool,
    /// The call that may take it back: the last one that asked for it.
    ///
    /// None, if it belongs to its lease alone: because a session asked for it, or because more
    /// than one call was told that it holds.
    pub(crate) call: Option<CallId>,
    /// It must not outlive that call: nobody was told of it yet.
    pub(crate) bound: bool,
    pub(crate) lock_delay: Millis,
    pub(crate) budget: Millis,
    pub(crate) hold_max: Millis,
    /// An operator's release under way: when it takes effect.
    pub(crate) forced: Option<LogTime>,
}

/// The kept answers that depend on a contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    /// The number of the acquire that made it.
    pub(crate) seq: Seq,
    /// Others wait on the same place.
    pub(crate) shared: bool,
}

impl Contender {
    pub(crate) fn holds(&self) -> bool {
        self.granted != Revision::NONE
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Which kept answers a grant or an end completes.
    pub(crate) fn answers(&self) -> Answers {
        Answers {
            seq: self.seq,
            shared: self.extra.as_ref().is_some_and(|extra| extra.shared_answer),
        }
    }

    pub(crate) fn is_grouped(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.grouped)
    }

    pub(crate) fn call(&self) -> Option<CallId> {
        self.extra.as_ref().and_then(|extra| extra.call)
    }

    /// The call that it must not outlive.
    pub(crate) fn bound_to(&self) -> Option<CallId> {
        self.extra.as_ref().filter(|extra| extra.bound).and_then(|extra| extra.call)
    }

    pub(crate) fn forced(&self) -> Option<LogTime> {
        self.extra.as_ref().and_then(|extra| extra.forced)
    }

    /// When a hold that began at `since` goes over its budget, if it has one.
    pub(crate) fn budget_ends(&self) -> Option<LogTime> {
        self.span_end(|extra| extra.budget)
    }

    /// When a hold that began at `since` stops being renewed, if it ever does.
    pub(crate) fn hold_ends(&self) -> Option<LogTime> {
        self.span_end(|extra| extra.hold_max)
    }

    fn span_end(&self, span: impl Fn(&Extra) -> Millis) -> Option<LogTime> {
        let span = self.extra.as_deref().map_or(Millis::ZERO, span);
        (self.holds() && span > Millis::ZERO).then(|| self.since.after(span))
    }
}

impl Record {
    pub(crate) fn token(&self) -> Token {
        Token::from(self.created)
    }

    pub(crate) fn contender(&self) -> Option<&Contender> {
        match &self.role {
            Role::Contender(contender) => Some(contender),
            Role::Plain | Role::Foreign => None,
        }
    }

    pub(crate) fn contender_mut(&mut self) -> Option<&mut Contender> {
        match &mut self.role {
            Role::Contender(contender) => Some(contender),
            Role::Plain | Role::Foreign => None,
        }
    }

    pub(crate) fn in_queue(&self) -> bool {
        !matches!(self.role, Role::Plain)
    }

    pub(crate) fn holds(&self) -> bool {
        self.contender().is_some_and(Contender::holds)
    }

    /// Where it stands in its queue.
    pub(crate) fn spot(&self) -> Spot {
        Spot { created: self.created, sub: self.sub }
    }

    pub(crate) fn key_value(&self, key: &Key) -> KeyValue {
        KeyValue {
            key: key.clone(),
            value: self.value.clone(),
            create_revision: self.created,
            mod_revision: self.modified,
            version: self.version,
            lease: self.lease,
        }
    }

    /// What the key was like, once it is gone.
    pub(crate) fn into_key_value(self, key: Key) -> KeyValue {
        KeyValue {
            key,
            value: self.value,
            create_revision: self.created,
            mod_revision: self.modified,
            version: self.version,
            lease: self.lease,
        }
    }

    /// The revision that it has in common with the others of an atomic acquisition, if it is part
    /// of one that is not granted yet.
    pub(crate) fn group(&self) -> Option<Revision> {
        self.contender().filter(|contender| contender.is_grouped()).map(|_| self.created)
    }

    pub(crate) fn holding(&self, key: &Key, client: &ClientId) -> Holding {
        let lease = lease_named_by(key).unwrap_or(self.lease);
        Holding { key: key.clone(), token: self.token(), lease, client: client.clone() }
    }
}

/// An order over all keys that ever stand in queues: by creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) created: Revision,
    pub(crate) sub: u32,
}

/// Splits a key of the form `NAME/<lease id in canonical hex>`.
pub fn queue_form(key: &Key) -> Option<(LockName, LeaseId)> {
    let (name_len, lease) = queue_parts(key)?;
    Some((LockName::prefix_of(key, name_len), lease))
}

/// The lease that a key of a queue's form is named after.
pub fn lease_named_by(key: &Key) -> Option<LeaseId> {
    queue_parts(key).map(|(_, lease)| lease)
}

/// How long the name of the lock is, and the lease.
fn queue_parts(key: &Key) -> Option<(usize, LeaseId)> {
    let slash = key.iter().rposition(|&byte| byte == b'/')?;
    Some((slash, parse_lease(&key[slash + 1..])?))
}

/// Lower-case hex without leading zeros, of a positive id: one spelling for one id, because two
/// spellings would let one lease stand twice in a queue.
fn parse_lease(digits: &[u8]) -> Option<LeaseId> {
    if digits.is_empty() || digits.len() > 16 || digits[0] == b'0' {
        return None;
    }
    let mut id: u64 = 0;
    for &digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        id = id << 4 | u64::from(value);
    }
    i64::try_from(id).ok().map(LeaseId)
}

/// Hands the bytes of the key with which `lease` stands in the queue of `name` to `use_key`.
///
/// They are put together on the stack, because most lookups need no key of their own.
pub(crate) fn with_contender_key<T>(
    name: &[u8],
    lease: LeaseId,
    use_key: impl FnOnce(&[u8]) -> T,
) -> T {
    const STACK_LEN: usize = 256;
    let (suffix, start) = suffix(lease);
    let suffix = &suffix[start..];
    let len = name.len() + suffix.len();
    let mut stack = [0_u8; STACK_LEN];
    if len <= STACK_LEN {
        stack[..name.len()].copy_from_slice(name);
        stack[name.len()..len].copy_from_slice(suffix);
        return use_key(&stack[..len]);
    }
    let mut heap = Vec::with_capacity(len);
    heap.extend_from_slice(name);
    heap.extend_from_slice(suffix);
    use_key(&heap)
}

/// A slash and the hex digits of a lease's id, at the end of the array from the index on.
fn suffix(lease: LeaseId) -> ([u8; 17], usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = [0_u8; 17];
    let mut rest = lease.0.unsigned_abs();
    let mut start = bytes.len();
    while start > 1 {
        start -= 1;
        bytes[start] = DIGITS[(rest & 0xf) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    start -= 1;
    bytes[start] = b'/';
    (bytes, start)
}

/// The key with which `lease` stands in the queue of `name`.
pub fn contender_key(name: &[u8], lease: LeaseId) -> Key {
    with_contender_key(name, lease, |key| Key::from(key))
}

/// The name of a lock, whose bytes go on to the key with which `lease` stands in its queue: whoever
/// wants the key as well has it for nothing.
pub fn contended_name(name: &[u8], lease: LeaseId) -> LockName {
    LockName::prefix_of(&contender_key(name, lease), name.len())
}

/// The key with which `lease` stands in the queue of a lock. If the bytes of the name go on to that very
/// key, they are shared.
pub fn contender_key_of(name: &LockName, lease: LeaseId) -> Key {
    let shared = name.longer_key().filter(|key| {
        let (suffix, start) = suffix(lease);
        key[name.len()..] == suffix[start..]
    });
    shared.unwrap_or_else(|| contender_key(name, lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_for_one_lease() {
        for id in [1, 9, 10, 0xabc, 7_587_848_390_234, i64::MAX] {
            let key = contender_key(b"a/b", LeaseId(id));
            let (name, lease) = queue_form(&key).expect("a contender's key has the queue's form");
            assert_eq!((&*name, lease), (&b"a/b"[..], LeaseId(id)));
        }
        for other in ["a/", "a/0", "a/01", "a/A", "a/g", "a/8000000000000000", "a/1/", "1f"] {
            assert_eq!(queue_form(&Key::from(other)), None, "{other}");
        }
    }

    #[test]
    fn a_name_shares_the_key_that_it_is_a_part_of() {
        let key = contender_key(b"a/b", LeaseId(0x1f));
        let name = LockName::prefix_of(&key, 3);
        assert!(core::ptr::eq(&*contender_key_of(&name, LeaseId(0x1f)), &*key));
        for other in [0x1, 0xf, 0x1f0, 0x2f] {
            let own = contender_key_of(&name, LeaseId(other));
            assert_eq!(own, contender_key(b"a/b", LeaseId(other)));
        }
        let plain = LockName::from("a/b");
        assert_eq!(contender_key_of(&plain, LeaseId(0x1f)), key);
    }
}
