//! How many bytes the state may take.
//!
//! Owns: the account of the state's bytes and the limits on them. Guarantees: the account is the
//! same on every replica, because the weights are fixed and everything that it counts is in the
//! snapshot. Refuses: what grows the state beyond the quota, from feature level 2 on. Plain keys
//! stop first, so that locks and leases still work; what shrinks the state always works.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::command::{ChangeLimits, Op, Put, QuotaChange, Txn};
use crate::ids::{ClientId, Key, Value};
use crate::kv::Path;
use crate::limits::Limits;
use crate::outcome::{Outcome, Reason};
use crate::record::{Record, queue_form};
use crate::state::State;
use crate::step::Step;

/// What a key counts for beside its name, value and metadata.
const KEY_WEIGHT: u64 = 384;
/// What a lease counts for.
const LEASE_WEIGHT: u64 = 512;
/// What a client counts for.
const CLIENT_WEIGHT: u64 = 512;
/// What a kept answer counts for beside the keys that it names.
const ANSWER_WEIGHT: u64 = 160;
/// What a fence floor counts for.
const FLOOR_WEIGHT: u64 = 2_048;
/// What a lock-delay counts for.
const DELAY_WEIGHT: u64 = 512;
/// The smallest quota that can be set.
pub const QUOTA_MIN: u64 = 16 << 20;
/// The largest quota that a leader proposes by itself.
pub const QUOTA_AUTO_MAX: u64 = 2 << 30;
/// Above this many percent of the quota, a caller keeps at most [`ANSWERS_OVER_QUOTA`] answers.
const ANSWERS_PERCENT: u64 = 125;
const ANSWERS_OVER_QUOTA: usize = 4;
/// Plain keys grow up to so many percent of the quota.
const PLAIN_PERCENT: u64 = 90;

/// The limits on what the state may take, from feature level 2 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes that the state may take by its own account. Zero as long as no leader has proposed
    /// any: then there is no bound.
    pub bytes: u64,
    /// Whether leaders lower it to fit the memory of the smallest voter.
    pub is_auto: bool,
    /// Leases that one client may have.
    pub leases_per_client_max: u32,
    /// Clients that may come from one address.
    pub clients_per_address_max: u32,
    /// Whether a key was refused for want of space since the alarm was last cleared.
    pub no_space: bool,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota {
            bytes: 0,
            is_auto: true,
            leases_per_client_max: 100_000,
            clients_per_address_max: 1_000_000,
            no_space: false,
        }
    }
}

/// What grows the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// A key that belongs to no lock.
    Plain,
    /// A contender, a lease or a client.
    Lock,
}

impl State {
    /// The limits on what this state may take.
    pub fn quota(&self) -> &Quota {
        &self.quota
    }

    /// What this state takes by its own account.
    pub fn used_bytes(&self) -> u64 {
        let count = |len: usize, weight: u64| len as u64 * weight;
        self.record_bytes
            + self.answer_bytes
            + count(self.keys.len(), KEY_WEIGHT)
            + count(self.leases.len(), LEASE_WEIGHT)
            + count(self.clients.len(), CLIENT_WEIGHT)
            + count(self.floors.len(), FLOOR_WEIGHT)
            + count(self.delays.len(), DELAY_WEIGHT)
    }

    /// Counts anew, after a state was read or restored.
    pub(crate) fn count_bytes(&mut self) {
        (self.record_bytes, self.answer_bytes) = self.counted_bytes();
        self.hosts = self.counted_hosts();
    }

    /// How many clients each host has.
    pub(crate) fn counted_hosts(&self) -> BTreeMap<Box<str>, u32> {
        let mut hosts: BTreeMap<Box<str>, u32> = BTreeMap::new();
        for client in self.clients.values().filter(|client| !client.address.is_empty()) {
            *hosts.entry(host_of(&client.address).into()).or_default() += 1;
        }
        hosts
    }

    /// The bytes of records and of kept answers, counted one by one.
    pub(crate) fn counted_bytes(&self) -> (u64, u64) {
        let records = self.keys.iter().map(|(key, record)| record_bytes(key, record)).sum();
        let leases = self.leases.values().map(|lease| lease.window.bytes());
        let clients = self.clients.values().map(|client| client.window.bytes());
        (records, leases.chain(clients).sum())
    }

    /// Refuses to grow the state by so many bytes.
    pub(crate) fn check_growth(&self, growth: Growth, bytes: u64) -> Result<(), Reason> {
        let quota = self.quota.bytes;
        if quota == 0 || bytes == 0 {
            return Ok(());
        }
        let max = match growth {
            Growth::Plain => quota / 100 * PLAIN_PERCENT,
            Growth::Lock => quota,
        };
        match self.used_bytes() + bytes <= max {
            true => Ok(()),
            false => Err(Reason::NoSpace(quota)),
        }
    }

