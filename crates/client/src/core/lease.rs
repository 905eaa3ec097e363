//! The leases of a session: one for each acquire, so that its loss loses nothing else.
//!
//! Two acquires under one lease would be one contender in the service's eyes; and a lease that is
//! shared by unrelated work would take all of it down at once. A lease that has done its work is
//! kept for a moment for the next acquire with the same TTL, so that a lock cycle costs two requests,
//! not four; then it is given back, so that locks leave no lease behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use super::Session;
use super::body::Under;
use super::io::{AdoptedLease, HoldId, LeaseNo, Loss, OpId, Output};
use super::numbers::Numbers;
use super::requests::{Numbering, Task, TicketId};
use super::table::Table;
use super::time::{Moment, believed_until, from_wire_ms, wire_ms};
use super::timers::Timer;

/// How many idle leases are kept. More are given back at once.
const IDLE_MAX: usize = 1_024;
/// How long an idle lease is kept before it is given back: long enough for the next lock of work that
/// goes on, too short for anybody to wonder what it is for.
const IDLE_FOR: Duration = Duration::from_secs(1);
/// A request about a lease is repeated for as long as the lease may live, and then this much.
const AFTERLIFE: Duration = Duration::from_secs(5);

/// What a lease is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// An acquire that is under way.
    Attempt(OpId),
    /// An acquire that is being taken back. It is not renewed, so that its TTL ends what is left.
    Undoing(OpId),
    /// Something held.
    Hold(HoldId),
    /// Nothing: it waits for the next acquire.
    Idle,
    /// The user's own purposes.
    User { keep_alive: bool },
    /// It is being given back, or left to run out.
    Ending,
}

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) usage: Use,
    pub(super) ttl: Duration,
    pub(super) id: i64,
    pub(super) epoch: u64,
    pub(super) is_granted: bool,
    pub(super) numbers: Numbers,
    /// When the last message was sent that is known to have kept it alive.
    pub(super) confirmed: Moment,
    /// Until when it may be believed in.
    pub(super) alive_until: Moment,
    /// How often to renew it.
    pub(super) interval: Duration,
    /// When it is renewed next.
    pub(super) renew_at: Moment,
    /// Where it stands in the order of renewals.
    queued_at: Moment,
    /// Renewals sent since the last one that was confirmed.
    pub(super) unconfirmed: u32,
    /// Answers to renewals before this number are not about this grant of the id.
    pub(super) first_number: u64,
    /// How often its places in queues have changed, as far as the session can account for it.
    pub(super) changes: Option<u64>,
    /// The most that the answer to a renewal has told since locks were asked for.
    pub(super) changes_seen: Option<u64>,
    /// Answers to renewals before this number may tell of fewer changes.
    pub(super) settled_number: u64,
    /// Since when it is idle, if it is.
    idle_since: Moment,
    /// A lock was held for longer than its bound.
    pub(super) is_spent: bool,
    /// The request that makes it.
    pub(super) grant: Option<TicketId>,
}

impl Lease {
    /// Whether it should be renewed.
    pub(super) fn is_wanted(&self) -> bool {
        let used = match self.usage {
            Use::Attempt(_) | Use::Hold(_) => true,
            Use::User { keep_alive } => keep_alive,
            Use::Undoing(_) | Use::Idle | Use::Ending => false,
        };
        used && self.is_granted
    }

    /// How requests name it.
    pub(super) fn under(&self) -> Under {
        Under { id: self.id, epoch: self.epoch }
    }

    /// Until when it stays among the idle ones.
    fn idle_until(&self) -> Moment {
        self.confirmed.after(self.ttl / 2).min(self.idle_since.after(IDLE_FOR))
    }
}

#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: Table<LeaseNo, Lease>,
    by_id: BTreeMap<i64, LeaseNo>,
    /// Those that wait for the next acquire. A TTL has a list for as long as there are leases of it.
    idle: BTreeMap<Duration, Vec<LeaseNo>>,
    idle_count: usize,
    made: u64,
    /// How many there are of each TTL.
    ttls: BTreeMap<Duration, usize>,
    /// Those that are to be renewed, by when. One that is not wanted any more stays until its turn
    /// comes: most likely it is in use again by then, and is to be renewed at the same moment.
    renewal_order: BTreeSet<(Moment, LeaseNo)>,
}

