//! The invariants of single commands: what each was answered, and what it may have done.

use std::collections::{BTreeMap, BTreeSet};

use fencepost_core::command::{Caller, CancelTarget, Command, LeaseRef, Mode, Wait};
use fencepost_core::event::{Cause, EventKind, KeyValue};
use fencepost_core::outcome::RenewResult;
use fencepost_core::{Action, Epoch, Event, LeaseId, Outcome, Reason, Reply, Revision, Seq, Token};

use super::check::{Check, Seen, ensure};

/// A numbered request: the client's name or the lease and its grant, and the number.
type Numbered = (String, Seq);

#[derive(Default)]
pub(crate) struct Replies {
    /// The last answer to each numbered request.
    answers: BTreeMap<Numbered, (Command, Outcome)>,
    /// The requests that a cancellation has ended.
    cancelled: BTreeMap<Numbered, Outcome>,
    /// Cancelled numbers of leases of which it is not known which grant was meant.
    vague: BTreeSet<(LeaseId, Seq)>,
    /// The highest epoch that was answered.
    last_epoch: Epoch,
}

/// One command with its answer, and the revision before it.
struct Said<'a> {
    command: &'a Command,
    reply: &'a Reply,
    before: Revision,
    events: Vec<&'a Event>,
}

impl Replies {
    pub(crate) fn check(&mut self, seen: &Seen<'_>) -> Check {
        let mut before = seen.ticked.revision();
        let pairs = seen.entry.commands.iter().zip(&seen.effects.replies);
        for (at, (command, reply)) in pairs.enumerate() {
            let changes = seen.effects.events.iter().map(|event| &**event).filter(|event| {
                reply.revision > before && event.revision == reply.revision && event.is_key_change()
            });
            let said = Said { command, reply, before, events: changes.collect() };
            self.repeats(&said, seen)?;
            self.cancellations(&said, seen)?;
            releases(&said)?;
            refusals(&said)?;
            tries(&said)?;
            if at == 0 {
                dead_leases(&said, seen)?;
                renewals(&said, seen)?;
            }
            before = reply.revision;
        }
        for (at, reply) in seen.effects.replies.iter().enumerate() {
            self.new_leases(reply, at + 1 == seen.effects.replies.len(), seen)?;
        }
        if let [command] = &seen.entry.commands[..] {
            traceless(command, &seen.effects.replies[0], seen)?;
            floors(command, seen)?;
        }
        ensure(seen.entry.commands.len() == seen.effects.replies.len(), || "a reply each".into())
    }

    /// I16: a repeat gets the same answer, or what has become of its wait, and changes no key.
    fn repeats(&mut self, said: &Said<'_>, seen: &Seen<'_>) -> Check {
        let Some(number) = numbered(said.command, seen) else { return Ok(()) };
        let new = &said.reply.outcome;
        let known = self.answers.get(&number).filter(|known| known.0 == *said.command);
        if let Some((_, old)) = known.filter(|_| !is_window_refusal(new)) {
            let same = match (old, new) {
                _ if old == new => true,
                (Outcome::Queued(a), Outcome::Queued(b)) => a.key == b.key,
                (Outcome::Reserved(a), Outcome::Reserved(b)) => a.key == b.key,
                (Outcome::Queued(_) | Outcome::Reserved(_), Outcome::Ended(_)) => true,
                (Outcome::Queued(a), Outcome::Acquired(b)) => a.key == b.key,
                (Outcome::Queued(a) | Outcome::Reserved(a), Outcome::AcquiredMany(b)) => {
                    b.keys.contains(&a.key)
                }
                (_, Outcome::Ended(Cause::Cancelled)) => self.cancelled.contains_key(&number),
                _ => false,
            };
            ensure(same, || format!("I16: first {old:?}, then {new:?}"))?;
            let unmoved = said.reply.revision == said.before || only_expired(&said.events);
            ensure(unmoved, || format!("I16: a repeat changed keys: {:?}", said.command))?;
        }
        if !is_window_refusal(new) {
            self.answers.insert(number, (said.command.clone(), new.clone()));
        }
        Ok(())
    }

    /// A lease that was just granted is there.
    fn new_leases(&mut self, reply: &Reply, last: bool, seen: &Seen<'_>) -> Check {
        let Outcome::LeaseGranted(granted) = &reply.outcome else { return Ok(()) };
        let new = granted.epoch > self.last_epoch;
        self.last_epoch = self.last_epoch.max(granted.epoch);
        let there = seen.after.lease(granted.id).is_some_and(|one| one.epoch == granted.epoch);
        ensure(there || !new || !last, || format!("granted, but not there: {granted:?}"))
    }

