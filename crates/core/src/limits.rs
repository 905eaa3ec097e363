//! Every bound that decides an outcome, with the reason for its size.
//!
//! The constants are the defaults. The state carries its own copy in [`Limits`], because a
//! replica that refused a command which its neighbour accepted would diverge: apply looks only
//! at the copy, and the copy changes only through the log.

use crate::ids::{LogTime, Millis};

/// Bytes in a key, as the contract says: 1 KiB.
pub const KEY_LEN_MAX: u32 = 1_024;
/// A slash and at most sixteen hex digits stand between a lock's name and its keys.
pub const KEY_SUFFIX_LEN_MAX: u32 = 17;
/// Bytes in a lock's name: what a key leaves after its suffix.
pub const NAME_LEN_MAX: u32 = KEY_LEN_MAX - KEY_SUFFIX_LEN_MAX;
/// Bytes in a value or in a lock's metadata: 1 MiB.
pub const VALUE_LEN_MAX: u32 = 1 << 20;
/// Bytes in a client's name, an address or an operator's reason.
pub const TEXT_LEN_MAX: u32 = 256;
/// The shortest lease. Below half a second the network decides, not the holder.
pub const TTL_MIN: Millis = Millis(500);
/// The longest lease: a day. A dead holder must not block anyone for longer.
pub const TTL_MAX: Millis = Millis(24 * 60 * 60 * 1_000);
/// The longest wait, lock-delay, budget or grace that can be asked for: thirty days.
pub const SPAN_MAX: Millis = Millis(30 * 24 * 60 * 60 * 1_000);
/// Contenders and foreign keys in one queue.
pub const QUEUE_LEN_MAX: u32 = 1_000_000;
/// Live leases.
pub const LEASES_MAX: u32 = 4_000_000;
/// Clients in the registry.
pub const CLIENTS_MAX: u32 = 4_000_000;
/// Permits of one semaphore.
pub const PERMITS_MAX: u32 = 1_000_000;
/// Locks in one atomic acquisition.
pub const NAMES_PER_ACQUIRE_MAX: u32 = 128;
/// Operations in each list of a transaction, as in etcd.
pub const TXN_OPS_MAX: u32 = 128;
/// Operations in a transaction and all those inside it: what one entry may have to do.
pub const TXN_TREE_OPS_MAX: u32 = 2_048;
/// Keys that one command may visit, compares and counts included, from feature level 2 on.
pub const COMMAND_KEYS_MAX: u64 = 100_000;
/// Bytes that one command may answer, replace or remove, from feature level 2 on: 16 MiB.
pub const COMMAND_BYTES_MAX: u64 = 16 << 20;
/// What a key counts for among those bytes beside its own and its value's. A fixed number, because
/// all builds must refuse the same commands.
pub const KEY_VALUE_WEIGHT: u64 = 64;
/// Keys that may be attached to one lease, from feature level 2 on. They all end at one revision. A
/// session has up to 16,384 requests open, and may have one lease for all of them.
pub const LEASE_KEYS_MAX: u32 = 20_000;
/// Keys that one command removes from a range, from feature level 2 on. The caller goes on with
/// the next command.
pub const DELETE_KEYS_MAX: u64 = 4_096;
/// Waiters that one entry grants beyond one for each queue that changed, from feature level 2 on.
/// The others follow with the next entry.
pub const GRANTS_PER_ENTRY_MAX: u32 = 16_384;
/// Events that a compaction drops with each entry, from feature level 2 on.
pub const COMPACTED_PER_ENTRY_MAX: u32 = 4_096;
/// Keys of a queue that are searched for the holder that an event names, from level 2 on.
pub const HOLDER_SEARCH_MAX: usize = 64;
/// The longest lease of a cluster that began at feature level 2: an hour. After a restore no lease
/// is granted for that long.
pub const TTL_MAX_DEFAULT: Millis = Millis(3_600_000);
/// How far a place in a queue is counted, from feature level 2 on.
pub const POSITION_COUNTED_LEVEL_2: u32 = 1_000;
/// A cluster whose log time is below this has just begun.
pub const NEW_CLUSTER: LogTime = LogTime(60_000);
/// Transactions inside transactions: deep enough for every client, shallow enough for the stack.
pub const TXN_DEPTH_MAX: u32 = 8;
/// Renewals in one command; a client with more leases sends a second command.
pub const RENEWALS_MAX: u32 = 100_000;
/// Answers kept for one caller. A caller may have this many requests open at once.
pub const WINDOW_LEN_MAX: u32 = 1_024;
/// How far a place in a queue is counted when it is asked for again. Counting is linear, and nobody
/// is helped by an exact number that large.
pub const POSITION_COUNTED_MAX: u32 = 10_000;
/// Leases and other timers that one entry ends before its commands run, so that an entry's cost
/// is bounded however many leases are due at once.
pub const DUE_PER_ENTRY_MAX: u32 = 4_096;
/// Events in the history ring. Each takes about 130 bytes, and the ring is full soon: more would be a
/// good part of all memory beside a hundred thousand locks.
pub const HISTORY_EVENTS_MAX: u32 = 50_000;
/// Bytes in the history ring, keys and values included.
pub const HISTORY_BYTES_MAX: u32 = 64 << 20;
/// From feature level 2 on the history has as many bytes as the state, but this many at least: fifty
/// thousand events of locks. A small state whose large values change often would otherwise take sixty
/// times as much for its history, in memory and in every snapshot.
pub const HISTORY_BYTES_MIN: u32 = 16 << 20;
/// Events that one command drops because the state has become smaller. The others follow.
pub const HISTORY_SHRUNK_MAX: usize = 4_096;
/// Single tokens that one lock's fence floor lists.
pub const FLOOR_TOKENS_MAX: u32 = 1_024;
/// How long a fence floor is remembered: a day, which is as long as the longest lease.
pub const FLOOR_KEPT: Millis = TTL_MAX;
/// How long a client without leases stays in the registry after it was last seen.
pub const CLIENT_KEPT: Millis = Millis(60 * 60 * 1_000);
/// How long the calls of a lost member may be taken up by another before their contenders end.
pub const ORPHAN_GRACE: Millis = Millis(5_000);
/// Signing keys that are remembered: those of the members, and those that were retired or revoked.
pub const SIGNING_KEYS_MAX: u32 = 256;
/// How long a signing key that is spent stays at least: thirty days, far beyond the longest lease,
/// because a holder may renew its lease for longer than that.
pub const SIGNING_KEY_KEPT: Millis = SPAN_MAX;
/// The level of behaviour that this build can apply. Level 2 bounds the cost of a command.
pub const FEATURE_LEVEL: u32 = 2;
/// The level that every cluster begins at, whatever its builds can do: members of different
/// builds must agree from the first entry on.
pub const FEATURE_LEVEL_FIRST: u32 = 1;
/// What an event counts for in the history, beside its key and values. A fixed number, because
/// the true size may differ between builds, and all must forget the same events.
pub const EVENT_WEIGHT: usize = 160;

