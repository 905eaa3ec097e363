//! I6, tokens grow: on each lock every grant has a greater token than all before it, over release,
//! expiry, deletion, leader change, snapshot and restore. A token is the revision that created the
//! contender; revisions are raised one by one, and only by changes of keys. Every answer that
//! carries a token carries the one that was granted.

use std::collections::BTreeMap;

use fencepost_core::event::{EventKind, Holding};
use fencepost_core::outcome::Outcome;
use fencepost_core::{Key, LockName, Token};

use super::book::{Book, split_key};
use super::oracle::Step;
use super::{Check, broken};

/// The last token of each lock. Kept over a restore.
#[derive(Default)]
pub(super) struct TokensGrow {
    last: BTreeMap<LockName, Token>,
}

impl TokensGrow {
    pub(super) fn granted(&mut self, book: &Book, name: &LockName, holding: &Holding) -> Check {
        let last = self.last.insert(name.clone(), holding.token);
        if last.is_some_and(|last| last >= holding.token) {
            let (last, token) = (last.unwrap_or_default().0, holding.token.0);
            return Err(broken("I6", format!("{name}: token {token} is granted after {last}")));
        }
        let created = book.place(name, &holding.key).map(|place| place.token);
        if created != Some(holding.token) {
            let token = holding.token.0;
            let what = format!("{name}: token {token} is not what {created:?} was created at");
            return Err(broken("I6", what));
        }
        Ok(())
    }

    /// Answers carry tokens that were granted.
    pub(super) fn answered(book: &Book, outcome: &Outcome) -> Check {
        match outcome {
            Outcome::Acquired(grant) | Outcome::Renewed(grant) => {
                known(book, &grant.key, grant.token)
            }
            Outcome::AcquiredMany(grant) => {
                grant.keys.iter().try_for_each(|key| known(book, key, grant.token))
            }
            _ => Ok(()),
        }
    }

    /// Every revision is that of a change of keys, and no key changes its place in its queue.
    pub(super) fn revisions(step: &Step<'_>) -> Check {
        let mut last = step.revision_before;
        for event in &step.effects.events {
            if event.revision != last && event.revision != last.next() {
                let (from, to) = (last.0, event.revision.0);
                return Err(broken("I6", format!("the revision jumps from {from} to {to}")));
            }
            if event.revision != last && !event.is_key_change() {
                let what = format!("revision {} begins without a change", event.revision.0);
                return Err(broken("I6", what));
            }
            last = event.revision;
            if let EventKind::Put { kv, prev: Some(prev) } = &event.kind
                && kv.create_revision != prev.create_revision
            {
                return Err(broken("I6", format!("a put has moved {} in its queue", kv.key)));
            }
        }
        if last != step.state.revision() {
            let (from, to) = (last.0, step.state.revision().0);
            return Err(broken("I6", format!("revision {to} follows {from} without a change")));
        }
        Ok(())
    }
}

fn known(book: &Book, key: &Key, token: Token) -> Check {
    if book.grant_at(key, token).is_some() {
        return Ok(());
    }
    let name = split_key(key).map_or_else(|| key.to_string(), |(name, _)| name.to_string());
    Err(broken("I6", format!("{name}: an answer carries token {}, never granted", token.0)))
}
