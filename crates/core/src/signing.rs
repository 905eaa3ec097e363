//! The public keys with which members sign fencing tokens.
//!
//! Owns: which keys a resource may believe, and with which of them each member signs. The secret
//! halves stay on their members' disks. Refuses: a key that has two owners, and one that was taken
//! out of use once. Guarantees: these are no keys of users, so nothing here raises the revision or
//! makes an event; a member has at most one active key and one that comes next; a key that was
//! published stays so until it is revoked, or spent for a long time while others need its room.

use crate::command::{PublishKey, RevokeKey, RotateKey};
use crate::ids::{LogTime, Millis, NodeId, PublicKey};
use crate::outcome::{Outcome, Reason};
use crate::state::State;
use crate::step::Step;
use crate::timer::Timer;

/// A public key, without its bytes: those are what it is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigningKey {
    /// The member that has the secret half.
    pub node: NodeId,
    /// What it is good for.
    pub stage: KeyStage,
    /// Since when.
    pub since: LogTime,
}

/// What a published key is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStage {
    /// It is to be believed, and signs from this moment on: until then it gets around.
    Next(LogTime),
    /// Its member signs with it.
    Active,
    /// It signs no more. What it has signed is still to be believed.
    Retired,
    /// It is not to be believed any more. It is remembered so that it cannot come back.
    Revoked,
}

impl KeyStage {
    /// Whether what the key has signed is to be believed.
    pub fn is_believed(self) -> bool {
        self != KeyStage::Revoked
    }

    /// Whether it will never sign again.
    pub fn is_spent(self) -> bool {
        matches!(self, KeyStage::Retired | KeyStage::Revoked)
    }
}

impl Step<'_> {
    /// A key is believed from now on. It signs at once if it is to, or if its member has no other.
    pub(crate) fn publish_key(&mut self, publish: &PublishKey) -> Result<Outcome, Reason> {
        let PublishKey { node, key, after } = *publish;
        match self.state.signing_keys.get(&key).copied() {
            Some(known) if known.node != node => return Err(Reason::SigningKeyTaken(known.node)),
            Some(known) if known.stage.is_spent() => return Err(Reason::SigningKeySpent),
            Some(known) => {
                // A repeat changes nothing. The other active key may be lost, though, and then
                // there is nothing to wait for.
                if known.stage != KeyStage::Active && after == Millis::ZERO {
                    self.activate_key(key);
                }
            }
            None => {
                self.make_room_for_key()?;
                if let Some(earlier) = self.state.next_key_of(node) {
                    self.set_stage(earlier, KeyStage::Retired);
                }
                let at_once = after == Millis::ZERO || self.state.active_key_of(node).is_none();
                let due = self.state.now.after(after);
                let (stage, since) = (KeyStage::Next(due), self.state.now);
                self.state.signing_keys.insert(key, SigningKey { node, stage, since });
                self.state.timers.arm(due, Timer::KeyDue(key));
                self.state.rotations.remove(&node);
                self.state.signing_changes += 1;
                if at_once {
                    self.activate_key(key);
                }
            }
        }
        Ok(Outcome::Done)
    }

    /// Asks a member for a new key. It obeys when it applies this, so any member can ask any other,
    /// also one that is away.
    pub(crate) fn rotate_key(&mut self, rotate: &RotateKey) -> Result<Outcome, Reason> {
        if self.state.active_key_of(rotate.node).is_none() {
            return Err(Reason::SigningKeyUnknown);
        }
        self.state.rotations.insert(rotate.node, rotate.after);
        self.state.signing_changes += 1;
        Ok(Outcome::Done)
    }

    /// A member that is gone for good signs nothing more.
    pub(crate) fn retire_keys(&mut self, node: NodeId) -> Outcome {
        self.state.rotations.remove(&node);
        let keys = [self.state.next_key_of(node), self.state.active_key_of(node)];
        for key in keys.into_iter().flatten() {
            self.set_stage(key, KeyStage::Retired);
        }
        Outcome::Done
    }

    /// A key is not believed any more, whatever it has signed. The one that comes next takes over,
    /// if there is one: it is as well known as it will be.
    pub(crate) fn revoke_key(&mut self, revoke: &RevokeKey) -> Result<Outcome, Reason> {
        let known = self.state.signing_keys.get(&revoke.key).copied();
        let known = known.ok_or(Reason::SigningKeyUnknown)?;
        if known.stage != KeyStage::Revoked {
            self.set_stage(revoke.key, KeyStage::Revoked);
        }
        if known.stage == KeyStage::Active
            && let Some(next) = self.state.next_key_of(known.node)
        {
            self.activate_key(next);
        }
        Ok(Outcome::Done)
    }

    /// The member signs with this key from now on, and with its earlier one no more.
    pub(crate) fn activate_key(&mut self, key: PublicKey) {
        let Some(known) = self.state.signing_keys.get(&key).copied() else { return };
        if let Some(active) = self.state.active_key_of(known.node) {
            self.set_stage(active, KeyStage::Retired);
        }
        self.set_stage(key, KeyStage::Active);
    }

    fn set_stage(&mut self, key: PublicKey, stage: KeyStage) {
        let now = self.state.now;
        let Some(known) = self.state.signing_keys.get_mut(&key) else { return };
        if let KeyStage::Next(due) = known.stage {
            self.state.timers.disarm(due, Timer::KeyDue(key));
        }
        (known.stage, known.since) = (stage, now);
        self.state.signing_changes += 1;
    }

    /// The key that was spent first makes room, if it was long ago: then nobody holds a lock with
    /// what it has signed.
    fn make_room_for_key(&mut self) -> Result<(), Reason> {
        let max = self.state.limits.signing_keys_max;
        while self.state.signing_keys.len() >= max as usize {
            let spent = self.state.signing_keys.iter().filter(|(_, key)| key.stage.is_spent());
            let oldest = spent.min_by_key(|(bytes, key)| (key.since, **bytes));
            let kept = self.state.limits.signing_key_kept;
            let Some((&key, _)) = oldest.filter(|(_, key)| key.since.after(kept) <= self.state.now)
            else {
                return Err(Reason::SigningKeysFull(max));
            };
            self.state.signing_keys.remove(&key);
            self.state.signing_changes += 1;
        }
        Ok(())
    }
}

