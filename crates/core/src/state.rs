//! The state and its one door.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command::{Command, Entry};
use crate::event::Event;
use crate::history::History;
use crate::ids::{
    Boot, ClientId, Key, LeaseId, LockName, LogTime, Millis, NodeId, PublicKey, Revision,
};
use crate::lease::{Client, Lease};
use crate::limits::{self, COMPACTED_PER_ENTRY_MAX, GRANTS_PER_ENTRY_MAX, LEASE_KEYS_MAX, Limits};
use crate::lock::{Delay, Floor, Queue};
use crate::mutant::Mutant;
use crate::outcome::Reply;
use crate::quota::Quota;
use crate::record::Record;
use crate::signing::SigningKey;
use crate::step::Step;
use crate::timer::{Timer, Timers};
use crate::work::Work;

/// What applying an entry did, as data. Whoever runs the state delivers it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Effects {
    /// One answer for each command of the entry, in order.
    pub replies: Vec<Reply>,
    /// What happened, in order. Waiting calls learn their grants from here too.
    pub events: Vec<Arc<Event>>,
    /// Whether signing keys have changed. That makes no event, and is worth a look all the same.
    pub signing_changed: bool,
}

impl Effects {
    /// Whether something has happened that others than those who asked want to know.
    pub fn are_news(&self) -> bool {
        !self.events.is_empty() || self.signing_changed
    }
}

/// Everything that the cluster agrees on.
///
/// The fields that are not derived from others are what a snapshot carries, in this order.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) now: LogTime,
    pub(crate) revision: Revision,
    /// The number of the next event at the present revision.
    pub(crate) next_sub: u32,
    /// How often this cluster was restored from a backup.
    pub(crate) incarnation: u64,
    /// The last epoch that was given to a lease.
    pub(crate) last_epoch: u64,
    /// The last lease id that the state chose itself.
    pub(crate) last_lease: i64,
    pub(crate) feature_level: u32,
    pub(crate) limits: Limits,
    /// After a restore, no lease is granted before this.
    pub(crate) recovering_until: LogTime,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) leases: BTreeMap<LeaseId, Lease>,
    pub(crate) keys: BTreeMap<Key, Box<Record>>,
    pub(crate) delays: BTreeMap<LockName, Delay>,
    pub(crate) floors: BTreeMap<LockName, Floor>,
    /// The moment at which the calls of a lost member end, and its last lost boot.
    pub(crate) lost_nodes: BTreeMap<NodeId, (Boot, LogTime)>,
    /// The keys with which members sign fencing tokens.
    pub(crate) signing_keys: BTreeMap<PublicKey, SigningKey>,
    /// The members that were asked for a new one, and how long that is to get around.
    pub(crate) rotations: BTreeMap<NodeId, Millis>,
    /// How often the two above have changed.
    pub(crate) signing_changes: u64,
    pub(crate) history: History,
    pub(crate) quota: Quota,

    // Derived from the above.
    pub(crate) locks: BTreeMap<LockName, Queue>,
    /// The leases made for an owner name, by owner and lock.
    pub(crate) owners: BTreeMap<(ClientId, LockName), LeaseId>,
    /// The keys of each atomic acquisition that is not granted yet, by their common revision.
    pub(crate) groups: BTreeMap<Revision, Vec<Key>>,
    /// The contenders that are bound to the calls of a member's boot.
    pub(crate) calls: BTreeMap<(NodeId, Boot), BTreeSet<Key>>,
    pub(crate) timers: Timers,
    /// The bytes of all keys, values and metadata.
    pub(crate) record_bytes: u64,
    /// What all kept answers count for.
    pub(crate) answer_bytes: u64,
    /// How many clients each host has.
    pub(crate) hosts: BTreeMap<Box<str>, u32>,

    /// How many leases the commands of the present entry may still end because they are due.
    pub(crate) dead_left: u32,
    /// How many waiters the present entry may still grant.
    pub(crate) grants_left: u32,
    /// What was done so far, for people.
    pub(crate) work: Work,

    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<Mutant>,
}

impl Default for State {
    fn default() -> State {
        State::new()
    }
}

