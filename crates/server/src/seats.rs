//! The places that connections have.
//!
//! Guarantees: no more connections at once than there are seats, whatever they speak, and no more of
//! one address than its share, so that a flood from one machine leaves room for the others; beyond
//! that a connection is refused at once, which its client notices, and counted. Whoever has the last
//! clone of a seat gives it back, so that a connection that changes its protocol keeps it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::house::House;
use crate::limits;

/// After a failed accept, how long to wait for files to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The part of an IPv6 address that a machine cannot choose.
const NETWORK_BITS: u128 = !0 << 64;

/// All seats of one server.
#[derive(Clone)]
pub(crate) struct Seats {
    house: Arc<House>,
    free: Arc<Semaphore>,
    max: u32,
    addresses: Arc<Addresses>,
}

/// The seat of one connection.
#[derive(Clone)]
pub(crate) struct Seat {
    _taken: Arc<Taken>,
}

struct Taken {
    house: Arc<House>,
    address: IpAddr,
    addresses: Arc<Addresses>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.addresses.leave(self.address);
        self.house.metrics.connections.dec();
    }
}

/// How many connections each address has.
struct Addresses {
    /// As many entries as there are connections at most.
    open: Mutex<HashMap<IpAddr, usize>>,
    max: usize,
    loopback_max: usize,
    /// When a refused connection was last logged.
    logged: Mutex<Option<Instant>>,
}

impl Addresses {
    /// Their share of all connections, unless a limit is given.
    fn new(connections_max: usize, given: Option<usize>) -> Addresses {
        let share = |(part, whole): (usize, usize)| {
            given.unwrap_or(connections_max.saturating_mul(part).div_ceil(whole).max(1))
        };
        Addresses {
            open: Mutex::default(),
            max: share(limits::ADDRESS_SHARE),
            loopback_max: share(limits::LOOPBACK_SHARE),
            logged: Mutex::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // Nothing panics while it is held, so it is never left half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more connection, if the address may have it.
    fn enter(&self, address: IpAddr) -> bool {
        let max = if address.is_loopback() { self.loopback_max } else { self.max };
        let mut open = self.open();
        let count = open.entry(address).or_default();
        let may_enter = *count < max;
        if may_enter {
            *count += 1;
        } else if *count == 0 {
            open.remove(&address);
        }
        may_enter
    }

    fn leave(&self, address: IpAddr) {
        let mut open = self.open();
        if let Some(count) = open.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&address);
            }
        }
        if open.is_empty() {
            // What a flood has taken is given back.
            open.shrink_to_fit();
        }
    }

    /// Logs refused connections, of a flood only a few.
    #[expect(clippy::disallowed_methods, reason = "it decides only whether a line is logged")]
    fn log_refused(&self, peer: SocketAddr, limit: &'static str) {
        let now = Instant::now();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.is_none_or(|logged| now - logged >= limits::REFUSED_LOG_INTERVAL) {
            *logged = Some(now);
            drop(logged);
            tracing::warn!(%peer, limit, "refusing connections: the limit is reached");
        }
    }
}

/// What counts as one address. A machine with IPv6 has a network of its own, and may use any address
/// in it.
fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) if !ip.is_loopback() => Ipv6Addr::from(u128::from(ip) & NETWORK_BITS).into(),
        ip => ip,
    }
}

impl Seats {
    /// `address_max` is how many connections one address may have; without it, a share of all.
    pub(crate) fn new(house: &Arc<House>, max: usize, address_max: Option<usize>) -> Seats {
        let addresses = Arc::new(Addresses::new(max, address_max));
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        let free = Arc::new(Semaphore::new(max as usize));
        Seats { house: Arc::clone(house), free, max, addresses }
    }

    /// The next connection, with its seat.
    pub(crate) async fn accept(&self, listener: &TcpListener) -> (TcpStream, SocketAddr, Seat) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => match self.take(peer) {
                    Ok(seat) => return (stream, peer, seat),
                    Err(limit) => {
                        self.house.metrics.refused_connection(limit);
                        self.addresses.log_refused(peer, limit);
                    }
                },
                Err(why) => {
                    tracing::warn!(%why, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// A seat for a connection, or which limit it would exceed.
    fn take(&self, peer: SocketAddr) -> Result<Seat, &'static str> {
        let permit = Arc::clone(&self.free).try_acquire_owned().map_err(|_| "server")?;
        let address = counted_as(peer.ip());
        if !self.addresses.enter(address) {
            return Err("address");
        }
        self.house.metrics.connections.inc();
        let (house, addresses) = (Arc::clone(&self.house), Arc::clone(&self.addresses));
        let taken = Taken { house, address, addresses, _permit: permit };
        Ok(Seat { _taken: Arc::new(taken) })
    }

    /// Waits until all are free.
    pub(crate) async fn emptied(&self) {
        // They are never closed.
        drop(self.free.acquire_many(self.max).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        counted_as(text.parse().expect("it is an address"))
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let addresses = Addresses::new(40, None);
        let enter = |text: &str| (0..100).filter(|_| addresses.enter(ip(text))).count();
        assert_eq!(enter("10.0.0.1"), 10);
        assert_eq!(enter("10.0.0.2"), 10);
        assert_eq!(enter("127.0.0.1"), 30);
        assert_eq!(enter("::1"), 30);
        // The same machine under another of its addresses.
        assert_eq!(enter("2001:db8::1"), 10);
        assert_eq!(enter("2001:db8::ffff:1"), 0);
        assert_eq!(enter("2001:db8:0:1::1"), 10);
        assert_eq!(enter("::ffff:10.0.0.1"), 0);
        addresses.leave(ip("10.0.0.1"));
        assert_eq!(enter("10.0.0.1"), 1);
    }

    #[test]
    fn a_limit_that_is_given_counts_for_every_address() {
        let addresses = Addresses::new(40, Some(3));
        for text in ["10.0.0.1", "127.0.0.1"] {
            assert_eq!((0..100).filter(|_| addresses.enter(ip(text))).count(), 3);
            (0..3).for_each(|_| addresses.leave(ip(text)));
        }
        assert!(addresses.open().is_empty());
        assert!(Addresses::new(1, None).enter(ip("10.0.0.1")), "there is room for one");
    }
}
