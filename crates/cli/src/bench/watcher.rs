//! One watch for all clients of a connection: it tells each when its own write was seen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fencepost_client::{Client, Error, Watch};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::drive::now;

/// Who waits for which key and value, and why nobody can any more.
#[derive(Default)]
struct Board {
    waiting: HashMap<(String, Vec<u8>), oneshot::Sender<Instant>>,
    over: Option<Error>,
}

pub(super) struct Watcher {
    board: Arc<Mutex<Board>>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Begins a watch below the prefix, and returns when it tells of everything from then on.
    pub(super) async fn begin(client: &Client, prefix: &str) -> Result<Watcher, Error> {
        let mut watch = client.watch_prefix(format!("{prefix}/keys/")).no_delete();
        watch.started().await?;
        let board = Arc::new(Mutex::new(Board::default()));
        let task = tokio::spawn(listen(watch, Arc::clone(&board)));
        Ok(Watcher { board, task })
    }

    /// Will tell when a write of this was seen. To be called before it is written.
    pub(super) fn expect(&self, key: &str, value: &str) -> oneshot::Receiver<Instant> {
        let (sender, receiver) = oneshot::channel();
        let mut board = lock(&self.board);
        // Without a watch nobody is told: the sender goes, and the receiver learns of it.
        if board.over.is_none() {
            board.waiting.insert((key.to_owned(), value.as_bytes().to_vec()), sender);
        }
        receiver
    }

    /// Why nothing is told any more.
    pub(super) fn why_over(&self) -> Error {
        lock(&self.board).over.clone().unwrap_or(Error::Closed)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(mut watch: Watch, board: Arc<Mutex<Board>>) {
    let over = loop {
        match watch.next().await {
            Some(Ok(event)) => {
                let Some(kv) = event.kv else { continue };
                let waiting = lock(&board).waiting.remove(&(kv.key, kv.value.to_vec()));
                if let Some(waiting) = waiting {
                    // Whoever was stopped meanwhile does not need it.
                    let _ = waiting.send(now());
                }
            }
            Some(Err(error)) => break error,
            None => break Error::Closed,
        }
    };
    let mut board = lock(&board);
    board.over = Some(over);
    board.waiting.clear();
}

fn lock(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}