impl Leases {
    pub(super) fn get(&self, no: LeaseNo) -> Option<&Lease> {
        self.leases.get(&no)
    }

    pub(super) fn get_mut(&mut self, no: LeaseNo) -> Option<&mut Lease> {
        self.leases.get_mut(&no)
    }

    pub(super) fn by_id(&self, id: i64) -> Option<LeaseNo> {
        self.by_id.get(&id).copied()
    }

    /// The shortest TTL of all: how quickly trouble must be noticed.
    pub(super) fn ttl_min(&self) -> Option<Duration> {
        self.ttls.first_key_value().map(|(&ttl, _)| ttl)
    }

    /// Fills in what is known of a lease that somebody else has made.
    pub(super) fn adopt(&mut self, no: LeaseNo, adopted: &AdoptedLease, first_number: u64) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        lease.id = adopted.id;
        lease.epoch = adopted.epoch;
        lease.is_granted = true;
        lease.first_number = first_number;
        self.by_id.insert(adopted.id, no);
    }

    /// Puts a lease into the order of renewals, or takes it out.
    pub(super) fn schedule(&mut self, no: LeaseNo, at: Moment) {
        let Some(lease) = self.leases.get_mut(&no) else { return };
        lease.renew_at = if lease.is_wanted() { at } else { Moment::NEVER };
        if lease.renew_at == Moment::NEVER || lease.renew_at == lease.queued_at {
            return;
        }
        self.renewal_order.remove(&(lease.queued_at, no));
        lease.queued_at = at;
        self.renewal_order.insert((at, no));
    }

    /// All that the service has made.
    pub(super) fn granted(&self) -> Vec<LeaseNo> {
        self.leases.keys_where(|lease| lease.is_granted)
    }

    /// All that should be renewed.
    pub(super) fn wanted(&self) -> Vec<LeaseNo> {
        self.leases.keys_where(Lease::is_wanted)
    }

    /// Those that should be renewed up to `until` of each, in order and at most so many.
    pub(super) fn to_renew(&self, until: impl Fn(&Lease) -> Moment, max: usize) -> Vec<LeaseNo> {
        let lease = |&(at, no): &(Moment, LeaseNo)| Some((at, no, self.leases.get(&no)?));
        let queued = self.renewal_order.iter().filter_map(lease);
        let wanted = queued.filter(|(at, _, lease)| lease.renew_at == *at);
        let due = wanted.take_while(|(at, _, lease)| *at <= until(lease));
        due.map(|(_, no, _)| no).take(max).collect()
    }

    /// When the first one should be renewed. Those before it that should not be are taken out.
    pub(super) fn first_renewal(&mut self) -> Option<Moment> {
        while let Some(&(at, no)) = self.renewal_order.first() {
            match self.leases.get_mut(&no) {
                Some(lease) if lease.renew_at == at => return Some(at),
                Some(lease) => lease.queued_at = Moment::NEVER,
                None => {}
            }
            self.renewal_order.pop_first();
        }
        None
    }

    /// All that wait for the next acquire.
    fn idle(&self) -> Vec<LeaseNo> {
        self.idle.values().flatten().copied().collect()
    }

    fn take_idle(&mut self, ttl: Duration) -> Option<LeaseNo> {
        let no = self.idle.get_mut(&ttl)?.pop();
        self.idle_count -= usize::from(no.is_some());
        no
    }

    fn remove_idle(&mut self, no: LeaseNo, ttl: Duration) {
        if let Some(list) = self.idle.get_mut(&ttl) {
            let before = list.len();
            list.retain(|&other| other != no);
            self.idle_count -= before - list.len();
        }
    }
}

impl Session {
    /// A record for a lease that the service has not named yet.
    pub(super) fn new_lease(&mut self, ttl: Duration, usage: Use) -> LeaseNo {
        self.leases.made += 1;
        let no = LeaseNo(self.leases.made);
        let lease = Lease {
            usage,
            ttl,
            id: 0,
            epoch: 0,
            is_granted: false,
            numbers: Numbers::default(),
            confirmed: self.now,
            alive_until: self.now,
            interval: ttl / 3,
            renew_at: Moment::NEVER,
            queued_at: Moment::NEVER,
            unconfirmed: 0,
            first_number: 0,
            changes: Some(0),
            changes_seen: None,
            settled_number: 0,
            idle_since: self.now,
            is_spent: false,
            grant: None,
        };
        *self.leases.ttls.entry(ttl).or_default() += 1;
        self.leases.leases.insert(no, lease);
        no
    }