    /// Refuses a lease, and a client if it is a new one.
    pub(crate) fn check_lease_growth(&self, client: &ClientId) -> Result<(), Reason> {
        if self.feature_level < 2 {
            return Ok(());
        }
        let known = self.clients.get(client);
        let max = self.quota.leases_per_client_max;
        if known.is_some_and(|known| known.leases.len() >= max as usize) {
            return Err(Reason::ClientLeasesFull(max));
        }
        let is_new = !client.is_empty() && known.is_none();
        self.check_growth(Growth::Lock, LEASE_WEIGHT + u64::from(is_new) * CLIENT_WEIGHT)
    }

    /// Refuses contenders with keys of these lengths.
    pub(crate) fn check_contenders_growth(
        &self,
        keys: impl Iterator<Item = usize>,
        value: &Value,
        metadata: &Value,
    ) -> Result<(), Reason> {
        if self.quota.bytes == 0 {
            return Ok(());
        }
        let each = KEY_WEIGHT + (value.len() + metadata.len()) as u64;
        self.check_growth(Growth::Lock, keys.map(|len| each + len as u64).sum())
    }

    /// Whether a client that numbers its requests can be remembered: it is known, or there is room
    /// for one more. Else a flood of new names would fill the memory with clients.
    pub(crate) fn has_room_for_caller(&self, client: &ClientId) -> bool {
        let bytes = CLIENT_WEIGHT + ANSWER_WEIGHT;
        self.check_growth(Growth::Lock, bytes).is_ok() || self.clients.contains_key(client)
    }

    /// By how much a put grows the state, and as what.
    fn put_growth(&self, put: &Put) -> (Growth, u64) {
        let after = if put.ignore_value { 0 } else { put.value.len() as u64 };
        match self.keys.get(&put.key) {
            Some(_) if put.ignore_value => (Growth::Plain, 0),
            Some(record) => (Growth::Plain, after.saturating_sub(record.value.len() as u64)),
            None => {
                let own = queue_form(&put.key).is_some_and(|(_, lease)| lease == put.lease);
                let growth = if own { Growth::Lock } else { Growth::Plain };
                (growth, KEY_WEIGHT + put.key.len() as u64 + after)
            }
        }
    }

    pub(crate) fn check_put_growth(&self, put: &Put) -> Result<(), Reason> {
        // As long as a new key would fit, the key need not be looked up.
        let most = KEY_WEIGHT + (put.key.len() + put.value.len()) as u64;
        if self.check_growth(Growth::Plain, most).is_ok() {
            return Ok(());
        }
        let (growth, bytes) = self.put_growth(put);
        self.check_growth(growth, bytes)
    }

    /// Refuses a transaction whose puts grow the state too far. What it removes does not count,
    /// because it may remove nothing.
    pub(crate) fn check_txn_growth(&self, txn: &Txn, path: &Path) -> Result<(), Reason> {
        if self.quota.bytes == 0 {
            return Ok(());
        }
        let (mut plain, mut lock) = (0, 0);
        self.add_growth(txn, path, &mut plain, &mut lock);
        if plain > 0 {
            self.check_growth(Growth::Plain, plain + lock)?;
        }
        self.check_growth(Growth::Lock, lock)
    }

    fn add_growth(&self, txn: &Txn, path: &Path, plain: &mut u64, lock: &mut u64) {
        let mut inner = path.inner();
        for op in path.branch(txn) {
            match op {
                Op::Put(put) => match self.put_growth(put) {
                    (Growth::Plain, bytes) => *plain += bytes,
                    (Growth::Lock, bytes) => *lock += bytes,
                },
                Op::Txn(txn) => {
                    let path = inner.next().expect("each inner transaction has its path");
                    self.add_growth(txn, path, plain, lock);
                }
                Op::DeleteRange(_) | Op::Range(_) => {}
            }
        }
    }

    /// Refuses a new client from an address that has as many as it may.
    pub(crate) fn check_host(&self, address: Option<&ClientId>) -> Result<(), Reason> {
        let max = self.quota.clients_per_address_max;
        let count = address.and_then(|address| self.hosts.get(host_of(address)));
        match self.feature_level >= 2 && count.is_some_and(|&count| count >= max) {
            true => Err(Reason::AddressClientsFull(max)),
            false => Ok(()),
        }
    }

