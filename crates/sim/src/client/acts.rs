//! What a user does: the mix of behaviours.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Action, Cancel, CancelTarget, DeleteLock, DeleteRange,
    ForceRelease, Mode, Put, Release, Terms, Wait,
};
use fencepost_core::query::LockView;
use fencepost_core::range::KeyRange;
use fencepost_core::{ClientId, Key, LeaseId, LockName, Millis, Token, Value};
use fencepost_node::io::{Class, Micros};

use super::Request;
use super::agent::Client;
use super::job::Job;
use super::ops::{OpNumber, Purpose, Want};
use super::plan::{KeyPlan, PROBE};

/// So many locks are wanted or held by one client at a time.
const BUSY_MAX: usize = 4;
/// With so many requests on their way, nothing new is begun.
const OPS_MAX: usize = 10;

/// Something that a user can do.
type Act = fn(&mut Client);

impl Client {
    /// Chooses something to do, and when to choose again.
    pub(super) fn act(&mut self) {
        let pause = self.dice.between(self.plan.think / 4, self.plan.think * 7 / 4);
        self.agenda.add(Micros(self.local.0 + pause), Job::Act);
        if self.ops.len() >= OPS_MAX {
            // The service does not answer. A user who goes on asking helps nobody.
            return;
        }
        let weights = self.plan.weights;
        let lively = u64::from(self.number.0 > 0);
        let acts: [(u64, Act); 14] = [
            (weights.acquire, Client::want_one),
            (weights.acquire_many, Client::want_many),
            (weights.by_owner, Client::want_as_owner),
            (weights.read, Client::read_one),
            (weights.read_stale, Client::read_stale),
            (weights.plain, Client::write_plain),
            (weights.wrong_release, Client::release_wrong),
            (weights.reenter, Client::reenter),
            (weights.revoke * lively, Client::revoke),
            (weights.freeze * lively, Client::freeze),
            (weights.die * lively, Client::die),
            (weights.cancel_ahead, Client::cancel_ahead),
            (weights.foreign, Client::put_foreign),
            (weights.force * u64::from(self.number.0 == 1), Client::read_to_force),
        ];
        let mut left = self.dice.roll(acts.iter().map(|(weight, _)| weight).sum());
        for (weight, act) in acts {
            if left < weight {
                act(self);
                return;
            }
            left -= weight;
        }
    }

    fn pick_key(&mut self) -> KeyPlan {
        // Half of the time one of the first three, so that there is something to queue for.
        let keys = self.plan.keys.clone();
        let hot = keys.len().min(3);
        let among = if self.dice.chance(500_000) { &keys[..hot] } else { &keys[..] };
        self.dice.pick(among).clone()
    }

    fn draw_mode(&mut self, key: &KeyPlan) -> Mode {
        match key.shared {
            Some(shared) if self.dice.chance(700_000) => shared,
            _ => Mode::Exclusive,
        }
    }

    fn draw_wait(&mut self) -> Wait {
        match self.dice.roll(10) {
            0..=2 => Wait::Try,
            3..=5 => Wait::AtMost(Millis(self.dice.between(1, 3_000))),
            _ => Wait::WhileLeased,
        }
    }

    fn draw_terms(&mut self) -> Terms {
        let mut terms = Terms::default();
        if !self.dice.chance(self.plan.terms) {
            return terms;
        }
        match self.dice.roll(4) {
            0 => terms.lock_delay = Millis(self.dice.between(50, 1_500)),
            1 => terms.value = Value::from(self.name.as_str()),
            2 => terms.budget = Millis(self.dice.between(10, 1_000)),
            _ => terms.hold_max = Millis(self.dice.between(500, 4_000)),
        }
        terms
    }

