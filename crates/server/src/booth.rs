//! The threads that serve sessions and HTTP/2.
//!
//! A booth reads what has come on all of its connections, lets one turn of the node work it off, sync
//! included if the node is alone, and writes the answers. No other thread is woken for any of it, and
//! however many connections bring something at the same time, they share the turn.

use std::cell::OnceCell;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fencepost_node::shell::{self, Line};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Notify, oneshot};

/// Connections for which one booth is opened. As long as few want something, a lock that passes from one
/// to the other should not have to change threads.
const SEATS: usize = 128;

/// Has what the connections of one booth have brought to the node worked off.
#[derive(Clone, Default)]
struct Clerk(Arc<Notify>);

thread_local! {
    /// The clerk of the booth that this thread is, if it is one.
    static CLERK: OnceCell<Clerk> = const { OnceCell::new() };
}

/// Calls the clerk of this booth: something was brought to the node. Its turn comes when everyone in the booth
/// who is ready has brought something too. `false` if this is no booth.
pub(crate) fn call_clerk() -> bool {
    CLERK.with(|clerk| clerk.get().map(|clerk| clerk.0.notify_one())).is_some()
}

/// Has what was brought worked off: together with what others bring, if this is a booth.
pub(crate) fn work_off(line: &Line) {
    if !call_clerk() {
        line.work();
    }
}

impl Clerk {
    async fn serve(self, node: shell::Handle) {
        loop {
            self.0.notified().await;
            node.work();
        }
    }
}

/// The booths of one server. They are opened when they are needed, and close when this is dropped.
pub(crate) struct Booths {
    node: shell::Handle,
    most: usize,
    open: Mutex<Vec<Booth>>,
}

struct Booth {
    runtime: Handle,
    /// As many clones as there are guests, and this.
    guests: Arc<()>,
    /// The thread ends when this is dropped.
    _open: oneshot::Sender<()>,
}

impl Booths {
    /// As many as there are cores.
    pub(crate) fn new(node: &shell::Handle) -> Booths {
        let most = std::thread::available_parallelism().map_or(1, NonZero::get);
        Booths { node: node.clone(), most, open: Mutex::default() }
    }

    /// Does this in one of the booths, to its end.
    pub(crate) async fn host<T: Send + 'static>(
        &self,
        work: impl Future<Output = io::Result<T>> + Send + 'static,
    ) -> io::Result<T> {
        let (booth, guest) = self.next()?;
        let done = booth.spawn(work).await;
        drop(guest);
        done.map_err(io::Error::other)?
    }

    /// The first booth that has a seat. If none has and no other can be opened, the emptiest.
    fn next(&self) -> io::Result<(Handle, Arc<()>)> {
        let mut open = self.open();
        let has_seat = |booth: &&Booth| booth.guests() < SEATS;
        let mut found = open.iter().find(has_seat);
        if found.is_none() && open.len() < self.most {
            open.push(Booth::open(&self.node)?);
            found = open.last();
        }
        let found = found.or_else(|| open.iter().min_by_key(|booth| booth.guests()));
        let booth = found.ok_or(io::ErrorKind::NotConnected)?;
        Ok((booth.runtime.clone(), Arc::clone(&booth.guests)))
    }

    fn open(&self) -> MutexGuard<'_, Vec<Booth>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Booth {
    fn guests(&self) -> usize {
        Arc::strong_count(&self.guests) - 1
    }

    fn open(node: &shell::Handle) -> io::Result<Booth> {
        let (open, closed) = oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, node) = (runtime.handle().clone(), node.clone());
        let thread = std::thread::Builder::new().name("fencepost-booth".to_owned());
        thread.spawn(move || {
            let clerk = CLERK.with(|clerk| clerk.get_or_init(Clerk::default).clone());
            runtime.spawn(clerk.serve(node));
            // Nobody sends anything: it is over when the sender is gone.
            drop(runtime.block_on(closed));
        })?;
        Ok(Booth { runtime: handle, guests: Arc::default(), _open: open })
    }
}
