//! The small types that every signature is made of.
//!
//! Two bare integers side by side are a bug waiting to happen, so each quantity has its own type
//! at every public edge.

use alloc::sync::Arc;
use core::borrow::Borrow;
use core::cmp::Ordering;
use core::fmt;
use core::ops::Deref;

/// A length of time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// No time at all.
    pub const ZERO: Millis = Millis(0);

    /// A length given in whole seconds.
    pub const fn from_secs(secs: u64) -> Millis {
        Millis(secs.saturating_mul(1_000))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// A moment in log time: milliseconds since the cluster began, as the leaders' stamps count them.
///
/// Log time may run slower than true time, never faster. It is no wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogTime(pub u64);

impl LogTime {
    /// A moment that never comes: the deadline of what has none.
    pub const NEVER: LogTime = LogTime(u64::MAX);
    /// Stamps stay below this, so that adding a length to one never comes near [`Self::NEVER`].
    pub const LIMIT: LogTime = LogTime(1 << 53);

    /// The moment `length` after this one.
    #[must_use]
    pub const fn after(self, length: Millis) -> LogTime {
        LogTime(self.0.saturating_add(length.0))
    }

    /// How long it is from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: LogTime) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// A version of the key space. Every command or transaction that changes keys raises it by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// What "no revision" is written as: a key that does not exist was created at zero.
    pub const NONE: Revision = Revision(0);
    /// A fresh state stands here, as a fresh etcd does.
    pub const FIRST: Revision = Revision(1);
    /// Revisions stay below this, so that a JSON number can carry one.
    pub const LIMIT: Revision = Revision(1 << 53);

    /// The revision after this one.
    #[must_use]
    pub const fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

/// A fencing token: the `create_revision` of the contender that was granted the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

impl From<Revision> for Token {
    fn from(created: Revision) -> Token {
        Token(created.0)
    }
}

/// The name of a lease. Positive in use; zero means "none" or "choose one".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl LeaseId {
    /// No lease.
    pub const NONE: LeaseId = LeaseId(0);

    /// Whether this stands for no lease.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// Which grant of a lease id is meant. Ids may be reused, epochs never are.
///
/// Zero means "any": it is what doors without epochs (etcd's) send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Matches every epoch.
    pub const ANY: Epoch = Epoch(0);
}

/// The number that a caller gives to a request, so that a repeat of it is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl Seq {
    /// A request without a number.
    pub const NONE: Seq = Seq(0);
}

/// A member of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// One life of a member's process: it grows with every start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(pub u64);

/// The public half of a key with which a member signs fencing tokens (Ed25519).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// A call that a client has open on one boot of one member. No two calls have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The member that serves the call.
    pub node: NodeId,
    /// That member's boot; the call dies with it.
    pub boot: Boot,
    /// Counts the calls of that boot.
    pub number: u64,
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        ///
        /// Nothing is stored for the empty text.
        #[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Option<Arc<str>>);

        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                self.0.as_deref().unwrap_or_default()
            }

            /// Whether the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_none()
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> $name {
                $name((!text.is_empty()).then(|| Arc::from(text)))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

text_id! {
    /// Who a client says it is. A label for people and the owner of leases, not a proof.
    ClientId
}

text_id! {
    /// Who asks, as the door established it. Empty means nobody in particular.
    Actor
}

text_id! {
    /// The part of the cluster that a command is for. Empty means the default one.
    Namespace
}

/// Renders bytes as text, escaping what cannot be printed.
fn write_bytes(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for chunk in bytes.utf8_chunks() {
        f.write_str(chunk.valid())?;
        for byte in chunk.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// The order of byte strings. A walk down a tree compares a dozen names, and those that differ early
/// are told apart without a call. Where all begin alike, the look costs no time that can be measured.
#[inline]
fn order(one: &[u8], other: &[u8]) -> Ordering {
    if let (Some(head), Some(other_head)) = (one.first_chunk::<8>(), other.first_chunk::<8>()) {
        let (head, other_head) = (u64::from_be_bytes(*head), u64::from_be_bytes(*other_head));
        if head != other_head {
            return head.cmp(&other_head);
        }
    }
    one.cmp(other)
}

/// The name of a key: any bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Arc<[u8]>);

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        order(self, other)
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Key {
        Key(Arc::from(bytes))
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key::from(text.as_bytes())
    }
}

impl Default for Key {
    fn default() -> Key {
        Key::from("")
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(self, f)
    }
}

/// The value of a key, or other bytes that belong to a user. Nothing is stored for no bytes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(Option<Arc<[u8]>>);

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Value {
        Value((!bytes.is_empty()).then(|| Arc::from(bytes)))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::from(text.as_bytes())
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(self, f)
    }
}

/// The name of a lock: the parent path of the keys in its queue.
///
/// It is a prefix of shared bytes, so that the index of locks can borrow the name from the key
/// that founded the queue instead of storing it a second time.
#[derive(Clone)]
pub struct LockName {
    bytes: Arc<[u8]>,
    len: u32,
}

impl LockName {
    /// The first `len` bytes of `key` as a name.
    pub(crate) fn prefix_of(key: &Key, len: usize) -> LockName {
        let len = u32::try_from(len).expect("keys are far shorter than 4 GiB");
        LockName { bytes: key.0.clone(), len }
    }

    /// The key that this name is a part of, if it is one.
    pub(crate) fn longer_key(&self) -> Option<Key> {
        (self.bytes.len() > self.len as usize).then(|| Key(self.bytes.clone()))
    }
}

impl Deref for LockName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }
}

impl From<&[u8]> for LockName {
    fn from(bytes: &[u8]) -> LockName {
        let key = Key::from(bytes);
        let len = key.len();
        LockName::prefix_of(&key, len)
    }
}

impl From<&str> for LockName {
    fn from(text: &str) -> LockName {
        LockName::from(text.as_bytes())
    }
}

impl Default for LockName {
    fn default() -> LockName {
        LockName::from("")
    }
}

impl Borrow<[u8]> for LockName {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for LockName {
    fn eq(&self, other: &LockName) -> bool {
        **self == **other
    }
}

impl Eq for LockName {}

impl PartialOrd for LockName {
    fn partial_cmp(&self, other: &LockName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LockName {
    #[inline]
    fn cmp(&self, other: &LockName) -> Ordering {
        order(self, other)
    }
}

impl fmt::Debug for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_bytes(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_names_are_in_the_order_of_their_bytes() {
        let texts = [
            "",
            "a",
            "a/",
            "b",
            "lock/aaa",
            "lock/aab",
            "lock/aaa1",
            "lock/aaa2",
            "lock/aab1",
            "lock/aaaaaaaaaaaaaaaa1",
            "lock/aaaaaaaaaaaaaaaa2",
            "lock/\u{ff}aaaaa",
            "lock/\u{7f}aaaaa",
        ];
        for one in texts {
            for other in texts {
                let expected = one.as_bytes().cmp(other.as_bytes());
                assert_eq!(Key::from(one).cmp(&Key::from(other)), expected, "{one} {other}");
                let (name, other_name) = (LockName::from(one), LockName::from(other));
                assert_eq!(name.cmp(&other_name), expected, "{one} {other}");
            }
        }
    }
}