    /// Whether the client wants or holds this lock already, by whatever door.
    fn is_busy_with(&self, name: &LockName) -> bool {
        let held = self.holds.iter().any(|hold| hold.name == *name);
        let mut wanted = self.ops.values().filter_map(|op| match &op.purpose {
            Purpose::Acquire(want) => Some(want),
            _ => None,
        });
        held || wanted.any(|want| want.locks.iter().any(|(one, _)| one == name))
    }

    /// Whether a release by owner name is on its way. It carries no token: if it came late, it
    /// would end what was acquired after it was sent.
    fn is_releasing_as_owner(&self, name: &LockName) -> bool {
        self.ops.values().any(|op| match &op.request {
            Request::Command(_, command) => {
                matches!(&command.action, Action::ReleaseAs(release) if release.name == *name)
            }
            _ => false,
        })
    }

    fn is_busy(&self) -> bool {
        let wanted = self.ops.values().filter(|op| matches!(op.purpose, Purpose::Acquire(_)));
        self.holds.len() + wanted.count() >= BUSY_MAX
    }

    fn want_one(&mut self) {
        let key = self.pick_key();
        if self.is_busy() || self.is_busy_with(&key.name) {
            return;
        }
        let (mode, wait) = (self.draw_mode(&key), self.draw_wait());
        self.want(key.name, mode, wait);
    }

    /// Asks for one lock under the present lease.
    pub(super) fn want(&mut self, name: LockName, mode: Mode, wait: Wait) {
        if let Some(op) = self.prepare_want(name, mode, wait) {
            self.send(op);
            self.perhaps_cancel(op);
        }
    }

    fn prepare_want(&mut self, name: LockName, mode: Mode, wait: Wait) -> Option<OpNumber> {
        let terms = self.draw_terms();
        let session = self.session.as_mut()?;
        let (lease, ttl_ms) = (session.lease, session.ttl_ms);
        let seq = session.counter.take();
        let acquire = Acquire { name: name.clone(), lease, mode, wait, terms };
        let request = self.lease_command(seq, Action::Acquire(acquire))?;
        let locks = vec![(name, mode)];
        let want = Want { locks, seq, ttl_ms, owner: false, cancelled: false };
        Some(self.prepare(request, Purpose::Acquire(want)))
    }

    fn want_many(&mut self) {
        let Some(session) = &self.session else { return };
        let (lease, ttl_ms) = (session.lease, session.ttl_ms);
        let mut locks: Vec<(LockName, Mode)> = Vec::new();
        for _ in 0..self.dice.between(2, 3) {
            let key = self.pick_key();
            let twice = locks.iter().any(|(name, _)| *name == key.name);
            if !twice && !self.is_busy_with(&key.name) {
                let mode = self.draw_mode(&key);
                locks.push((key.name, mode));
            }
        }
        if locks.len() < 2 || self.is_busy() {
            return;
        }
        let (wait, terms) = (self.draw_wait(), self.draw_terms());
        let Some(session) = &mut self.session else { return };
        let seq = session.counter.take();
        let acquire = AcquireMany { locks: locks.clone(), lease, wait, terms };
        if let Some(request) = self.lease_command(seq, Action::AcquireMany(acquire)) {
            let want = Want { locks, seq, ttl_ms, owner: false, cancelled: false };
            let op = self.begin(request, Purpose::Acquire(want));
            self.perhaps_cancel(op);
        }
    }

    fn want_as_owner(&mut self) {
        let key = self.pick_key();
        if self.is_busy() || self.is_busy_with(&key.name) || self.is_releasing_as_owner(&key.name) {
            return;
        }
        let ttl_ms = self.dice.between(self.plan.ttl.0, self.plan.ttl.1);
        let wait = match self.dice.chance(400_000) {
            true => Wait::Try,
            false => Wait::AtMost(Millis(self.dice.between(1, 3_000))),
        };
        let seq = self.counter.take();
        let acquire = AcquireAs {
            name: key.name.clone(),
            client: self.name.clone(),
            ttl: Millis(ttl_ms),
            wait,
            terms: self.draw_terms(),
        };
        let request = self.own_command(seq, Action::AcquireAs(acquire));
        let locks = vec![(key.name, Mode::Exclusive)];
        let want = Want { locks, seq, ttl_ms, owner: true, cancelled: false };
        self.begin(request, Purpose::Acquire(want));
    }