const _: () = assert!(TTL_MIN.0 < TTL_MAX.0);
const _: () = assert!(KEY_SUFFIX_LEN_MAX < KEY_LEN_MAX);

/// The bounds in force, as part of the replicated state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in a key.
    pub key_len_max: u32,
    /// Bytes in a value or in metadata.
    pub value_len_max: u32,
    /// Bytes in a client's name, an address or a reason.
    pub text_len_max: u32,
    /// The shortest lease.
    pub ttl_min: Millis,
    /// The longest lease.
    pub ttl_max: Millis,
    /// The longest wait, lock-delay, budget or grace.
    pub span_max: Millis,
    /// Keys in one queue.
    pub queue_len_max: u32,
    /// Live leases.
    pub leases_max: u32,
    /// Clients in the registry.
    pub clients_max: u32,
    /// Permits of one semaphore.
    pub permits_max: u32,
    /// Locks in one atomic acquisition.
    pub names_per_acquire_max: u32,
    /// Operations in each list of a transaction.
    pub txn_ops_max: u32,
    /// Renewals in one command.
    pub renewals_max: u32,
    /// Answers kept for one caller.
    pub window_len_max: u32,
    /// Timers that one entry ends.
    pub due_per_entry_max: u32,
    /// Events in the history ring.
    pub history_events_max: u32,
    /// Bytes in the history ring.
    pub history_bytes_max: u32,
    /// Single tokens in one fence floor.
    pub floor_tokens_max: u32,
    /// Transactions inside transactions.
    pub txn_depth_max: u32,
    /// Operations in a transaction and all those inside it.
    pub txn_tree_ops_max: u32,
    /// How far a place in a queue is counted when it is asked for again.
    pub position_counted_max: u32,
    /// How long a fence floor is remembered.
    pub floor_kept: Millis,
    /// How long a client without leases stays in the registry.
    pub client_kept: Millis,
    /// How long the calls of a lost member may be taken up by another.
    pub orphan_grace: Millis,
    /// Signing keys that are remembered.
    pub signing_keys_max: u32,
    /// How long a signing key that is spent stays at least.
    pub signing_key_kept: Millis,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            key_len_max: KEY_LEN_MAX,
            value_len_max: VALUE_LEN_MAX,
            text_len_max: TEXT_LEN_MAX,
            ttl_min: TTL_MIN,
            ttl_max: TTL_MAX,
            span_max: SPAN_MAX,
            queue_len_max: QUEUE_LEN_MAX,
            leases_max: LEASES_MAX,
            clients_max: CLIENTS_MAX,
            permits_max: PERMITS_MAX,
            names_per_acquire_max: NAMES_PER_ACQUIRE_MAX,
            txn_ops_max: TXN_OPS_MAX,
            renewals_max: RENEWALS_MAX,
            window_len_max: WINDOW_LEN_MAX,
            due_per_entry_max: DUE_PER_ENTRY_MAX,
            history_events_max: HISTORY_EVENTS_MAX,
            history_bytes_max: HISTORY_BYTES_MAX,
            floor_tokens_max: FLOOR_TOKENS_MAX,
            txn_depth_max: TXN_DEPTH_MAX,
            txn_tree_ops_max: TXN_TREE_OPS_MAX,
            position_counted_max: POSITION_COUNTED_MAX,
            floor_kept: FLOOR_KEPT,
            client_kept: CLIENT_KEPT,
            orphan_grace: ORPHAN_GRACE,
            signing_keys_max: SIGNING_KEYS_MAX,
            signing_key_kept: SIGNING_KEY_KEPT,
        }
    }
}

