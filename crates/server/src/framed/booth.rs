//! The threads that serve sessions without HTTP/2.
//!
//! A booth reads what has come on all of its connections, lets one turn of the node work it off, sync
//! included if the node is alone, and writes the answers. No other thread is woken for any of it, and
//! however many connections bring something at the same time, they share the turn.

use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_node::shell;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot};

/// The booths of one server. They are opened when they are needed, and close when this is dropped.
pub(crate) struct Booths {
    node: shell::Handle,
    most: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    booths: Vec<Booth>,
    /// How many connections have come.
    count: usize,
}

#[derive(Clone)]
struct Booth {
    runtime: Handle,
    clerk: Clerk,
    /// The thread ends when this is dropped.
    _open: Arc<oneshot::Sender<()>>,
}

/// Has what the connections of one booth have brought to the node worked off.
#[derive(Clone, Default)]
pub(super) struct Clerk(Arc<Notify>);

impl Clerk {
    /// Something was brought. Its turn comes when everyone who is ready has brought something too.
    pub(super) fn call(&self) {
        self.0.notify_one();
    }

    async fn serve(self, node: shell::Handle) {
        loop {
            self.0.notified().await;
            node.work();
        }
    }
}

impl Booths {
    /// Half of the cores: whoever asks, and the node's own threads, need some as well.
    pub(crate) fn new(node: &shell::Handle) -> Booths {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Booths { node: node.clone(), most: (cores / 2).max(1), open: Mutex::default() }
    }

    /// Does this in one of the booths, to its end.
    pub(super) async fn host<T, F>(&self, work: impl FnOnce(Clerk) -> F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = io::Result<T>> + Send + 'static,
    {
        let booth = self.next()?;
        booth.runtime.spawn(work(booth.clerk)).await.map_err(io::Error::other)?
    }

    /// The booths take turns.
    fn next(&self) -> io::Result<Booth> {
        let mut open = self.open();
        let at = open.count % self.most;
        open.count += 1;
        if let Some(booth) = open.booths.get(at) {
            return Ok(booth.clone());
        }
        let booth = Booth::open(&self.node)?;
        open.booths.push(booth.clone());
        Ok(booth)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held, so it is never left half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Booth {
    fn open(node: &shell::Handle) -> io::Result<Booth> {
        let (open, closed) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, clerk) = (runtime.handle().clone(), Clerk::default());
        let work = clerk.clone().serve(node.clone());
        let thread = std::thread::Builder::new().name("fencepost-booth".to_owned());
        thread.spawn(move || {
            runtime.spawn(work);
            // Nobody sends anything: it is over when the sender is gone.
            drop(runtime.block_on(closed));
        })?;
        Ok(Booth { runtime: handle, clerk, _open: Arc::new(open) })
    }
}
