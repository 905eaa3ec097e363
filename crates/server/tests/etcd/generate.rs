//! Random requests, and what is compared of their answers.

use bytes::Bytes;
use fencepost_proto::etcd::etcdserverpb as pb;

/// Random numbers that can be repeated.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn flip(&mut self, one_in: u64) -> bool {
        self.roll(one_in) == 0
    }

    fn small(&mut self, sides: u64) -> i64 {
        i64::try_from(self.roll(sides)).expect("it is small")
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[usize::try_from(self.roll(from.len() as u64)).expect("it is small")]
    }
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Range(pb::RangeRequest),
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compact(pb::CompactionRequest),
    Grant(pb::LeaseGrantRequest),
    Revoke(pb::LeaseRevokeRequest),
    TimeToLive(pb::LeaseTimeToLiveRequest),
    Leases,
}

/// Ordinary keys, and some that stand in the queues of locks.
const KEYS: [&str; 14] =
    ["a", "b", "b/", "b/c", "c", "d", "e", "lock/1", "lock/2", "lock/3", "lock/9", "lock", "z", ""];
const LEASES: u64 = 4;

fn key(dice: &mut Dice) -> Bytes {
    // An empty key is refused, and must be refused alike.
    let key = match dice.roll(200) {
        0 => "",
        _ => dice.pick(&KEYS[..KEYS.len() - 1]),
    };
    Bytes::from(key)
}

fn range_end(dice: &mut Dice) -> Bytes {
    Bytes::from(match dice.roll(6) {
        0 => "\0",
        1 => "lock0",
        2 => dice.pick(&KEYS),
        _ => "",
    })
}

fn value(dice: &mut Dice) -> Bytes {
    Bytes::from(dice.pick(&["", "1", "2", "33", "444"]))
}

fn lease(dice: &mut Dice) -> i64 {
    if dice.flip(2) { 0 } else { dice.small(LEASES + 1) }
}

/// A revision near the present one, on both sides.
fn revision(dice: &mut Dice, now: i64) -> i64 {
    (now - dice.small(30) + dice.small(3)).max(0)
}

fn range(dice: &mut Dice, now: i64, in_txn: bool) -> pb::RangeRequest {
    let bound = |dice: &mut Dice| if dice.flip(8) { revision(dice, now) } else { 0 };
    pb::RangeRequest {
        key: key(dice),
        range_end: range_end(dice),
        limit: if dice.flip(3) { dice.small(4) } else { 0 },
        revision: if !in_txn && dice.flip(4) { revision(dice, now) } else { 0 },
        sort_order: i32::try_from(dice.roll(3)).expect("it is small"),
        sort_target: i32::try_from(dice.roll(5)).expect("it is small"),
        serializable: false,
        keys_only: dice.flip(8),
        count_only: dice.flip(8),
        min_mod_revision: bound(dice),
        max_mod_revision: bound(dice),
        min_create_revision: bound(dice),
        max_create_revision: bound(dice),
    }
}

fn put(dice: &mut Dice) -> pb::PutRequest {
    pb::PutRequest {
        key: key(dice),
        value: value(dice),
        lease: lease(dice),
        prev_kv: dice.flip(2),
        ignore_value: dice.flip(12),
        ignore_lease: dice.flip(12),
    }
}

fn delete_range(dice: &mut Dice) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest { key: key(dice), range_end: range_end(dice), prev_kv: dice.flip(2) }
}

fn compare(dice: &mut Dice, now: i64) -> pb::Compare {
    use pb::compare::TargetUnion;
    let target = i32::try_from(dice.roll(5)).expect("it is small");
    let near = if dice.flip(2) { 0 } else { revision(dice, now) };
    let target_union = Some(match target {
        0 => TargetUnion::Version(dice.small(4)),
        1 => TargetUnion::CreateRevision(near),
        2 => TargetUnion::ModRevision(near),
        3 => TargetUnion::Value(value(dice)),
        _ => TargetUnion::Lease(lease(dice)),
    });
    pb::Compare {
        result: i32::try_from(dice.roll(4)).expect("it is small"),
        target,
        key: key(dice),
        range_end: if dice.flip(3) { range_end(dice) } else { Bytes::new() },
        target_union,
    }
}

fn txn(dice: &mut Dice, now: i64, depth: u32) -> pb::TxnRequest {
    let compares = dice.roll(3);
    pb::TxnRequest {
        compare: (0..compares).map(|_| compare(dice, now)).collect(),
        success: ops(dice, now, depth),
        failure: ops(dice, now, depth),
    }
}

fn ops(dice: &mut Dice, now: i64, depth: u32) -> Vec<pb::RequestOp> {
    use pb::request_op::Request;
    let count = dice.roll(4);
    let op = |dice: &mut Dice| match dice.roll(8) {
        0..=2 => Request::RequestPut(put(dice)),
        3 | 4 => Request::RequestRange(range(dice, now, true)),
        5 if depth < 2 => Request::RequestTxn(txn(dice, now, depth + 1)),
        _ => {
            let mut delete = delete_range(dice);
            // etcd overlooks that such a range may hold a key that the transaction writes as well.
            // Here that is refused like every other key that would be changed twice.
            if *delete.range_end == *b"\0" {
                delete.range_end = Bytes::new();
            }
            Request::RequestDeleteRange(delete)
        }
    };
    (0..count).map(|_| pb::RequestOp { request: Some(op(dice)) }).collect()
}

pub(crate) fn ask(dice: &mut Dice, now: i64) -> Ask {
    match dice.roll(100) {
        0..25 => Ask::Range(range(dice, now, false)),
        25..50 => Ask::Put(put(dice)),
        50..60 => Ask::DeleteRange(delete_range(dice)),
        60..88 => Ask::Txn(txn(dice, now, 0)),
        88..93 => {
            let id = 1 + dice.small(LEASES);
            Ask::Grant(pb::LeaseGrantRequest { ttl: 3_600, id })
        }
        93..96 => Ask::Revoke(pb::LeaseRevokeRequest { id: 1 + dice.small(LEASES) }),
        96..98 => {
            let id = 1 + dice.small(LEASES);
            Ask::TimeToLive(pb::LeaseTimeToLiveRequest { id, keys: dice.flip(2) })
        }
        98 => Ask::Leases,
        _ => {
            // etcd takes revision 0 once, for no use.
            let revision = revision(dice, now).max(1);
            Ask::Compact(pb::CompactionRequest { revision, physical: dice.flip(2) })
        }
    }
}
