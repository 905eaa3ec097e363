//! Calls of this member that wait on one place, and who of them takes it back.
//!
//! Calls of one lease, or of one owner, for one lock that wait at the same time stand at one place in
//! the queue, under one call's number. Guarantees: the place is taken back by the last of them to
//! leave if any of them may have left one behind, and only if none of them was told that it holds.
//! Refuses: to know of calls on other members; there the state
//! decides by the number.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_core::{Boot, CallId, ClientId, Key, LockName, NodeId};

/// Where calls wait together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Spot {
    /// At a contender's key.
    Key(Key),
    /// Where an owner waits for a lock. Its key is known only to the state, at first.
    Owner(ClientId, LockName),
}

/// All places on which calls of this member wait.
#[derive(Debug)]
pub(crate) struct Shares {
    node: NodeId,
    /// The life that new calls belong to.
    boot: AtomicU64,
    next: AtomicU64,
    groups: Mutex<BTreeMap<Spot, Arc<Mutex<Group>>>>,
}

/// Calls that wait on one place.
#[derive(Debug)]
struct Group {
    call: CallId,
    calls: usize,
    /// One of them was told that it holds.
    is_told: bool,
    /// One of them may have left a place behind.
    has_place: bool,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parting {
    /// Its client was told that it holds.
    Told,
    /// Its client was told nothing of the kind, and there may be a place, or a hold.
    Place,
    /// As far as this call knows there is nothing. Others of the group may know more.
    Nothing,
}

/// One call's part in a place. It must be left.
#[derive(Debug)]
pub(crate) struct Share {
    spot: Spot,
    group: Arc<Mutex<Group>>,
    pub(crate) call: CallId,
}

impl Shares {
    /// For calls of this boot of this member's process.
    pub(crate) fn new(node: NodeId, boot: Boot) -> Shares {
        let boot = AtomicU64::new(first_boot(boot).0);
        Shares { node, boot, next: AtomicU64::new(1), groups: Mutex::default() }
    }

    /// The cluster has given up this boot and those before it, because this member was gone for too
    /// long. Calls from here on belong to a later one, so that they are not given up as well.
    pub(crate) fn outlive(&self, lost: Boot) {
        self.boot.fetch_max(lost.0.saturating_add(1), Ordering::Relaxed);
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<Spot, Arc<Mutex<Group>>>> {
        locked(&self.groups)
    }

    fn draw(&self) -> CallId {
        let boot = Boot(self.boot.load(Ordering::Relaxed));
        CallId { node: self.node, boot, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// A call asks for the place at this spot. One that does not wait stands alone: it is told of a
    /// hold without the log knowing that it will be, so no other call may take that back.
    pub(crate) fn join(&self, spot: &Spot, waits: bool) -> Share {
        let mut groups = self.groups();
        let joined = groups.get(spot).filter(|group| waits && !locked(group).is_told);
        let group = match joined {
            Some(group) => Arc::clone(group),
            None => {
                let call = self.draw();
                let group = Group { call, calls: 0, is_told: false, has_place: false };
                let group = Arc::new(Mutex::new(group));
                if waits {
                    groups.insert(spot.clone(), Arc::clone(&group));
                }
                group
            }
        };
        let mut present = locked(&group);
        present.calls += 1;
        let call = present.call;
        drop(present);
        Share { spot: spot.clone(), group, call }
    }

    /// The call is over. Whether the place is to be taken back.
    pub(crate) fn leave(&self, share: &Share, parting: Parting) -> bool {
        let mut groups = self.groups();
        let mut group = locked(&share.group);
        group.is_told |= parting == Parting::Told;
        group.has_place |= parting == Parting::Place;
        group.calls = group.calls.saturating_sub(1);
        let is_last = group.calls == 0;
        if is_last && groups.get(&share.spot).is_some_and(|one| Arc::ptr_eq(one, &share.group)) {
            groups.remove(&share.spot);
        }
        is_last && group.has_place && !group.is_told
    }
}

/// What the state knows as the boots of one process begins here. There are many of them, because a
/// process may be given up and come back.
const BOOTS_BITS: u32 = 20;

/// The first boot, for the state, of this boot of the process. All before it are of earlier lives.
pub(crate) fn first_boot(boot: Boot) -> Boot {
    Boot(boot.0 << BOOTS_BITS)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held, so it is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> (Shares, Spot) {
        (Shares::new(NodeId(7), Boot(3)), Spot::Key(Key::from("a/1")))
    }

    #[test]
    fn the_last_to_leave_takes_the_place_back() {
        let (shares, key) = shares();
        let (one, two) = (shares.join(&key, true), shares.join(&key, true));
        assert_eq!(one.call, two.call);
        assert_eq!((one.call.node, one.call.boot), (NodeId(7), first_boot(Boot(3))));
        assert!(!shares.leave(&one, Parting::Place));
        assert!(shares.leave(&two, Parting::Place));
        let three = shares.join(&key, true);
        assert_ne!(three.call, one.call, "what was taken back belongs to nobody any more");
        assert!(shares.groups().contains_key(&key));
        assert!(shares.leave(&three, Parting::Place));
        assert!(shares.groups().is_empty());
    }

    /// The one that leaves last may have been refused, and know of no place.
    #[test]
    fn the_last_to_leave_takes_back_the_place_of_another() {
        let (shares, key) = shares();
        let (queued, refused) = (shares.join(&key, true), shares.join(&key, true));
        assert!(!shares.leave(&queued, Parting::Place));
        assert!(shares.leave(&refused, Parting::Nothing));
        let alone = shares.join(&key, true);
        assert!(!shares.leave(&alone, Parting::Nothing));
    }

    #[test]
    fn a_member_that_was_given_up_comes_back_as_a_later_life() {
        let (shares, key) = shares();
        let before = shares.join(&key, true).call;
        shares.outlive(Boot(before.boot.0 - 1));
        assert_eq!(shares.join(&key, false).call.boot, before.boot);
        shares.outlive(before.boot);
        let after = shares.join(&key, false).call;
        assert!(after.boot > before.boot && after.boot < first_boot(Boot(4)));
    }

    #[test]
    fn what_somebody_was_told_of_is_not_taken_back() {
        let (shares, key) = shares();
        let (one, two) = (shares.join(&key, true), shares.join(&key, true));
        assert!(!shares.leave(&one, Parting::Told));
        // A later call has a place of its own, while the earlier one is still on its way out.
        let later = shares.join(&key, true);
        assert_ne!(later.call, two.call);
        assert!(!shares.leave(&two, Parting::Place));
        assert!(shares.leave(&later, Parting::Place));
        assert!(shares.groups().is_empty());
    }

    #[test]
    fn a_call_that_does_not_wait_stands_alone() {
        let (shares, key) = shares();
        let (waits, tries) = (shares.join(&key, true), shares.join(&key, false));
        assert_ne!(waits.call, tries.call);
        assert!(shares.leave(&tries, Parting::Place));
        let next = shares.join(&key, true);
        assert_eq!(waits.call, next.call);
    }
}