    /// Asks the service for a lease.
    pub(super) fn grant_lease(&mut self, no: LeaseNo, id: i64, revoke_on_disconnect: Duration) {
        let Some(lease) = self.leases.get(no) else { return };
        let body = Request::LeaseGrant(pb::LeaseGrantRequest {
            id,
            ttl_ms: wire_ms(lease.ttl),
            client_id: self.config.client_id.clone(),
            revoke_on_disconnect_ms: wire_ms(revoke_on_disconnect),
            ..Default::default()
        });
        let ticket = self.request(Task::Grant(no), Numbering::Client, body.into(), None);
        if let Some(lease) = self.leases.get_mut(no) {
            lease.grant = Some(ticket);
        }
    }

    /// The service has made the lease. It lives at least from when it was first asked for.
    pub(super) fn lease_was_granted(
        &mut self,
        no: LeaseNo,
        first_sent: Moment,
        granted: &pb::LeaseGrantResponse,
    ) {
        let Some(lease) = self.leases.get_mut(no) else { return };
        let ttl = from_wire_ms(granted.ttl_ms);
        lease.grant = None;
        lease.is_granted = true;
        lease.id = granted.id;
        lease.epoch = granted.epoch;
        lease.confirmed = first_sent;
        lease.alive_until = believed_until(first_sent, lease.ttl.min(ttl));
        lease.first_number = self.renewals.next_number();
        let (usage, at) = (lease.usage, first_sent.after(lease.interval));
        self.leases.by_id.insert(granted.id, no);
        self.schedule_renewal(no, at);
        match usage {
            Use::Attempt(op) => self.ask_for_locks(op),
            Use::User { .. } => self.user_lease_is_made(no),
            Use::Idle => self.keep_idle(no),
            Use::Ending => self.revoke_lease(no, None),
            Use::Hold(_) | Use::Undoing(_) => {}
        }
    }

    /// A lease for an acquire: an idle one if there is, otherwise a new one.
    pub(super) fn lease_for(&mut self, op: OpId, ttl: Duration, interval: Duration) -> LeaseNo {
        while let Some(no) = self.leases.take_idle(ttl) {
            let Some(lease) = self.leases.get_mut(no) else { continue };
            if self.now >= lease.idle_until() {
                self.revoke_lease(no, None);
                continue;
            }
            lease.usage = Use::Attempt(op);
            lease.interval = interval;
            let at = lease.confirmed.after(interval).max(self.now);
            self.schedule_renewal(no, at);
            return no;
        }
        let no = self.new_lease(ttl, Use::Attempt(op));
        if let Some(lease) = self.leases.get_mut(no) {
            lease.interval = interval;
        }
        self.grant_lease(no, 0, Duration::ZERO);
        no
    }

    /// An acquire needs its lease no more, and holds nothing with it.
    pub(super) fn keep_idle(&mut self, no: LeaseNo) {
        let Some(lease) = self.leases.get_mut(no) else { return };
        lease.usage = Use::Idle;
        lease.idle_since = self.now;
        if !lease.is_granted {
            self.keep_ungranted(no);
            return;
        }
        let (until, ttl) = (lease.idle_until(), lease.ttl);
        let useless = self.closing || lease.is_spent || self.now >= until;
        self.leases.schedule(no, Moment::NEVER);
        if useless || self.leases.idle_count >= IDLE_MAX {
            self.revoke_lease(no, None);
            return;
        }
        self.leases.idle.entry(ttl).or_default().push(no);
        self.leases.idle_count += 1;
        self.timers.arm(Timer::Lease(no), until);
    }

    /// Gives back every lease that waits for an acquire: there will be none.
    pub(super) fn end_all_idle(&mut self) {
        for no in self.leases.idle() {
            self.end_idle(no);
        }
    }

    fn end_idle(&mut self, no: LeaseNo) {
        if let Some(ttl) = self.leases.get(no).map(|lease| lease.ttl) {
            self.leases.remove_idle(no, ttl);
            self.revoke_lease(no, None);
        }
    }

