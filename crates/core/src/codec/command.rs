//! Commands as bytes: one number for each, and the list of its fields.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::error::{DecodeError, Malformed};
use super::reader::Reader;
use super::wire::{Wire, wire_enum, wire_struct};
use super::writer::Writer;
use crate::command::{
    Acquire, AcquireAs, AcquireMany, Action, Caller, CallsAnswered, Cancel, CancelTarget,
    ChangeLimits, Command, Compact, Compare, CompareTarget, DeleteLock, DeleteRange, Disconnect,
    ForceRelease, LeaseGrant, LeaseRef, LeaseRenew, LeaseRevoke, Mode, NodeLost, Once, Op,
    PublishKey, Put, QuotaChange, Relation, Release, ReleaseAs, ReleaseHeld, ReleaseMany, RenewAs,
    RenewHeld, Renewal, RevokeKey, RotateKey, Terms, Txn, Wait,
};
use crate::ids::{
    Actor, Boot, CallId, ClientId, Epoch, Key, LeaseId, LockName, Millis, Namespace, NodeId,
    PublicKey, Revision, Seq, Token, Value,
};
use crate::limits::{FEATURE_LEVEL, Limits};
use crate::range::{KeyRange, Order, RangeQuery, SortBy};
use crate::record::contended_name;

/// The flag with which an author marks a command that an older build may pass over. What one
/// build passes over and another applies must make no difference to anything they agree on.
const SKIPPABLE: u8 = 1;

macro_rules! wire_actions {
    ($($tag:literal => $variant:ident($type:ty)),+ $(,)?) => {
        fn tag_of(action: &Action) -> u32 {
            match action {
                $(Action::$variant(_) => $tag,)+
                Action::Skipped(tag) => *tag,
            }
        }

        fn is_known(tag: u32) -> bool {
            [$($tag),+].contains(&tag)
        }

        fn put_fields(action: &Action, to: &mut Writer<'_>) {
            match action {
                $(Action::$variant(fields) => <$type as Wire>::put(fields, to),)+
                Action::Skipped(_) => {}
            }
        }

        fn take_fields(tag: u32, from: &mut Reader<'_>) -> Result<Action, Malformed> {
            match tag {
                $($tag => <$type as Wire>::take(from).map(Action::$variant),)+
                _ => {
                    from.skip_rest();
                    Ok(Action::Skipped(tag))
                }
            }
        }
    };
}

// The number of each command in the log. A number is never reused, not even after its command is
// gone, and never means anything else: an old log, or an old build, may still hold it. A change
// of a command's fields is a new command with a new number.
wire_actions! {
    1 => LeaseGrant(LeaseGrant),
    2 => LeaseRenew(LeaseRenew),
    3 => LeaseRevoke(LeaseRevoke),
    4 => Disconnect(Disconnect),
    5 => Put(Put),
    6 => DeleteRange(DeleteRange),
    7 => Txn(Box<Txn>),
    8 => Compact(Compact),
    9 => Acquire(Acquire),
    10 => AcquireMany(AcquireMany),
    11 => Cancel(Cancel),
    12 => Release(Release),
    13 => ReleaseMany(ReleaseMany),
    14 => ForceRelease(ForceRelease),
    15 => DeleteLock(DeleteLock),
    16 => AcquireAs(AcquireAs),
    17 => RenewAs(RenewAs),
    18 => ReleaseAs(ReleaseAs),
    19 => CallsAnswered(CallsAnswered),
    20 => NodeLost(NodeLost),
    21 => SetLimits(Box<Limits>),
    22 => RaiseFeatureLevel(u32),
    23 => PublishKey(PublishKey),
    24 => RotateKey(RotateKey),
    25 => RetireKeys(NodeId),
    26 => RevokeKey(RevokeKey),
    27 => ChangeLimits(ChangeLimits),
    28 => RenewHeld(RenewHeld),
    29 => ReleaseHeld(ReleaseHeld),
    30 => PutPlain(Put),
}

/// Appends a command, without the length that stands before it in an entry.
///
/// A transaction nested far deeper than apply accepts is cut off where reading would stop. It is
/// refused for its depth all the same, and the log stays readable.
pub fn encode_command(command: &Command, out: &mut Vec<u8>) {
    put_command(command, &mut Writer::new(out));
}

/// Reads a command that [`encode_command`] wrote. The bytes must hold it and nothing else.
///
/// # Errors
///
/// [`DecodeError::UnknownCommand`] for a command of a later version that must not be passed
/// over, [`DecodeError::Malformed`] for anything that is no command.
pub fn decode_command(bytes: &[u8]) -> Result<Command, DecodeError> {
    take_command(&mut Reader::new(bytes))
}