    pub(crate) fn join_host(&mut self, address: &ClientId) {
        if address.is_empty() {
            return;
        }
        match self.hosts.get_mut(host_of(address)) {
            Some(count) => *count += 1,
            None => drop(self.hosts.insert(host_of(address).into(), 1)),
        }
    }

    pub(crate) fn leave_host(&mut self, address: &ClientId) {
        let host = host_of(address);
        match self.hosts.get_mut(host) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.hosts.remove(host)),
        }
    }

    /// Whether a caller may keep one more answer. Above the quota only a few, or callers could fill
    /// the memory with requests that are all refused.
    pub(crate) fn check_answer_room(&self, kept: usize) -> Result<(), Reason> {
        let quota = self.quota.bytes;
        let is_full = quota > 0 && self.used_bytes() > quota / 100 * ANSWERS_PERCENT;
        match is_full && kept >= ANSWERS_OVER_QUOTA {
            true => Err(Reason::NoSpace(quota)),
            false => Ok(()),
        }
    }
}

impl Step<'_> {
    /// Changes some limits and keeps the others.
    pub(crate) fn change_limits(&mut self, change: &ChangeLimits) -> Result<Outcome, Reason> {
        let level = self.state.feature_level;
        if level < 2 {
            return Err(Reason::FeatureLevelInvalid(2, level));
        }
        let mut quota = self.state.quota;
        let mut limits: Limits = self.state.limits.clone();
        limits.ttl_max = change.ttl_max.unwrap_or(limits.ttl_max);
        let set = |to: &mut u32, from: Option<u32>| *to = from.unwrap_or(*to);
        set(&mut quota.leases_per_client_max, change.leases_per_client_max);
        set(&mut quota.clients_per_address_max, change.clients_per_address_max);
        quota.no_space &= !change.clear_no_space;
        match change.quota {
            None => {}
            Some(QuotaChange::Bytes(0)) => return Err(Reason::LimitsUnsound),
            Some(QuotaChange::Bytes(bytes)) => (quota.bytes, quota.is_auto) = (bytes, false),
            Some(QuotaChange::Auto) => (quota.bytes, quota.is_auto) = (0, true),
            // Only ever downwards: a larger member may be gone tomorrow.
            Some(QuotaChange::Fit(bytes)) if quota.is_auto => {
                quota.bytes = if quota.bytes == 0 { bytes } else { quota.bytes.min(bytes) };
            }
            Some(QuotaChange::Fit(_)) => {}
        }
        let bytes_fit = quota.bytes == 0 || quota.bytes >= QUOTA_MIN;
        let counts_fit = quota.leases_per_client_max > 0 && quota.clients_per_address_max > 0;
        if !limits.are_sound() || !bytes_fit || !counts_fit {
            return Err(Reason::LimitsUnsound);
        }
        (self.state.quota, self.state.limits) = (quota, limits);
        Ok(Outcome::Done)
    }

    /// Notes a refusal for want of space, until an operator clears it.
    pub(crate) fn note_refusal(&mut self, reason: Reason) -> Outcome {
        self.state.quota.no_space |= matches!(reason, Reason::NoSpace(_));
        Outcome::Rejected(reason)
    }

    pub(crate) fn add_record_bytes(&mut self, key: &Key, record: &Record) {
        self.state.record_bytes += record_bytes(key, record);
    }

    pub(crate) fn take_record_bytes(&mut self, key: &Key, record: &Record) {
        self.state.record_bytes -= record_bytes(key, record);
    }
}

/// What a record counts for beside its weight.
pub(crate) fn record_bytes(key: &Key, record: &Record) -> u64 {
    let metadata = record.contender().map_or(0, |contender| contender.metadata.len());
    (key.len() + record.value.len() + metadata) as u64
}

/// What a kept answer counts for.
pub(crate) fn answer_bytes(outcome: &Outcome) -> u64 {
    let names = match outcome {
        Outcome::Acquired(grant) | Outcome::Renewed(grant) => grant.key.len(),
        Outcome::Queued(place) | Outcome::Reserved(place) => {
            place.key.len() + place.predecessor.len() + place.holder.as_str().len()
        }
        Outcome::AcquiredMany(many) => many.keys.iter().map(|key| KEY_IN_LIST + key.len()).sum(),
        _ => 0,
    };
    ANSWER_WEIGHT + names as u64
}

/// What a key in a list takes beside its bytes.
const KEY_IN_LIST: usize = 16;

/// The part of an address that many clients share: all before its port.
pub(crate) fn host_of(address: &ClientId) -> &str {
    let text = address.as_str();
    text.rsplit_once(':').map_or(text, |(host, _)| host)
}