impl Limits {
    /// Whether these limits can be lived with: none is zero, and the bounds fit each other.
    pub fn are_sound(&self) -> bool {
        let counts = [
            self.value_len_max,
            self.text_len_max,
            self.queue_len_max,
            self.leases_max,
            self.clients_max,
            self.permits_max,
            self.names_per_acquire_max,
            self.txn_ops_max,
            self.renewals_max,
            self.window_len_max,
            self.due_per_entry_max,
            self.history_events_max,
            self.history_bytes_max,
            self.floor_tokens_max,
            self.txn_depth_max,
            self.txn_tree_ops_max,
            self.position_counted_max,
            self.signing_keys_max,
        ];
        let kept = [self.floor_kept, self.client_kept, self.orphan_grace, self.signing_key_kept];
        counts.iter().all(|&count| count > 0)
            && kept.iter().all(|&span| span > Millis::ZERO && span <= SPAN_MAX)
            // What is deeper cannot be read from the log.
            && self.txn_depth_max <= TXN_DEPTH_MAX
            && self.key_len_max > KEY_SUFFIX_LEN_MAX
            && self.ttl_min > Millis::ZERO
            && self.ttl_min <= self.ttl_max
            && self.ttl_max <= TTL_MAX
            && self.span_max >= self.ttl_max
    }

    /// Bytes in a lock's name: what a key leaves after its suffix.
    pub fn name_len_max(&self) -> u32 {
        self.key_len_max - KEY_SUFFIX_LEN_MAX
    }
}