    /// A request that was cancelled, before or after it came, is never served again.
    fn cancellations(&mut self, said: &Said<'_>, seen: &Seen<'_>) -> Check {
        let new = &said.reply.outcome;
        if let Some(number) = numbered(said.command, seen)
            && let Some(ended) = self.cancelled.get(&number)
        {
            // A cancellation that was itself cancelled ahead has not been done either.
            return ensure(new == ended || is_window_refusal(new), || {
                format!("served although cancelled: {:?} got {new:?}", said.command)
            });
        }
        let Action::Cancel(cancel) = &said.command.action else { return Ok(()) };
        let CancelTarget::Seq(seq) = cancel.target else { return Ok(()) };
        let id = cancel.lease.id;
        let own = said.command.once.as_ref().map_or(Seq::NONE, |once| once.seq);
        if *new == Outcome::Ended(Cause::Cancelled) && !self.vague.contains(&(id, own)) {
            match caller(&Caller::Lease(id), cancel.lease, seen) {
                Some(caller) => drop(self.cancelled.insert((caller, seq), new.clone())),
                None => drop(self.vague.insert((id, seq))),
            }
        }
        Ok(())
    }
}

/// The lease that a command is made under.
fn lease_of(action: &Action) -> Option<LeaseRef> {
    match action {
        Action::Acquire(one) => Some(one.lease),
        Action::AcquireMany(one) => Some(one.lease),
        Action::Cancel(one) => Some(one.lease),
        Action::Release(one) => Some(one.lease),
        Action::ReleaseMany(one) => Some(one.lease),
        Action::LeaseRevoke(one) => Some(one.lease),
        Action::Disconnect(one) => Some(one.lease),
        _ => None,
    }
}

fn caller(by: &Caller, lease: LeaseRef, seen: &Seen<'_>) -> Option<String> {
    match by {
        Caller::Client(client) => Some(client.to_string()),
        // Which grant a lease without an epoch means is only known if it does not change.
        Caller::Lease(id) => {
            let epoch = [seen.before, seen.after].map(|state| {
                state
                    .lease(*id)
                    .map(|lease| lease.epoch)
                    .filter(|&epoch| lease.epoch == Epoch::ANY || lease.epoch == epoch)
            });
            let epoch = epoch[0].filter(|_| epoch[0] == epoch[1])?;
            Some(format!("{}/{}", id.0, epoch.0))
        }
    }
}

fn numbered(command: &Command, seen: &Seen<'_>) -> Option<Numbered> {
    let once = command.once.as_ref()?;
    let lease = lease_of(&command.action).unwrap_or_default();
    Some((caller(&once.by, lease, seen)?, once.seq))
}

/// Whether the window of answers, or its end, turned a request away.
fn is_window_refusal(outcome: &Outcome) -> bool {
    let Outcome::Rejected(reason) = outcome else { return false };
    matches!(
        reason,
        Reason::SeqTooOld(..)
            | Reason::SeqTooFar(..)
            | Reason::SeqZero
            | Reason::SeqReused(_)
            | Reason::LeaseNotFound(_)
            | Reason::LeaseEpochStale(..)
    )
}

/// Whether nothing went but keys of leases and waits that were due: they may go whenever they are
/// met, and what they blocked passes on.
fn only_expired(events: &[&Event]) -> bool {
    events.iter().all(|event| match &event.kind {
        EventKind::Deleted { ended: Some(ended), .. } => {
            matches!(ended.cause, Cause::Expired | Cause::TimedOut | Cause::Incomplete)
        }
        EventKind::Granted(_) => true,
        EventKind::Deleted { prev, ended: None } => !prev.lease.is_none(),
        _ => false,
    })
}

/// I17: a release ends the token that it names and no other, and nothing else releases.
fn releases(said: &Said<'_>) -> Check {
    let mut released: Vec<&KeyValue> = Vec::new();
    for event in &said.events {
        if let EventKind::Deleted { prev, ended: Some(ended) } = &event.kind
            && ended.cause == Cause::Released
        {
            released.push(prev);
        }
    }
    let token = match &said.command.action {
        Action::Release(one) => Some(one.token),
        Action::ReleaseMany(one) => Some(one.token),
        Action::ReleaseHeld(one) => Some(one.token),
        Action::ReleaseAs(_) => return Ok(()),
        _ => None,
    };
    for prev in released {
        ensure(token == Some(prev.create_revision.into()), || {
            format!("I17: {:?} released {prev:?}", said.command)
        })?;
    }
    Ok(())
}

