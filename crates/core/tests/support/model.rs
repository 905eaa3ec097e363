//! A second opinion: the rules of locks and leases, written down as plainly as possible.
//!
//! Lists and linear scans, no indexes: who holds a lock is worked out anew from its queue. Left
//! out, and covered by the invariants alone: lock-delays, budgets, longest holds, bound calls,
//! limits (so nothing that is due is ever left over), disconnects, fence floors, the counter of a
//! lease's changes, requests of a bad form, numbers used twice, clients, events and restore.

mod keys;
mod locks;

use fencepost_core::Epoch;
use fencepost_core::command::{Action, Caller, Command, LeaseRef, Mode};

const NEVER: u64 = u64::MAX;

#[derive(Clone)]
struct Lease {
    id: i64,
    epoch: u64,
    ttl: u64,
    deadline: u64,
    /// The owner and the lock of a lease that ends with its lock.
    sole: Option<(String, String)>,
}

/// A key, and its place in a queue if it has a lock.
#[derive(Clone)]
struct Item {
    order: usize,
    key: String,
    lock: Option<String>,
    lease: i64,
    created: u64,
    foreign: bool,
    held: bool,
    mode: Mode,
    grouped: bool,
    wait_until: u64,
    forced: u64,
}

/// What a request was answered with: a text, or the place that it made or waits on. No key
/// stands for a whole group. Or it has not come yet, and was cancelled ahead.
#[derive(Clone)]
enum Answer {
    Text(String),
    Place(String, u64),
    Ahead,
}

type Told = Result<Answer, String>;
type Window = (Caller, u64, Vec<(u64, Answer)>);

#[derive(Default)]
pub(crate) struct Model {
    now: u64,
    revision: u64,
    raised: bool,
    running: bool,
    last_epoch: u64,
    last_lease: i64,
    last_order: usize,
    leases: Vec<Lease>,
    /// In order of creation, so each queue stands here in its order.
    items: Vec<Item>,
    windows: Vec<Window>,
    /// What became of each place that waited.
    fates: Vec<(String, u64, String)>,
}

/// Splits a key into its lock and the lease that it is named after.
fn split(key: &str) -> Option<(String, i64)> {
    let (lock, segment) = key.rsplit_once('/')?;
    let lease = i64::from_str_radix(segment, 16).ok().filter(|&lease| lease > 0)?;
    (format!("{lease:x}") == segment).then(|| (lock.into(), lease))
}

/// Whether everybody ahead holds, and `mode` goes together with all of them.
fn fits(ahead: &[&Item], mode: Mode) -> bool {
    let room = match mode {
        Mode::Exclusive => 1,
        Mode::Shared => usize::MAX,
        Mode::Permit(count) => count as usize,
    };
    ahead.len() < room && ahead.iter().all(|one| one.held && one.mode == mode)
}

impl Model {
    pub(crate) fn new() -> Model {
        Model { revision: 1, ..Model::default() }
    }

    /// Applies an entry. Answers with the revision after each command, and what it is told.
    pub(crate) fn apply(&mut self, at: u64, commands: &[Command]) -> Vec<(u64, String)> {
        self.now = self.now.max(at);
        self.running = false;
        while self.end_first_due() {}
        self.running = true;
        let mut told = Vec::new();
        for command in commands {
            self.raised = false;
            let answer = self.run(command);
            self.settle();
            let answer = answer.map_or_else(|refused| refused, |answer| self.say(&answer));
            told.push((self.revision, answer));
        }
        told
    }

    /// One line for each key, with its place in a queue, and for each lease.
    pub(crate) fn view(&self) -> Vec<String> {
        let role = |one: &Item| match one {
            _ if one.lock.is_none() => "plain".into(),
            _ if one.foreign => "foreign".into(),
            _ if one.held => format!("holds {:?}", one.mode),
            _ => format!("waits {:?} at {}", one.mode, self.position(one)),
        };
        let line = |one: &Item| format!("{} {} {} {}", one.key, one.created, one.lease, role(one));
        let lease = |one: &Lease| format!("lease {} {} {}", one.id, one.epoch, one.deadline);
        self.items.iter().map(line).chain(self.leases.iter().map(lease)).collect()
    }

    /// Ends the first thing that is due, in order of time, then of kind, then of name.
    fn end_first_due(&mut self) -> bool {
        self.raised = false;
        let mut due = Vec::new();
        due.extend(self.leases.iter().map(|one| (one.deadline, 0, one.id, String::new())));
        due.extend(self.items.iter().map(|one| (one.wait_until, 1, 0, one.key.clone())));
        due.extend(self.items.iter().map(|one| (one.forced, 2, 0, one.key.clone())));
        let first = due.into_iter().min().filter(|one| one.0 <= self.now);
        let Some((_, kind, lease, key)) = first else { return false };
        match kind {
            0 => drop(self.end_lease(lease, "Expired")),
            1 => self.remove(&key, "TimedOut", "TimedOut"),
            _ => self.remove(&key, "Forced", "Incomplete"),
        }
        self.settle();
        true
    }