impl State {
    /// A fresh cluster's state, at revision 1 and log time zero.
    pub fn new() -> State {
        State {
            now: LogTime(0),
            revision: Revision::FIRST,
            next_sub: 0,
            incarnation: 0,
            last_epoch: 0,
            last_lease: 0,
            feature_level: limits::FEATURE_LEVEL_FIRST,
            limits: Limits::default(),
            recovering_until: LogTime(0),
            clients: BTreeMap::new(),
            leases: BTreeMap::new(),
            keys: BTreeMap::new(),
            delays: BTreeMap::new(),
            floors: BTreeMap::new(),
            lost_nodes: BTreeMap::new(),
            signing_keys: BTreeMap::new(),
            rotations: BTreeMap::new(),
            signing_changes: 0,
            history: History::default(),
            quota: Quota::default(),
            locks: BTreeMap::new(),
            owners: BTreeMap::new(),
            groups: BTreeMap::new(),
            calls: BTreeMap::new(),
            timers: Timers::default(),
            record_bytes: 0,
            answer_bytes: 0,
            hosts: BTreeMap::new(),
            dead_left: 0,
            grants_left: 0,
            work: Work::default(),
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }

    /// Applies one entry: moves log time, ends what is due, then runs the commands in order.
    ///
    /// Total: every entry that can be decoded has a defined effect, and refusals are answers.
    pub fn apply(&mut self, entry: Entry) -> Effects {
        self.apply_all(entry.at, entry.commands.into_iter(), true)
    }

    /// As [`State::apply`], for an entry that no caller waits for. The state and the events are
    /// the same; the answers of reads inside transactions are empty.
    pub fn apply_unanswered(&mut self, entry: Entry) -> Effects {
        self.apply_all(entry.at, entry.commands.into_iter(), false)
    }

    /// As [`State::apply`], for an entry whose commands are not in one place. `answers` says
    /// whether callers are owed the answers.
    pub fn apply_all(
        &mut self,
        at: LogTime,
        commands: impl ExactSizeIterator<Item = Command>,
        answers: bool,
    ) -> Effects {
        let mut effects = Effects::default();
        assert!(at < LogTime::LIMIT, "a stamp beyond all time");
        self.now = self.now.max(at);
        if self.mutant(Mutant::TimeRunsBack) {
            self.now = at;
        }
        let signing_changes = self.signing_changes;
        self.dead_left = self.limits.due_per_entry_max;
        self.grants_left = u32::MAX;
        if self.feature_level >= 2 {
            self.grants_left = GRANTS_PER_ENTRY_MAX;
            self.history.drop_compacted(COMPACTED_PER_ENTRY_MAX);
        }
        self.end_what_is_due(&mut effects.events);
        self.work.note_entry(commands.len());
        effects.replies.reserve(commands.len());
        for command in commands {
            let outcome = Step::new(self, &mut effects.events).run(command, answers);
            effects.replies.push(Reply { revision: self.revision, outcome });
        }
        effects.signing_changed = self.signing_changes != signing_changes;
        effects
    }

    /// Ends what log time has overtaken, in order of deadlines, up to the bound for one entry.
    fn end_what_is_due(&mut self, events: &mut Vec<Arc<Event>>) {
        let mut left = u64::from(self.limits.due_per_entry_max);
        while left > 0 {
            self.work.deadline_visits += 1;
            let Some(timer) = self.timers.pop_due(self.now) else {
                return;
            };
            left = left.saturating_sub(self.timer_cost(&timer));
            Step::new(self, events).fire(timer);
        }
    }

    /// What a timer counts for among those that one entry ends. From feature level 2 on a lease
    /// counts as often as it has keys.
    fn timer_cost(&self, timer: &Timer) -> u64 {
        match timer {
            Timer::Lease(id) | Timer::Disconnected(id) if self.feature_level >= 2 => {
                let keys = self.leases.get(id).map_or(1, |lease| lease.keys.len());
                keys.clamp(1, LEASE_KEYS_MAX as usize) as u64
            }
            _ => 1,
        }
    }

    /// When log time next ends something by itself. A leader proposes an entry then.
    ///
    /// A moment that has passed means that more was due than one entry may end: propose at once.
    pub fn next_deadline(&self) -> Option<LogTime> {
        self.timers.next()
    }

    /// The present log time.
    pub fn now(&self) -> LogTime {
        self.now
    }

    /// The present revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Watches cannot begin before this revision.
    pub fn compact_revision(&self) -> Revision {
        self.history.compacted()
    }

    /// How often this cluster was restored from a backup.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The level of behaviour that all members can apply.
    pub fn feature_level(&self) -> u32 {
        self.feature_level
    }

    /// The bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What happened lately.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What was done since this state was made or read.
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Whether any lease lives. While one does, the leader stamps the log every second.
    pub fn has_leases(&self) -> bool {
        !self.leases.is_empty()
    }

    /// Plants a bug, for tests that must catch it.
    #[cfg(feature = "mutants")]
    pub fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }

    /// Whether a planted bug is active. Never, in a shipped build.
    #[inline]
    pub(crate) fn mutant(&self, asked: Mutant) -> bool {
        #[cfg(feature = "mutants")]
        return self.mutant == Some(asked);
        #[cfg(not(feature = "mutants"))]
        {
            let _ = asked;
            false
        }
    }
}