/// What is refused changes no key.
fn refusals(said: &Said<'_>) -> Check {
    let refused =
        matches!(said.reply.outcome, Outcome::Rejected(_) | Outcome::Denied(_) | Outcome::NotFound);
    ensure(!refused || said.reply.revision == said.before || only_expired(&said.events), || {
        format!("refused, but keys changed: {:?}", said.command)
    })
}

/// A try leaves nothing behind that waits.
fn tries(said: &Said<'_>) -> Check {
    let wait = match &said.command.action {
        Action::Acquire(one) => one.wait,
        Action::AcquireMany(one) => one.wait,
        Action::AcquireAs(one) => one.wait,
        _ => return Ok(()),
    };
    let waits = matches!(said.reply.outcome, Outcome::Queued(_) | Outcome::Reserved(_));
    ensure(wait != Wait::Try || !waits, || format!("a try waits: {:?}", said.command))
}

/// I13: a lease that is over serves nothing.
fn dead_leases(said: &Said<'_>, seen: &Seen<'_>) -> Check {
    // An answer that a client's own window keeps outlives the lease.
    let kept = said.command.once.as_ref().is_some_and(|one| matches!(one.by, Caller::Client(_)));
    let lease = lease_of(&said.command.action).map(|lease| lease.id).filter(|_| !kept);
    let lease = lease.filter(|&id| seen.ticked.lease(id).is_none());
    let served = !matches!(said.reply.outcome, Outcome::Rejected(_));
    ensure(lease.is_none() || !served, || format!("a dead lease serves: {:?}", said.command))
}

/// I13: a renewal is acknowledged only to the living, and only to the grant that it means.
fn renewals(said: &Said<'_>, seen: &Seen<'_>) -> Check {
    let (Action::LeaseRenew(asked), Outcome::LeasesRenewed(told)) =
        (&said.command.action, &said.reply.outcome)
    else {
        return Ok(());
    };
    for (asked, told) in asked.renewals.iter().zip(told) {
        let lease = seen.ticked.lease(asked.lease.id);
        let epoch = lease.map(|lease| lease.epoch);
        let any = asked.lease.epoch == Epoch::ANY && epoch.is_some();
        let right = any || epoch == Some(asked.lease.epoch);
        ensure(right != (told.result == RenewResult::Gone), || {
            format!("I13: {asked:?} was told {told:?}")
        })?;
        ensure(asked.number == told.number, || "the number is not echoed".into())?;
    }
    Ok(())
}

/// A request that could never be served leaves no trace at all.
fn traceless(command: &Command, reply: &Reply, seen: &Seen<'_>) -> Check {
    let Outcome::Rejected(reason) = &reply.outcome else { return Ok(()) };
    let shape = matches!(
        reason,
        Reason::NameEmpty
            | Reason::TtlTooShort(..)
            | Reason::SeqZero
            | Reason::ReasonEmpty
            | Reason::NameRepeated(_)
            | Reason::NamespaceUnknown
            | Reason::WaitUnbound
    );
    let bare = command.once.is_none() && seen.effects.events.is_empty();
    if shape || bare {
        ensure(seen.after.hash() == seen.ticked.hash(), || {
            format!("refused, but something changed: {command:?}")
        })?;
    }
    Ok(())
}

/// A forced release fences off the token that it names, and of an exclusive holder all before.
fn floors(command: &Command, seen: &Seen<'_>) -> Check {
    let Action::ForceRelease(force) = &command.action else { return Ok(()) };
    let before = seen.ticked.lock(&force.name, 0);
    let after = seen.after.lock(&force.name, 0);
    let Some(holder) = before.holders.iter().find(|one| one.token == force.token) else {
        return ensure(after.fence_floor == before.fence_floor, || format!("moved: {after:?}"));
    };
    let right = match holder.mode {
        Mode::Exclusive => after.fence_floor == before.fence_floor.max(Token(force.token.0 + 1)),
        _ => after.fenced.contains(&force.token) || force.token < after.fence_floor,
    };
    ensure(right, || format!("the wrong floor for {force:?}: {after:?}"))
}
