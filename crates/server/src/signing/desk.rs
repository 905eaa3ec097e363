//! Where tokens are signed, after they were granted and beside everything that grants.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

use fencepost_core::command::Mode;
use fencepost_core::query::Standing;
use fencepost_core::signing::KeyStage;
use fencepost_core::{Key, LeaseId, LockName, NodeId, PublicKey, Revision, State, Token};
use fencepost_fence::signed::{Clock as _, FloorNotice, Grant, KeyError, Signer, SystemClock};
use fencepost_fence::{Floor, Presented};
use tokio::sync::watch;

use super::keyring::Keyring;
use super::known::Known;
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::{limits, parse, show};

/// The keys of this member, and what is known of all.
pub(crate) struct Desk {
    node: NodeId,
    /// The cluster, as it stands in what is signed.
    cluster: String,
    ring: Keyring,
    known: watch::Sender<Arc<Known>>,
    /// What is signed with; nothing, until the state says that it is this member's active key.
    signer: watch::Sender<Option<Arc<Signer>>>,
    /// **The only wall clock of the server.** It stands in what is signed, and decides nothing.
    clock: SystemClock,
}

impl Desk {
    /// Opens the keys in a data directory, or makes the first one.
    pub(crate) fn open(
        home: Option<&Path>,
        cluster_id: u64,
        node: NodeId,
    ) -> Result<Desk, KeyError> {
        Ok(Desk {
            node,
            cluster: format!("{cluster_id:016x}"),
            ring: Keyring::open(home)?,
            known: watch::Sender::default(),
            signer: watch::Sender::default(),
            clock: SystemClock::new(),
        })
    }

    /// The state has changed, perhaps also in its signing keys. Costs nothing if not in those.
    pub(crate) fn look(&self, state: &State) {
        if state.signing_changes() == self.known.borrow().changes {
            return;
        }
        let known = Known::of(state);
        let is_active = |key: &PublicKey| known.stage(self.node, key) == Some(KeyStage::Active);
        self.signer.send_replace(self.ring.find(is_active));
        self.known.send_replace(Arc::new(known));
    }

    pub(super) fn watch(&self) -> watch::Receiver<Arc<Known>> {
        self.known.subscribe()
    }

    /// The public keys, as this member last saw them.
    pub(super) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.borrow())
    }

    pub(super) fn keys(&self) -> Vec<PublicKey> {
        self.ring.keys()
    }

    pub(super) fn make(&self) -> Result<(), KeyError> {
        self.ring.make()
    }

    pub(super) fn forget(&self, key: PublicKey) -> io::Result<()> {
        self.ring.forget(key)
    }

    /// Whether something can be signed right now.
    pub(crate) fn can_sign(&self) -> bool {
        self.signer.borrow().is_some()
    }

    /// What to sign with. A member that has just started waits for its key to be published.
    pub(crate) async fn signer(&self) -> Result<Arc<Signer>, Failure> {
        let mut signer = self.signer.subscribe();
        let found =
            tokio::time::timeout(limits::SIGNING_PATIENCE, signer.wait_for(Option::is_some));
        let found = found.await.ok().and_then(Result::ok).and_then(|found| found.clone());
        found.ok_or_else(|| Wrong::Unsigned.into())
    }

    /// Waits until the members have published the keys that they were asked for, as far as this
    /// one can see, or a while.
    pub(crate) async fn rotated(&self, nodes: &BTreeSet<NodeId>) {
        let mut known = self.known.subscribe();
        let done =
            known.wait_for(|known| !nodes.iter().any(|node| known.rotations.contains_key(node)));
        // Those who have not done it by then are named as pending.
        drop(tokio::time::timeout(limits::ROTATION_PATIENCE, done).await);
    }
}

/// Signs the token of one lock. Nothing, if it is not held with that token any more.
pub(crate) async fn grant(
    house: &House,
    name: &LockName,
    lease: LeaseId,
    token: Token,
) -> Result<Option<String>, Failure> {
    let signer = house.signing.signer().await?;
    let key = parse::contender_key(name, lease);
    let Some((revision, standing)) = held(house, &key, token).await? else { return Ok(None) };
    let presented = presented(token, standing.mode)?;
    let grant = Grant {
        cluster: &house.signing.cluster,
        incarnation: house.head.now().incarnation,
        lock: &show::text(name),
        presented,
        lease: &format!("{:x}", lease.0),
        holder: standing.client.as_str(),
        revision: revision.0,
        audience: &[],
        expires_at: None,
    };
    Ok(Some(signer.sign(&grant, house.signing.clock.unix_seconds())))
}

/// Signs the tokens of several locks that are held together, or none of them.
pub(crate) async fn grants(
    house: &House,
    names: &[LockName],
    lease: LeaseId,
    token: Token,
) -> Result<Option<Vec<String>>, Failure> {
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let Some(signed) = grant(house, name, lease, token).await? else { return Ok(None) };
        all.push(signed);
    }
    Ok(Some(all))
}

/// Signs what was taken away of a lock by force. Nothing, if nothing was.
pub(crate) async fn floor(house: &House, name: &LockName) -> Result<Option<String>, Failure> {
    let signer = house.signing.signer().await?;
    let asked = name.clone();
    let look = move |state: &State| (state.revision(), state.lock(&asked, 0));
    let (_, (revision, view)) = house.ask(false, look).await?;
    let floor = Floor {
        below: Some(view.fence_floor).filter(|&below| below > Token(0)).map(fence).transpose()?,
        taken: view.fenced.iter().copied().map(fence).collect::<Result<_, _>>()?,
    };
    if floor == Floor::default() {
        return Ok(None);
    }
    let notice = FloorNotice {
        cluster: &house.signing.cluster,
        incarnation: house.head.now().incarnation,
        lock: &show::text(name),
        floor: &floor,
        revision: revision.0,
    };
    Ok(Some(signer.sign_floor(&notice, house.signing.clock.unix_seconds())))
}

/// How a holder stands. A member that follows may have heard of the grant before its own state has
/// it; then the others are asked.
async fn held(
    house: &House,
    key: &Key,
    token: Token,
) -> Result<Option<(Revision, Standing)>, Failure> {
    for is_stale in [true, false] {
        let key = key.clone();
        let look = move |state: &State| {
            let found = state.standing(&key).filter(|one| one.holds && one.token == token);
            found.map(|standing| (state.revision(), standing))
        };
        let (_, found) = house.ask(is_stale, look).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn presented(token: Token, mode: Mode) -> Result<Presented, Failure> {
    let mode = match mode {
        Mode::Exclusive => fencepost_fence::Mode::Exclusive,
        Mode::Shared => fencepost_fence::Mode::Shared,
        Mode::Permit(_) => fencepost_fence::Mode::Permit,
    };
    Ok(Presented { token: fence(token)?, mode })
}

fn fence(token: Token) -> Result<fencepost_fence::Token, Failure> {
    fencepost_fence::Token::new(token.0).ok_or_else(|| Wrong::Unexpected.into())
}
