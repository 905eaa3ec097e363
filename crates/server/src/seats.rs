//! The places that connections have.
//!
//! Guarantees: no more connections at once than there are seats, whatever they speak; beyond them a
//! connection is refused at once, which its client notices. Whoever has the last clone of a seat
//! gives it back, so that a connection that changes its protocol keeps it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::house::House;

/// After a failed accept, how long to wait for files to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// All seats of one server.
#[derive(Clone)]
pub(crate) struct Seats {
    house: Arc<House>,
    free: Arc<Semaphore>,
    max: u32,
}

/// The seat of one connection.
#[derive(Clone)]
pub(crate) struct Seat {
    _taken: Arc<Taken>,
}

struct Taken {
    house: Arc<House>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.house.metrics.connections.dec();
    }
}

impl Seats {
    pub(crate) fn new(house: &Arc<House>, max: usize) -> Seats {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let free = Arc::new(Semaphore::new(max as usize));
        Seats { house: Arc::clone(house), free, max }
    }

    /// The next connection, with its seat.
    pub(crate) async fn accept(&self, listener: &TcpListener) -> (TcpStream, SocketAddr, Seat) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() else { continue };
                    self.house.metrics.connections.inc();
                    let taken = Taken { house: Arc::clone(&self.house), _permit: permit };
                    return (stream, peer, Seat { _taken: Arc::new(taken) });
                }
                Err(why) => {
                    tracing::warn!(%why, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Waits until all are free.
    pub(crate) async fn emptied(&self) {
        // They are never closed.
        drop(self.free.acquire_many(self.max).await);
    }
}