    /// A lease that nobody waits for any more before it was granted. If it ever is, it is kept.
    fn keep_ungranted(&mut self, no: LeaseNo) {
        let Some(ticket) = self.leases.get(no).and_then(|lease| lease.grant) else { return };
        if self.requests.get(ticket).is_some_and(|ticket| ticket.sent > 0) {
            let keep_for = self.lifetime(no);
            self.give_up_after(ticket, keep_for);
        } else {
            self.finish_ticket(ticket);
            self.drop_lease(no);
        }
    }

    /// Ends a lease, and everything with it.
    pub(super) fn revoke_lease(&mut self, no: LeaseNo, op: Option<OpId>) {
        let Some(lease) = self.leases.get_mut(no) else { return };
        lease.usage = Use::Ending;
        if !lease.is_granted {
            self.keep_ungranted(no);
            return;
        }
        let body =
            Request::LeaseRevoke(pb::LeaseRevokeRequest { id: lease.id, epoch: lease.epoch });
        let keep_for = lease.ttl + AFTERLIFE;
        self.leases.schedule(no, Moment::NEVER);
        self.timers.disarm(Timer::Lease(no));
        self.request(Task::Revoke(no, op), Numbering::Client, body.into(), Some(keep_for));
    }

    /// Forgets a lease that has ended, or that is left to run out.
    pub(super) fn drop_lease(&mut self, no: LeaseNo) {
        let Some(lease) = self.leases.leases.remove(&no) else { return };
        self.leases.renewal_order.remove(&(lease.queued_at, no));
        self.timers.disarm(Timer::Lease(no));
        self.leases.remove_idle(no, lease.ttl);
        if self.leases.by_id(lease.id) == Some(no) {
            self.leases.by_id.remove(&lease.id);
        }
        if let Some(count) = self.leases.ttls.get_mut(&lease.ttl) {
            *count -= 1;
            if *count == 0 {
                self.leases.ttls.remove(&lease.ttl);
                self.leases.idle.remove(&lease.ttl);
            }
        }
    }

    /// How long a request about this lease is worth repeating.
    pub(super) fn lifetime(&self, no: LeaseNo) -> Duration {
        self.leases.get(no).map_or(AFTERLIFE, |lease| lease.ttl + AFTERLIFE)
    }

    pub(super) fn schedule_renewal(&mut self, no: LeaseNo, at: Moment) {
        self.leases.schedule(no, at);
        if self.link.is_up()
            && let Some(first) = self.leases.first_renewal()
        {
            self.timers.arm(Timer::Renew, first);
        }
    }

    /// The moment has come that a lease's timer was set for.
    pub(super) fn lease_is_due(&mut self, no: LeaseNo) {
        let Some(lease) = self.leases.get(no) else { return };
        match lease.usage {
            Use::Hold(hold) => self.hold_is_due(hold),
            Use::Idle => {
                let until = lease.idle_until();
                if self.now >= until {
                    self.end_idle(no);
                } else {
                    self.timers.arm(Timer::Lease(no), until);
                }
            }
            Use::Attempt(_) | Use::Undoing(_) | Use::User { .. } | Use::Ending => {}
        }
    }

    /// Nothing is left to be undone.
    fn lease_is_gone_for_good(&mut self, no: LeaseNo) {
        match self.leases.get(no).map(|lease| lease.usage) {
            Some(Use::Undoing(op)) => self.attempt_is_over(op, false),
            _ => self.drop_lease(no),
        }
    }

    /// The service says that the lease has ended.
    pub(super) fn lease_is_gone(&mut self, no: LeaseNo) {
        let Some(lease) = self.leases.get(no) else { return };
        match lease.usage {
            Use::Attempt(op) | Use::Undoing(op) => self.attempt_lost_lease(op),
            Use::Hold(hold) => {
                self.lose(hold, Loss::LeaseGone);
                self.lease_is_gone_for_good(no);
            }
            Use::User { .. } => {
                self.push(Output::LeaseGone(no));
                self.fail_waiting_for_lease(no);
                self.drop_lease(no);
            }
            Use::Idle => self.drop_lease(no),
            // The request that ends it will find out by itself.
            Use::Ending => {}
        }
    }
}
