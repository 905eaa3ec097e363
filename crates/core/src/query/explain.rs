//! Why somebody waits, and for whom.

use alloc::vec::Vec;

use crate::ids::{ClientId, Key, LeaseId, LockName, LogTime, Millis};
use crate::query::{LeaseInfo, LockView, Sight, Waiter};
use crate::record::{contender_key, queue_form};
use crate::state::State;

/// How far a chain of blockers is followed. Longer ones help nobody.
const CHAIN_MAX: usize = 64;
/// Leases of one client, and locks of one lease, that are explained.
const EXPLAINED_MAX: usize = 64;
/// Keys of one lease that are looked at for one that waits.
const KEYS_WALKED_MAX: usize = 256;
/// Holders of one lock that are shown.
const HOLDERS_MAX: usize = 1_000;
/// Bytes of metadata that are shown of one lock.
const METADATA_BYTES_MAX: usize = 1 << 20;

/// What is to be explained.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A lock.
    Lock(LockName),
    /// A lease.
    Lease(LeaseId),
    /// A client.
    Client(ClientId),
}

/// An explanation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// The locks in question, with holders and waiters.
    pub locks: Vec<LockView>,
    /// The leases in question.
    pub leases: Vec<LeaseInfo>,
    /// Each wait, with the chain of those who are in its way.
    pub waits: Vec<Waiting>,
}

/// A wait, and who is in its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// The lock that is waited for.
    pub name: LockName,
    /// The waiter.
    pub waiter: Waiter,
    /// Until when the lock stands free, if that is what it waits for.
    pub delayed_until: Option<LogTime>,
    /// First who is ahead in this queue, then whom that one waits for, and so on.
    pub chain: Vec<Link>,
    /// The chain comes back to the waiter: only a lease that ends can break it.
    pub deadlock: bool,
}

/// One link of a chain of blockers.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// The lock.
    pub name: LockName,
    /// The key at the head of its queue.
    pub key: Key,
    /// Its lease; none for a foreign key without one.
    pub lease: LeaseId,
    /// Its client.
    pub client: ClientId,
    /// Whether it holds the lock, rather than blocking or reserving it.
    pub holds: bool,
    /// How long its lease still lives.
    pub remaining: Millis,
}

/// What an explanation shows of a lock.
fn sight(waiters_max: usize) -> Sight {
    Sight { holders_max: HOLDERS_MAX, waiters_max, metadata_bytes_max: METADATA_BYTES_MAX }
}

impl State {
    /// Explains a lock, a lease or a client, with at most `waiters_max` waiters for each lock. Of
    /// a client with many leases, or a lease with many locks, only the first.
    pub fn explain(&self, subject: &Subject, waiters_max: usize) -> Explanation {
        let mut explanation = Explanation::default();
        match subject {
            Subject::Lock(name) => {
                let view = self.look(name, &sight(waiters_max));
                for waiter in &view.waiters {
                    explanation.waits.push(self.waiting(name, waiter.clone()));
                }
                explanation.locks.push(view);
            }
            Subject::Lease(id) => self.explain_lease(*id, waiters_max, &mut explanation),
            Subject::Client(id) => {
                let leases = self.clients.get(id).map(|client| client.leases.clone());
                for lease in leases.unwrap_or_default().into_iter().take(EXPLAINED_MAX) {
                    self.explain_lease(lease, waiters_max, &mut explanation);
                }
            }
        }
        explanation
    }

    fn explain_lease(&self, id: LeaseId, waiters_max: usize, into: &mut Explanation) {
        let Some(info) = self.lease(id) else { return };
        let forms = info.keys.iter().filter_map(|key| Some((key, queue_form(key)?)));
        let own = forms.filter(|(_, (_, lease))| *lease == id);
        for (key, (name, _)) in own.take(EXPLAINED_MAX) {
            into.locks.push(self.look(&name, &sight(waiters_max)));
            let waiter = self.waiter_at(&name, key);
            into.waits.extend(waiter.map(|waiter| self.waiting(&name, waiter)));
        }
        into.leases.push(info);
    }

    fn waiting(&self, name: &LockName, waiter: Waiter) -> Waiting {
        let mut chain: Vec<Link> = Vec::new();
        let mut deadlock = false;
        // A reservation that is first here is held up at another lock.
        let start = match self.blocker(name, waiter.lease) {
            Some(_) => Some(name.clone()),
            None => self.waits_for(waiter.lease),
        };
        let mut next = start.map(|name| (name, waiter.lease));
        while let Some((name, lease)) = next.take().filter(|_| chain.len() < CHAIN_MAX) {
            let Some(link) = self.blocker(&name, lease) else {
                break;
            };
            deadlock = link.lease == waiter.lease;
            let seen = chain.iter().any(|earlier| earlier.lease == link.lease);
            let blocker = link.lease;
            chain.push(link);
            if !deadlock && !seen {
                next = self.waits_for(blocker).map(|name| (name, blocker));
            }
        }
        let delayed_until = self.delayed(name, waiter.lease);
        Waiting { name: name.clone(), waiter, delayed_until, chain, deadlock }
    }

    /// Who stands at the head of a queue, if it is not `lease` itself.
    fn blocker(&self, name: &LockName, lease: LeaseId) -> Option<Link> {
        let key = self.locks.get(name)?.first();
        if *key == contender_key(name, lease) {
            return None;
        }
        let record = &self.keys[key];
        let lease = record.lease;
        let remaining = self.leases.get(&lease).map(|one| one.remaining(self.now));
        Some(Link {
            name: name.clone(),
            key: key.clone(),
            lease,
            client: self.client_of(lease),
            holds: record.holds(),
            remaining: remaining.unwrap_or_default(),
        })
    }

    /// The first lock that a lease waits for and somebody else is ahead at: of several locks that
    /// are wanted together, it may be first at some.
    fn waits_for(&self, lease: LeaseId) -> Option<LockName> {
        let keys = &self.leases.get(&lease)?.keys;
        let waiting = keys.iter().take(KEYS_WALKED_MAX).filter(|key| {
            self.contender_record(key).is_some_and(|(_, contender)| !contender.holds())
        });
        let mut names = waiting.filter_map(queue_form).map(|(name, _)| name);
        names.find(|name| self.blocker(name, lease).is_some())
    }
}