impl State {
    /// All signing keys that are known, also those that are not believed any more.
    pub fn signing_keys(&self) -> impl Iterator<Item = (PublicKey, SigningKey)> + '_ {
        self.signing_keys.iter().map(|(&bytes, &key)| (bytes, key))
    }

    /// The members that were asked for a new key and have not published it, and how long it is to
    /// get around before it signs.
    pub fn rotations(&self) -> impl Iterator<Item = (NodeId, Millis)> + '_ {
        self.rotations.iter().map(|(&node, &after)| (node, after))
    }

    /// Counts the changes of signing keys, for those who keep a copy.
    pub fn signing_changes(&self) -> u64 {
        self.signing_changes
    }

    pub(crate) fn active_key_of(&self, node: NodeId) -> Option<PublicKey> {
        self.key_of(node, |stage| stage == KeyStage::Active)
    }

    pub(crate) fn next_key_of(&self, node: NodeId) -> Option<PublicKey> {
        self.key_of(node, |stage| matches!(stage, KeyStage::Next(_)))
    }

    fn key_of(&self, node: NodeId, is_meant: impl Fn(KeyStage) -> bool) -> Option<PublicKey> {
        let mut keys = self.signing_keys.iter();
        keys.find(|(_, key)| key.node == node && is_meant(key.stage)).map(|(&bytes, _)| bytes)
    }

    /// What a backup knows of signing keys is about members that are gone. What they have signed
    /// stays believable; they sign nothing for the cluster that goes on.
    pub(crate) fn retire_all_keys(&mut self) {
        let now = self.now;
        for key in self.signing_keys.values_mut().filter(|key| !key.stage.is_spent()) {
            (key.stage, key.since) = (KeyStage::Retired, now);
        }
        self.rotations.clear();
        self.signing_changes += 1;
    }
}
