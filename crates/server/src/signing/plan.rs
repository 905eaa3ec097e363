//! What a member has to do about its keys: a pure decision, looked at again after every change.

use fencepost_core::signing::KeyStage;
use fencepost_core::{Millis, NodeId, PublicKey};

use super::known::Known;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing.
    Nothing,
    /// Another key must be made.
    Make,
    /// This key must be published, and sign after so long.
    Publish(PublicKey, Millis),
}

/// What a member that has these secret keys has to do.
///
/// A key that the state does not know was made and not published: perhaps the process ended in
/// between. It is used before another one is made.
pub(super) fn need(node: NodeId, held: &[PublicKey], known: &Known) -> Need {
    let has = |is_meant: fn(KeyStage) -> bool| {
        held.iter().copied().find(|key| known.stage(node, key).is_some_and(is_meant))
    };
    let fresh = |after| match held.iter().find(|key| !known.keys.contains_key(key)) {
        Some(&key) => Need::Publish(key, after),
        None => Need::Make,
    };
    if has(|stage| stage == KeyStage::Active).is_some() {
        return known.rotations.get(&node).map_or(Need::Nothing, |&after| fresh(after));
    }
    // There is nothing to sign with, so there is nothing to wait for.
    match has(|stage| matches!(stage, KeyStage::Next(_))) {
        Some(next) => Need::Publish(next, Millis::ZERO),
        None => fresh(Millis::ZERO),
    }
}

/// The keys that will never sign again, and those that belong to another member.
pub(super) fn spent(node: NodeId, held: &[PublicKey], known: &Known) -> Vec<PublicKey> {
    let is_spent = |key: &&PublicKey| {
        known.keys.get(key).is_some_and(|known| known.node != node || known.stage.is_spent())
    };
    held.iter().filter(is_spent).copied().collect()
}

#[cfg(test)]
mod tests {
    use fencepost_core::LogTime;
    use fencepost_core::signing::SigningKey;

    use super::*;

    const ME: NodeId = NodeId(7);
    const DAY: Millis = Millis(86_400_000);

    fn key(byte: u8) -> PublicKey {
        PublicKey([byte; 32])
    }

    fn known(keys: &[(u8, NodeId, KeyStage)]) -> Known {
        let since = LogTime(0);
        let keys =
            keys.iter().map(|&(byte, node, stage)| (key(byte), SigningKey { node, stage, since }));
        Known { keys: keys.collect(), ..Known::default() }
    }

    #[test]
    fn the_first_key_is_published_and_signs_at_once() {
        let known = known(&[(1, NodeId(8), KeyStage::Active)]);
        assert_eq!(need(ME, &[], &known), Need::Make);
        assert_eq!(need(ME, &[key(2)], &known), Need::Publish(key(2), Millis::ZERO));
        // A copy of somebody else's is no key of this member.
        assert_eq!(need(ME, &[key(1)], &known), Need::Make);
        assert_eq!(spent(ME, &[key(1), key(2)], &known), [key(1)]);
    }

    #[test]
    fn a_rotation_makes_one_key_and_publishes_it() {
        let mut known = known(&[(1, ME, KeyStage::Active)]);
        assert_eq!(need(ME, &[key(1)], &known), Need::Nothing);
        known.rotations.insert(ME, DAY);
        assert_eq!(need(ME, &[key(1)], &known), Need::Make);
        assert_eq!(need(ME, &[key(1), key(2)], &known), Need::Publish(key(2), DAY));
        assert_eq!(spent(ME, &[key(1), key(2)], &known), []);
    }

    #[test]
    fn a_key_that_was_revoked_or_lost_is_replaced_at_once() {
        let revoked = known(&[(1, ME, KeyStage::Revoked)]);
        assert_eq!(need(ME, &[key(1)], &revoked), Need::Make);
        assert_eq!(spent(ME, &[key(1)], &revoked), [key(1)]);
        // The file of the active key is gone; that of the next one is there.
        let lost = known(&[(1, ME, KeyStage::Active), (2, ME, KeyStage::Next(LogTime(9)))]);
        assert_eq!(need(ME, &[key(2)], &lost), Need::Publish(key(2), Millis::ZERO));
        assert_eq!(need(ME, &[key(1), key(2)], &lost), Need::Nothing);
        assert_eq!(need(ME, &[key(3)], &lost), Need::Publish(key(3), Millis::ZERO));
    }
}