pub(super) fn put_command(command: &Command, to: &mut Writer<'_>) {
    let skipped = matches!(command.action, Action::Skipped(_));
    to.varint(u64::from(tag_of(&command.action)));
    to.u8(if skipped { SKIPPABLE } else { 0 });
    command.actor.put(to);
    command.namespace.put(to);
    command.once.put(to);
    put_fields(&command.action, to);
}

/// Reads a command from all that is left.
pub(super) fn take_command(from: &mut Reader<'_>) -> Result<Command, DecodeError> {
    let tag = from.u32()?;
    let flags = from.u8()?;
    let known = is_known(tag);
    if !known && flags & SKIPPABLE == 0 {
        return Err(DecodeError::UnknownCommand(tag));
    }
    // No command of this build may be passed over, and no other flag has a meaning yet.
    if flags != if known { 0 } else { SKIPPABLE } {
        return Err(from.malformed("wrong flags of a command").into());
    }
    let actor = Actor::take(from)?;
    let namespace = Namespace::take(from)?;
    let once: Option<Once> = Wire::take(from)?;
    let action = take_fields(tag, from)?;
    from.finish()?;
    match action {
        // From here on the others behave in ways that this build does not know.
        Action::RaiseFeatureLevel(level) if level > FEATURE_LEVEL => {
            Err(DecodeError::UnknownFeatureLevel(level))
        }
        action => Ok(Command { actor, namespace, once, action }),
    }
}

wire_struct!(Once { by: Caller, seq: Seq, ack_upto: Seq });

wire_enum!(Caller {
    0 => Client(client: ClientId),
    1 => Lease(lease: LeaseId),
});

wire_struct!(LeaseRef { id: LeaseId, epoch: Epoch });

wire_struct!(LeaseGrant {
    id: LeaseId,
    ttl: Millis,
    client: ClientId,
    address: ClientId,
    revoke_on_disconnect: Option<Millis>,
});

wire_struct!(LeaseRenew { renewals: Vec<Renewal> });

wire_struct!(Renewal { lease: LeaseRef, number: u64 });

wire_struct!(LeaseRevoke { lease: LeaseRef });

wire_struct!(Disconnect { lease: LeaseRef, renewal: u64 });

wire_struct!(Put {
    key: Key,
    value: Value,
    lease: LeaseId,
    prev: bool,
    ignore_value: bool,
    ignore_lease: bool,
});

wire_struct!(DeleteRange { range: KeyRange, prev: bool });

/// What stands in place of a transaction that lies too deep: three empty lists.
const CUT: [u8; 3] = [0; 3];

