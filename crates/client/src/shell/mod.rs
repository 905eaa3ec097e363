//! The session at work: a thread of its own, a connection, and whoever waits for answers.
//!
//! The thread belongs to the client alone. A user's runtime that is busy, blocked or gone delays no
//! renewal, and a guard that is dropped outside any runtime is still given back.

mod dialer;
mod driver;
mod framed;
mod handout;
mod hold_state;
mod inbox;
mod link;
mod lookout;
mod outgoing;
mod porter;
mod reply;
mod turn;
mod unary;
mod watch_queue;

pub use dialer::Transport;
pub(crate) use dialer::{Configure, Dialer};
pub(crate) use hold_state::HoldState;
pub(crate) use inbox::Inbox;
pub(crate) use link::ANSWER_LEN_MAX;
pub(crate) use reply::{LeaseState, Order, Reply};
pub(crate) use unary::from_status;
pub(crate) use watch_queue::{News, WatchQueue};

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tonic::transport::Channel;

use crate::core::{Config, Input, OpId, Session, WatchId};
use crate::error::Error;
use dialer::Road;
use driver::Driver;
use porter::Post;

/// What a client and everything made by it share. The thread ends with the last of them.
pub(crate) struct Shell {
    inbox: Arc<Inbox>,
    handle: Handle,
    road: Arc<Mutex<Option<Road>>>,
    client_id: String,
    request_timeout: std::time::Duration,
    ops: AtomicU64,
}

impl Shell {
    /// Starts the thread.
    pub(crate) fn start(config: Config, dialer: Dialer) -> io::Result<Arc<Shell>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let inbox = Arc::new(Inbox::default());
        let road = Arc::new(Mutex::new(None));
        let shell = Shell {
            inbox: Arc::clone(&inbox),
            handle: runtime.handle().clone(),
            road: Arc::clone(&road),
            client_id: config.client_id.clone(),
            request_timeout: config.request_timeout,
            ops: AtomicU64::new(0),
        };
        let session = Session::new(config);
        let users = Handle::try_current().ok();
        thread::Builder::new().name("fencepost-client".to_owned()).spawn(move || {
            let post = Post::open(&inbox, users.as_ref());
            let driver = Driver::new(session, inbox, road, dialer, post);
            // As a task among tasks, so that it can let the others have a turn. If it panics, whoever
            // waits is told by its end.
            let driver = runtime.spawn(driver.run());
            let _ = runtime.block_on(driver);
        })?;
        Ok(Arc::new(shell))
    }

    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn next_op(&self) -> OpId {
        OpId(self.ops.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn next_watch(&self) -> WatchId {
        WatchId(self.next_op().0)
    }

    /// Gives the session something to do, without waiting for anything.
    pub(crate) fn order(&self, order: Order) {
        self.inbox.push(order);
    }

    /// Gives the session something to do, and waits for the answer.
    pub(crate) async fn ask<T>(
        &self,
        op: OpId,
        input: Input,
        reply: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Reply,
    ) -> Result<T, Error> {
        let (sender, receiver) = oneshot::channel();
        self.order(Order::Ask(op, reply(sender), input));
        receiver.await.unwrap_or(Err(Error::Closed))
    }

    /// The present connection, if there is one.
    fn channel(&self) -> Option<Channel> {
        let mut road = self.road.lock().unwrap_or_else(PoisonError::into_inner);
        let _runtime = self.handle.enter();
        road.as_mut().map(Road::channel)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.inbox.push(Order::Tell(Input::Close));
    }
}