    fn perhaps_cancel(&mut self, op: OpNumber) {
        if self.dice.chance(self.plan.cancels) {
            let at = Micros(self.local.0 + self.dice.between(1, 800_000));
            self.agenda.add(at, Job::CancelWait(op));
        }
    }

    /// Gives up an acquire that has not been answered for good. From here on its own answers
    /// count for nothing: only the cancellation's does.
    pub(super) fn cancel_wait(&mut self, of: OpNumber) {
        let Some(op) = self.ops.get_mut(&of) else { return };
        let Purpose::Acquire(want) = &mut op.purpose else { return };
        if want.cancelled || want.owner {
            return;
        }
        want.cancelled = true;
        let target = CancelTarget::Seq(want.seq);
        self.cancel(target, of);
    }

    fn cancel(&mut self, target: CancelTarget, of: OpNumber) {
        let Some(session) = &mut self.session else { return };
        let lease = session.lease;
        let seq = session.counter.take();
        if let Some(request) = self.lease_command(seq, Action::Cancel(Cancel { lease, target })) {
            self.begin(request, Purpose::Cancel { seq, of });
        }
    }

    /// Cancels an acquire before it is sent. Whichever comes first, nothing may be left behind.
    fn cancel_ahead(&mut self) {
        let key = self.pick_key();
        if self.session.is_none() || self.is_busy_with(&key.name) {
            return;
        }
        let wait = self.draw_wait();
        let sends_first = self.dice.chance(300_000);
        let Some(of) = self.prepare_want(key.name, Mode::Exclusive, wait) else { return };
        if sends_first {
            self.send(of);
            self.cancel_wait(of);
        } else {
            self.cancel_wait(of);
            self.send(of);
        }
    }

    fn read_one(&mut self) {
        let key = self.pick_key();
        self.begin(Request::Read(key.name), Purpose::Read { force: false });
    }

    fn read_stale(&mut self) {
        let key = self.pick_key();
        self.begin(Request::ReadStale(key.name), Purpose::Read { force: false });
    }

    fn read_to_force(&mut self) {
        let key = self.pick_key();
        self.begin(Request::Read(key.name), Purpose::Read { force: true });
    }

    pub(super) fn force(&mut self, view: &LockView) {
        let Some(holder) = view.holders.first() else { return };
        let seq = self.counter.take();
        let force = ForceRelease {
            name: view.name.clone(),
            token: holder.token,
            reason: ClientId::from("it was in the way"),
            now: self.dice.chance(300_000),
        };
        let request = self.own_command(seq, Action::ForceRelease(force));
        self.begin(request, Purpose::Own { seq });
    }

    /// Keys that are no locks. They raise the revision between the tokens.
    fn write_plain(&mut self) {
        let key = Key::from(&*format!("plain/k{}", self.dice.roll(5)));
        let action = match self.dice.roll(4) {
            0 => Action::DeleteRange(DeleteRange { range: KeyRange::One(key), prev: false }),
            1 => Action::DeleteLock(DeleteLock { name: self.pick_key().name }),
            _ => {
                let lease = self.session.as_ref().map_or(LeaseId::NONE, |one| one.lease.id);
                let lease = if self.dice.chance(300_000) { lease } else { LeaseId::NONE };
                let value = Value::from(self.name.as_str());
                Action::Put(Put { key, value, lease, ..Put::default() })
            }
        };
        self.ask(Client::plain_command(Class::Ordinary, action));
    }