impl Wire for Txn {
    fn put(&self, to: &mut Writer<'_>) {
        let written = to.nested(|to| {
            self.compares.put(to);
            self.success.put(to);
            self.failure.put(to);
        });
        if !written {
            to.raw(&CUT);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let read = from.nested(|from| {
            let compares = Vec::take(from)?;
            let success = Vec::take(from)?;
            let failure = Vec::take(from)?;
            Ok(Txn { compares, success, failure })
        });
        match read {
            Some(read) => read,
            None if from.raw(CUT.len())? == CUT => Ok(Txn::default()),
            None => Err(from.malformed("transactions nested too deep")),
        }
    }
}

wire_enum!(Op {
    0 => Put(put: Put),
    1 => DeleteRange(delete: DeleteRange),
    2 => Range(query: RangeQuery),
    3 => Txn(txn: Box<Txn>),
});

wire_struct!(Compare { range: KeyRange, relation: Relation, target: CompareTarget });

wire_enum!(Relation {
    0 => Equal,
    1 => Greater,
    2 => Less,
    3 => NotEqual,
});

wire_enum!(CompareTarget {
    0 => Version(version: u64),
    1 => Create(revision: Revision),
    2 => Mod(revision: Revision),
    3 => Value(value: Value),
    4 => Lease(lease: LeaseId),
});

wire_struct!(Compact { revision: Revision });

wire_enum!(Mode {
    0 => Exclusive,
    1 => Shared,
    2 => Permit(permits: u32),
});

wire_enum!(Wait {
    0 => Try,
    1 => AtMost(length: Millis),
    2 => WhileLeased,
});

wire_struct!(Terms {
    metadata: Value,
    value: Value,
    lock_delay: Millis,
    budget: Millis,
    hold_max: Millis,
    call: Option<CallId>,
});

/// Reads a lock's name, and the lease behind it. The key with which the lease stands in the lock's
/// queue begins with the name, and apply will want it: they share their bytes.
#[inline]
fn take_name_and_lease(from: &mut Reader<'_>) -> Result<(LockName, LeaseRef), Malformed> {
    let name = from.bytes()?;
    let lease = LeaseRef::take(from)?;
    Ok((contended_name(name, lease.id), lease))
}

impl Wire for Acquire {
    fn put(&self, to: &mut Writer<'_>) {
        self.name.put(to);
        self.lease.put(to);
        self.mode.put(to);
        self.wait.put(to);
        self.terms.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (name, lease) = take_name_and_lease(from)?;
        let (mode, wait, terms) = (Mode::take(from)?, Wait::take(from)?, Terms::take(from)?);
        Ok(Acquire { name, lease, mode, wait, terms })
    }
}

wire_struct!(AcquireMany {
    locks: Vec<(LockName, Mode)>,
    lease: LeaseRef,
    wait: Wait,
    terms: Terms,
});

wire_struct!(Cancel { lease: LeaseRef, target: CancelTarget });

wire_enum!(CancelTarget {
    0 => Seq(seq: Seq),
    1 => Contender(name: LockName, token: Token),
    2 => Call(name: LockName, call: CallId),
});

impl Wire for Release {
    fn put(&self, to: &mut Writer<'_>) {
        self.name.put(to);
        self.lease.put(to);
        self.token.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (name, lease) = take_name_and_lease(from)?;
        Ok(Release { name, lease, token: Token::take(from)? })
    }
}

wire_struct!(ReleaseMany { names: Vec<LockName>, lease: LeaseRef, token: Token });

wire_struct!(ForceRelease { name: LockName, token: Token, reason: ClientId, now: bool });

wire_struct!(DeleteLock { name: LockName });

wire_struct!(AcquireAs { name: LockName, client: ClientId, ttl: Millis, wait: Wait, terms: Terms });

wire_struct!(RenewAs { name: LockName, client: ClientId, ttl: Millis });

wire_struct!(RenewHeld { name: LockName, client: ClientId, ttl: Millis, token: Token });

wire_struct!(ReleaseAs { name: LockName, client: ClientId });

wire_struct!(ReleaseHeld { name: LockName, client: ClientId, token: Token });

wire_struct!(CallsAnswered { contenders: Vec<(Key, Token, CallId)> });

wire_struct!(NodeLost { node: NodeId, boot: Boot });

wire_struct!(PublishKey { node: NodeId, key: PublicKey, after: Millis });

wire_struct!(RotateKey { node: NodeId, after: Millis });

wire_struct!(RevokeKey { key: PublicKey });

wire_struct!(ChangeLimits {
    ttl_max: Option<Millis>,
    quota: Option<QuotaChange>,
    leases_per_client_max: Option<u32>,
    clients_per_address_max: Option<u32>,
    clear_no_space: bool,
});

wire_enum!(QuotaChange {
    0 => Bytes(bytes: u64),
    1 => Auto,
    2 => Fit(bytes: u64),
});

wire_struct!(Limits {
    key_len_max: u32,
    value_len_max: u32,
    text_len_max: u32,
    ttl_min: Millis,
    ttl_max: Millis,
    span_max: Millis,
    queue_len_max: u32,
    leases_max: u32,
    clients_max: u32,
    permits_max: u32,
    names_per_acquire_max: u32,
    txn_ops_max: u32,
    renewals_max: u32,
    window_len_max: u32,
    due_per_entry_max: u32,
    history_events_max: u32,
    history_bytes_max: u32,
    floor_tokens_max: u32,
    txn_depth_max: u32,
    txn_tree_ops_max: u32,
    position_counted_max: u32,
    floor_kept: Millis,
    client_kept: Millis,
    orphan_grace: Millis,
    signing_keys_max: u32,
    signing_key_kept: Millis,
});

wire_enum!(KeyRange {
    0 => One(key: Key),
    1 => Span(from_key: Key, to_key: Key),
    2 => From(from_key: Key),
});

wire_struct!(RangeQuery {
    range: KeyRange,
    limit: u64,
    order: Order,
    sort_by: SortBy,
    mod_min: Revision,
    mod_max: Revision,
    create_min: Revision,
    create_max: Revision,
    keys_only: bool,
    count_only: bool,
});

wire_enum!(Order {
    0 => Unsorted,
    1 => Ascending,
    2 => Descending,
});

wire_enum!(SortBy {
    0 => Key,
    1 => Version,
    2 => Create,
    3 => Mod,
    4 => Value,
});
