//! JSON over TCP: one object per line, locks by owner name.
//!
//! Owns: a listener of its own, and the connections on it. `docs/json-tcp.md` describes what is said.
//! Guarantees: requests of one connection are served one after the other, and answered in that
//! order; a line that means nothing gets an answer that says why, and the connection goes on; no
//! line is kept beyond its bound, however long it is. Refuses: to wait for clients that say nothing,
//! too little or read nothing.

mod answer;
mod connection;
mod lines;
mod request;

use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};

pub(crate) use request::fuzz;

use crate::house::House;
use crate::limits;
use crate::seats::Seats;
use crate::serve::Tuning;

/// How often the other end of a silent connection is asked, by the system, whether it is there. It
/// is gone if it does not answer three times.
const KEEP_ALIVE_RETRY: Duration = Duration::from_secs(5);

/// Takes connections until the server ends.
pub(crate) async fn accept(house: Arc<House>, listener: TcpListener, seats: Seats, tuning: Tuning) {
    loop {
        let (stream, peer, seat) = tokio::select! {
            accepted = seats.accept(&listener) => accepted,
            () = house.closed() => return,
        };
        let house = Arc::clone(&house);
        tokio::spawn(async move {
            prepare(&stream);
            if let Err(why) = connection::converse(house, stream, tuning).await {
                tracing::debug!(%peer, %why, "a connection has ended");
            }
            drop(seat);
        });
    }
}

/// Without these a connection only answers late, or is missed late.
fn prepare(stream: &TcpStream) {
    let keep_alive =
        TcpKeepalive::new().with_time(limits::KEEP_ALIVE_INTERVAL).with_interval(KEEP_ALIVE_RETRY);
    let set = SockRef::from(stream).set_tcp_keepalive(&keep_alive);
    if let Err(why) = set.and_then(|()| stream.set_nodelay(true)) {
        tracing::debug!(%why, "a connection cannot be tuned");
    }
}
