//! What a call that may wait asks for: a lock under a lease, or one by owner name.
//!
//! The difference for a call is what it knows beforehand. Under a lease it knows the key that it
//! will stand in the queue with; by owner name the state makes a lease, and so the key, only then.

use fencepost_core::command::{Acquire, AcquireAs, Action, Wait};
use fencepost_core::{CallId, Key, LeaseId, LockName};

use crate::parse;
use crate::shares::Spot;

/// What a call asks for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// A lock under a lease of the caller's own.
    Leased(Acquire),
    /// A lock by owner name.
    Owned(AcquireAs),
}

impl From<Acquire> for Wanted {
    fn from(acquire: Acquire) -> Wanted {
        Wanted::Leased(acquire)
    }
}

impl From<AcquireAs> for Wanted {
    fn from(acquire: AcquireAs) -> Wanted {
        Wanted::Owned(acquire)
    }
}

impl Wanted {
    pub(crate) fn name(&self) -> &LockName {
        match self {
            Wanted::Leased(acquire) => &acquire.name,
            Wanted::Owned(acquire) => &acquire.name,
        }
    }

    pub(crate) fn wait(&self) -> Wait {
        match self {
            Wanted::Leased(acquire) => acquire.wait,
            Wanted::Owned(acquire) => acquire.wait,
        }
    }

    /// Has it done for this call.
    pub(crate) fn bind(&mut self, call: CallId) {
        let terms = match self {
            Wanted::Leased(acquire) => &mut acquire.terms,
            Wanted::Owned(acquire) => &mut acquire.terms,
        };
        terms.call = Some(call);
    }

    pub(crate) fn action(&self) -> Action {
        match self {
            Wanted::Leased(acquire) => Action::Acquire(acquire.clone()),
            Wanted::Owned(acquire) => Action::AcquireAs(acquire.clone()),
        }
    }

    /// The place in the queue, as far as it is known before the state has answered.
    pub(crate) fn place(&self) -> Option<(Key, LeaseId)> {
        match self {
            Wanted::Leased(acquire) => {
                let lease = acquire.lease.id;
                Some((parse::contender_key(&acquire.name, lease), lease))
            }
            Wanted::Owned(_) => None,
        }
    }

    /// What calls that wait on one place have in common, and no others.
    pub(crate) fn spot(&self) -> Spot {
        match self {
            Wanted::Leased(acquire) => {
                Spot::Key(parse::contender_key(&acquire.name, acquire.lease.id))
            }
            Wanted::Owned(acquire) => Spot::Owner(acquire.client.clone(), acquire.name.clone()),
        }
    }
}
