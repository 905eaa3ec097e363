//! Threads for connections that bring many requests at once.
//!
//! Such a connection does all the work of its requests on the thread that reads them, sync included.
//! Among the threads that all others share, what its client sends meanwhile would wake one of them,
//! which can do nothing with it. Here nobody waits for it: the thread reads on when it is through.

use std::io;
use std::num::NonZero;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The threads, as many as there are cores. They are started when they are needed, and end when this
/// is dropped.
pub(crate) struct Booths {
    most: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    booths: Vec<Booth>,
    /// How many connections have come.
    count: usize,
}

struct Booth {
    runtime: Handle,
    /// The thread ends when this is dropped.
    _open: oneshot::Sender<()>,
}

impl Default for Booths {
    fn default() -> Booths {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Booths { most: cores, open: Mutex::default() }
    }
}

impl Booths {
    /// Does this in one of the booths, to its end.
    pub(super) async fn host<T: Send + 'static>(
        &self,
        work: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let booth = self.next()?;
        booth.spawn(work).await.map_err(io::Error::other)?
    }

    /// The booths take turns.
    fn next(&self) -> io::Result<Handle> {
        let mut open = self.open();
        let at = open.count % self.most;
        open.count += 1;
        if let Some(booth) = open.booths.get(at) {
            return Ok(booth.runtime.clone());
        }
        let booth = Booth::open()?;
        let runtime = booth.runtime.clone();
        open.booths.push(booth);
        Ok(runtime)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held, so it is never left half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Booth {
    fn open() -> io::Result<Booth> {
        let (open, closed) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let thread = std::thread::Builder::new().name("fencepost-booth".to_owned());
        // Nobody sends anything: it is over when the sender is gone.
        thread.spawn(move || drop(runtime.block_on(closed)))?;
        Ok(Booth { runtime: handle, _open: open })
    }
}
