//! What happened to each lock, as its clients saw it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fencepost_core::event::Holding;
use fencepost_core::outcome::{Outcome, Reason};
use fencepost_core::query::LockView;
use fencepost_core::{Action, Key, LeaseId, LockName, Token};
use porcupine_rs::Operation;

use super::model::{Happened, LockModel, Verdict, search};
use crate::check::book::{Book, split_key};
use crate::check::calls::{Bytes, Calls};
use crate::check::{Check, broken};
use crate::seen::Time;

/// Something that happened between two moments.
#[derive(Clone, Debug)]
struct Spanned {
    what: Happened,
    from: i64,
    to: i64,
}

/// An operation whose answer may still come.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: usize,
}

/// The histories of all locks.
#[derive(Default)]
pub(in crate::check) struct Histories {
    locks: BTreeMap<LockName, Vec<Spanned>>,
    /// Grants that nobody was told of yet.
    untold: BTreeMap<(LockName, Token), Place>,
    /// Releases that were done and not answered yet, by their commands.
    unanswered: BTreeMap<Bytes, Vec<(LockName, Place)>>,
    /// Who made each contender.
    made_by: BTreeMap<(LockName, Token), Bytes>,
    /// The lease that each grant was made to.
    owners: BTreeMap<(LockName, Token), LeaseId>,
}

impl Histories {
    fn add(&mut self, name: &LockName, what: Happened, from: Time, to: i64) -> Place {
        let history = self.locks.entry(name.clone()).or_default();
        history.push(Spanned { what, from: moment(from), to });
        Place { number: history.len() - 1 }
    }

    fn close(&mut self, name: &LockName, place: Place, at: Time) {
        if let Some(one) = self.locks.get_mut(name).and_then(|all| all.get_mut(place.number)) {
            one.to = one.to.max(moment(at));
        }
    }

    /// A contender was made by this command.
    pub(in crate::check) fn made(&mut self, name: &LockName, token: Token, bytes: &Bytes) {
        self.made_by.insert((name.clone(), token), bytes.clone());
    }

    /// A contender was granted its lock. The book knows of it already.
    pub(in crate::check) fn granted(
        &mut self,
        book: &Book,
        calls: &Calls,
        name: &LockName,
        holding: &Holding,
    ) {
        let token = holding.token;
        let key = (name.clone(), token);
        self.owners.insert(key.clone(), holding.lease);
        let Some(grant) = book.grants.get(&key) else { return };
        let asked = self.made_by.remove(&key).and_then(|bytes| calls.first_sent(&bytes));
        let what = Happened::Granted(token.0, grant.mode);
        let place = self.add(name, what, asked.unwrap_or(grant.at), moment(grant.at));
        self.untold.insert(key, place);
    }

    /// A hold was over at this moment, and no release of the client's was why.
    pub(in crate::check) fn ended(&mut self, name: &LockName, token: Token, at: Time) {
        self.add(name, Happened::Ended(token.0), at, moment(at));
    }

    /// A hold was released by this command.
    pub(in crate::check) fn released(
        &mut self,
        calls: &Calls,
        name: &LockName,
        token: Token,
        at: Time,
        bytes: &Bytes,
    ) {
        let from = calls.first_sent(bytes).unwrap_or(at);
        let place = self.add(name, Happened::Ended(token.0), from, moment(at));
        self.unanswered.entry(bytes.clone()).or_default().push((name.clone(), place));
    }