    fn run(&mut self, command: &Command) -> Told {
        let Some(once) = &command.once else { return self.act(&command.action) };
        match &command.action {
            Action::Acquire(one) => self.check(one.lease)?,
            Action::AcquireMany(one) => self.check(one.lease)?,
            Action::Cancel(one) => self.check(one.lease)?,
            Action::Release(one) => self.check(one.lease)?,
            Action::ReleaseMany(one) => self.check(one.lease)?,
            _ => {}
        }
        if !self.windows.iter().any(|one| one.0 == once.by) {
            self.windows.push((once.by.clone(), 0, Vec::new()));
        }
        let (seq, window) = (once.seq.0, self.window(&once.by).expect("it was just made"));
        let floor = window.1.max(once.ack_upto.0);
        if seq < floor {
            return Err("seq_too_old".into());
        }
        window.1 = floor;
        window.2.retain(|one| one.0 >= floor);
        if let Some((_, known)) = window.2.iter().find(|one| one.0 == seq) {
            let acquire = matches!(command.action, Action::Acquire(_) | Action::AcquireMany(_));
            let other = matches!(known, Answer::Ahead) && !acquire;
            return if other { Err("seq_reused".into()) } else { Ok(known.clone()) };
        }
        let answer = self.act(&command.action).unwrap_or_else(Answer::Text);
        self.keep(&once.by, seq, answer.clone());
        Ok(answer)
    }

    fn window(&mut self, by: &Caller) -> Option<&mut Window> {
        self.windows.iter_mut().find(|one| one.0 == *by)
    }

    fn keep(&mut self, by: &Caller, seq: u64, answer: Answer) {
        if let Some((_, _, answers)) = self.window(by) {
            answers.retain(|one| one.0 != seq);
            answers.push((seq, answer));
        }
    }

    fn say(&self, answer: &Answer) -> String {
        let (key, created) = match answer {
            Answer::Text(text) => return text.clone(),
            Answer::Ahead => return "ended Cancelled".into(),
            Answer::Place(key, created) => (key, *created),
        };
        if let Some(fate) = self.fates.iter().find(|one| one.0 == *key && one.1 == created) {
            return fate.2.clone();
        }
        let wanted = |one: &&Item| one.created == created && (one.key == *key || key.is_empty());
        let item = self.items.iter().find(wanted).expect("it waits");
        let ahead = self.ahead(item).last().map_or("", |one| &one.key).to_string();
        format!("waits as {} behind {ahead} at {}", item.key, self.position(item))
    }

    fn queue(&self, lock: &str) -> Vec<&Item> {
        self.items.iter().filter(|one| one.lock.as_deref() == Some(lock)).collect()
    }

    fn ahead(&self, item: &Item) -> Vec<&Item> {
        let queue = self.queue(item.lock.as_deref().unwrap_or_default());
        queue.into_iter().filter(|one| one.order < item.order).collect()
    }

    fn position(&self, item: &Item) -> usize {
        1 + self.ahead(item).iter().filter(|one| !one.held).count()
    }

    fn lease(&mut self, id: i64) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|one| one.id == id)
    }

    fn item(&mut self, key: &str) -> Option<&mut Item> {
        self.items.iter_mut().find(|one| one.key == key)
    }

    fn check(&mut self, meant: LeaseRef) -> Result<(), String> {
        let stale = |epoch| meant.epoch != Epoch::ANY && meant.epoch.0 != epoch;
        match self.lease(meant.id.0) {
            None => Err("lease_not_found".into()),
            Some(one) if stale(one.epoch) => Err("lease_epoch_stale".into()),
            Some(_) => Ok(()),
        }
    }

    fn change(&mut self) -> u64 {
        self.revision += u64::from(!self.raised);
        self.raised = true;
        self.revision
    }

    fn can_hold(&self, item: &Item) -> bool {
        // While commands run, whoever is still there has not waited for too long.
        let in_time = item.wait_until > self.now || self.running;
        let may = item.lock.is_some() && !item.foreign && !item.held;
        may && in_time && fits(&self.ahead(item), item.mode)
    }

    /// The places that are granted or lost with this one.
    fn together(&self, item: &Item) -> Vec<Item> {
        let same = |one: &&Item| one.grouped && item.grouped && one.created == item.created;
        self.items.iter().filter(|one| one.key == item.key || same(one)).cloned().collect()
    }

    /// Grants until nothing more can be granted. Who holds stays a holder.
    fn settle(&mut self) {
        let spent = |one: &&Lease| {
            let own = |lock: &str| format!("{lock}/{:x}", one.id);
            let held = |(_, lock): &(String, String)| {
                self.items.iter().any(|item| item.key == own(lock) && !item.foreign)
            };
            one.sole.as_ref().is_some_and(|sole| !held(sole))
        };
        if let Some(id) = self.leases.iter().find(spent).map(|one| one.id) {
            self.end_lease(id, "Revoked");
            return self.settle();
        }
        let ready = |one: &&Item| self.together(one).iter().all(|one| self.can_hold(one));
        let Some(first) = self.items.iter().find(ready).cloned() else { return };
        for one in self.together(&first) {
            let item = self.item(&one.key).expect("it stands there");
            (item.held, item.grouped, item.wait_until) = (true, false, NEVER);
            self.fates.push((one.key, one.created, format!("held {}", one.created)));
            if self.lease(one.lease).is_some_and(|lease| lease.deadline == NEVER) {
                self.extend(one.lease, 0);
            }
        }
        self.fates.push((String::new(), first.created, format!("held {}", first.created)));
        self.settle();
    }

    fn extend(&mut self, id: i64, ttl: u64) {
        let now = self.now;
        let Some(lease) = self.lease(id) else { return };
        lease.ttl = if ttl > 0 { ttl } else { lease.ttl };
        let never = lease.deadline == NEVER;
        lease.deadline = (now + lease.ttl).max(if never { 0 } else { lease.deadline });
    }
}
