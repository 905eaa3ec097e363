//! The shared part of a server, on a running node of its own, for tests that fix the order in which
//! an answer and an event reach a call.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use fencepost_core::command::{AcquireAs, Action, ReleaseAs, Wait};
use fencepost_core::outcome::Place;
use fencepost_core::{ClientId, Key, LockName, Millis, Outcome, Reply, Revision};
use fencepost_node::config::NodeConfig;
use fencepost_node::machine::Machine;
use fencepost_node::shell::Freshness;
use fencepost_node::shell::cluster::Cluster;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::ears::Ears;
use crate::house::{House, Postbox};
use crate::pending::Verdict;
use crate::serve::Tuning;

/// Longer than anything here takes on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster of one, in which `first` holds the lock `a`.
pub(crate) struct TestHouse {
    pub(crate) house: Arc<House>,
    _cluster: Cluster,
    _folder: TempDir,
}

impl TestHouse {
    pub(crate) async fn with_a_held_lock() -> TestHouse {
        let folder = TempDir::new().expect("there is room for a folder");
        let dirs = [folder.path().join("n1")];
        let cluster = Cluster::start(&dirs, &NodeConfig::new(0)).expect("the directory is new");
        cluster.leader(PATIENCE).expect("a leader is elected");
        let handle = cluster.nodes()[0].handle();
        let house = House::new(handle, &Tuning::default()).expect("it signs nothing yet");
        let house = Arc::new(house);
        handle.observe(Box::new(Ears(Arc::downgrade(&house))));
        let test = TestHouse { house, _cluster: cluster, _folder: folder };
        let acquired = test.act(Action::AcquireAs(acquire_as("first", Wait::Try))).await;
        assert!(matches!(acquired, Outcome::Acquired(_)), "{acquired:?}");
        test
    }

    pub(crate) async fn act(&self, action: Action) -> Outcome {
        self.house.act(action).await.expect("the node leads").1
    }

    /// Keeps the event loop at a question until the guard is dropped.
    pub(crate) async fn hold_the_loop(&self) -> HeldLoop {
        let (began, begins) = oneshot::channel();
        let (go_on, goes_on) = mpsc::sync_channel::<()>(0);
        let house = Arc::clone(&self.house);
        let ask = move |_: &Machine| {
            began.send(()).ok();
            // It ends with the guard.
            goes_on.recv().ok();
        };
        tokio::spawn(async move { house.calls.read(Freshness::Stale, ask).await.is_ok() });
        soon(begins).await.expect("the node runs");
        HeldLoop { _go_on: go_on }
    }

    /// Releases by owner name, which also ends a wait, and returns when the end of the wait at this
    /// place has been sent to all calls that are registered there.
    pub(crate) async fn release(&self, owner: &str, place: &Key, since: Revision) -> Verdict {
        let (sender, verdict) = oneshot::channel();
        let ticket = self.house.pending().register(place.clone(), Postbox::Call(sender));
        assert_eq!(self.house.pending().queued(&ticket, since), None, "it waits");
        let client = ClientId::from(owner);
        let released = self.act(Action::ReleaseAs(ReleaseAs { name: name(), client })).await;
        assert_eq!(released, Outcome::Released);
        soon(verdict).await.expect("it is registered")
    }
}

/// The event loop goes on when this is dropped.
pub(crate) struct HeldLoop {
    _go_on: mpsc::SyncSender<()>,
}

/// Whether something is not done yet. It is polled once.
pub(crate) async fn is_pending<T>(mut what: Pin<&mut impl Future<Output = T>>) -> bool {
    poll_fn(|cx| Poll::Ready(what.as_mut().poll(cx).is_pending())).await
}

/// The lock of these tests.
pub(crate) fn name() -> LockName {
    LockName::from("a")
}

pub(crate) fn acquire_as(owner: &str, wait: Wait) -> AcquireAs {
    let (name, client, ttl) = (name(), ClientId::from(owner), Millis(60_000));
    AcquireAs { name, client, ttl, wait, ..AcquireAs::default() }
}

/// The place in the queue that an acquire was answered with.
pub(crate) fn place(reply: &Reply) -> Place {
    match &reply.outcome {
        Outcome::Queued(place) => Place::clone(place),
        other => panic!("it does not wait: {other:?}"),
    }
}

/// Waits for something that must come.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it comes in time")
}