    /// Releases what it does not hold, or not with this token.
    fn release_wrong(&mut self) {
        let Some(session) = &self.session else { return };
        let lease = session.lease;
        let held = self.holds.iter().find(|hold| !hold.owned);
        let held = held.map(|hold| (hold.name.clone(), hold.token));
        let (name, token) = match (self.dice.roll(3), held) {
            (0, Some((name, token))) => (name, Token(token.0.saturating_sub(1))),
            (1, Some((name, _))) => (name, Token(self.token_of_another)),
            _ => (self.pick_key().name, Token(self.token_of_another)),
        };
        if self.hold_mut(&name, token).is_some() {
            return;
        }
        let Some(session) = &mut self.session else { return };
        let seq = session.counter.take();
        let action = Action::Release(Release { name, lease, token });
        if let Some(request) = self.lease_command(seq, action) {
            self.begin(request, Purpose::Lease { seq });
        }
    }

    /// Asks again for what it holds.
    fn reenter(&mut self) {
        let held = self.holds.iter().find(|hold| !hold.owned && hold.exclusive);
        if let Some(name) = held.map(|hold| hold.name.clone()) {
            self.want(name, Mode::Exclusive, Wait::Try);
        }
    }

    fn freeze(&mut self) {
        let length = self.dice.between(100, 2 * self.plan.ttl.1) * 1_000;
        self.frozen_until = Some(Micros(self.local.0 + length));
    }

    /// All clients do this at about the same time, so that nothing but time goes on.
    pub(super) fn rest(&mut self) {
        if let Some((from, to)) = self.plan.quiet {
            self.frozen_until = Some(Micros(self.local.0 + (to - from)));
        }
    }

    fn die(&mut self) {
        self.is_dead = true;
    }

    /// Puts a key without a lease into a queue, gives it the lease afterwards, and removes it.
    fn put_foreign(&mut self) {
        let key = self.pick_key();
        let Some(id) = self.session.as_ref().map(|session| session.lease.id) else { return };
        if self.is_busy_with(&key.name) {
            return;
        }
        let place = contender_key(&key.name, id.0);
        for lease in [LeaseId::NONE, id] {
            let put = Put { key: place.clone(), lease, ..Put::default() };
            self.ask(Client::plain_command(Class::Ordinary, Action::Put(put)));
        }
        let at = Micros(self.local.0 + self.dice.between(100_000, 1_500_000));
        self.agenda.add(at, Job::RemoveForeign(key.name, id.0));
    }

    pub(super) fn remove_foreign(&mut self, name: &LockName, lease: i64) {
        let range = KeyRange::One(contender_key(name, lease));
        let delete = Action::DeleteRange(DeleteRange { range, prev: false });
        self.ask(Client::plain_command(Class::Ordinary, delete));
        if self.dice.chance(300_000) {
            // The removal may be lost.
            let at = Micros(self.local.0 + 500_000);
            self.agenda.add(at, Job::RemoveForeign(name.clone(), lease));
        }
    }

    /// Finds out whether the service serves, with a lock that nobody else wants.
    pub(super) fn probe(&mut self) {
        let pause = self.dice.between(400_000, 900_000);
        self.agenda.add(Micros(self.local.0 + pause), Job::Probe);
        let name = LockName::from(PROBE);
        if !self.is_busy_with(&name) {
            self.want(name, Mode::Exclusive, Wait::Try);
        }
    }

    /// The first client sets the limits of the run, once.
    pub(super) fn set_limits(&mut self) {
        if self.number.0 > 0 || self.limits_are_set {
            return;
        }
        self.limits_are_set = true;
        let limits = Box::new(self.plan.limits.clone());
        let request = Client::plain_command(Class::Ordinary, Action::SetLimits(limits));
        self.begin(request, Purpose::Insist);
    }
}

/// The key with which a lease stands in a lock's queue.
pub(super) fn contender_key(name: &LockName, lease: i64) -> Key {
    let mut bytes = name.to_vec();
    bytes.extend_from_slice(format!("/{lease:x}").as_bytes());
    Key::from(&*bytes)
}