    /// A client was answered. `from` is when the answer can have come to be at the earliest.
    pub(in crate::check) fn answered(
        &mut self,
        from: Time,
        at: Time,
        bytes: &Bytes,
        action: &Action,
        outcome: &Outcome,
    ) {
        for (name, place) in self.unanswered.remove(bytes).unwrap_or_default() {
            self.close(&name, place, at);
        }
        match (action, outcome) {
            (_, Outcome::Acquired(grant)) => self.told(&grant.key, grant.token, at),
            (_, Outcome::AcquiredMany(grant)) => {
                for key in &grant.keys {
                    self.told(key, grant.token, at);
                }
            }
            (_, Outcome::Renewed(grant)) => {
                if let Some((name, _)) = split_key(&grant.key) {
                    self.add(&name, Happened::Held(grant.token.0), from, moment(at));
                }
            }
            (
                Action::Release(release),
                Outcome::NotFound
                | Outcome::Rejected(Reason::NotHolder | Reason::TokenMismatch(..)),
            ) => {
                // A token of somebody else may well be held, by somebody else.
                let owner = self.owners.get(&(release.name.clone(), release.token));
                if owner == Some(&release.lease.id) {
                    let what = Happened::NotHeld(release.token.0);
                    self.add(&release.name, what, from, moment(at));
                }
            }
            _ => {}
        }
    }

    fn told(&mut self, key: &Key, token: Token, at: Time) {
        let Some((name, _)) = split_key(key) else { return };
        if let Some(place) = self.untold.remove(&(name.clone(), token)) {
            self.close(&name, place, at);
        }
    }

    /// A client has read a lock.
    pub(in crate::check) fn read(&mut self, called: Time, at: Time, view: &LockView) {
        let tokens = view.holders.iter().map(|holder| holder.token.0).collect();
        self.add(&view.name, Happened::Seen(tokens), called, moment(at));
    }

    /// Looks for an order of each lock's history, and forgets them all.
    pub(in crate::check) fn check(&mut self) -> Check {
        let Histories { locks, .. } = std::mem::take(self);
        for (name, history) in locks {
            let history = telling(history);
            let operations: Vec<Operation<LockModel>> = history.iter().map(operation).collect();
            match search(&operations) {
                Verdict::Linear => {}
                Verdict::NotLinear => {
                    let count = history.len();
                    let what = format!("{name}: no order explains its {count} operations");
                    return Err(broken("I27", what));
                }
                Verdict::Unknown => {
                    let what = format!("{name}: no verdict on its {} operations", history.len());
                    return Err(broken("I27", what));
                }
            }
        }
        Ok(())
    }
}

/// Leaves out what says nothing new. An observation changes nothing, so if another one saw the same
/// within the same span or less, whatever moment explains that one explains this one too. Calls
/// that pile up while nobody answers would otherwise make the search try all their orders.
fn telling(mut history: Vec<Spanned>) -> Vec<Spanned> {
    history.sort_by_key(|one| (Reverse(one.from), one.to));
    let mut soonest: BTreeMap<String, i64> = BTreeMap::new();
    history.retain(|one| {
        if matches!(one.what, Happened::Granted(..) | Happened::Ended(_)) {
            return true;
        }
        let known = soonest.entry(format!("{:?}", one.what)).or_insert(i64::MAX);
        let is_new = one.to < *known;
        *known = one.to.min(*known);
        is_new
    });
    history.sort_by_key(|one| one.from);
    history
}

fn moment(at: Time) -> i64 {
    i64::try_from(at.0).expect("a run is shorter than three hundred thousand years")
}

fn operation(spanned: &Spanned) -> Operation<LockModel> {
    Operation {
        client_id: None,
        call_time: spanned.from,
        return_time: spanned.to,
        op: spanned.what.clone(),
        metadata: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_observation_of_the_same_says_nothing_new() {
        let seen =
            |tokens: &[u64], from, to| Spanned { what: Happened::Seen(tokens.to_vec()), from, to };
        let ended = Spanned { what: Happened::Ended(2), from: 0, to: 100 };
        let all = vec![
            seen(&[], 0, 100),
            ended.clone(),
            seen(&[], 10, 50),
            seen(&[2], 5, 60),
            seen(&[], 20, 60),
            seen(&[], 10, 50),
            ended,
        ];
        let left: Vec<(i64, i64)> = telling(all).iter().map(|one| (one.from, one.to)).collect();
        assert_eq!(left, [(0, 100), (0, 100), (5, 60), (10, 50), (20, 60)]);
    }
}
