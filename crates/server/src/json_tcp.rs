//! JSON over TCP: one object per line, locks by owner name.
//!
//! Owns: a listener of its own, and the connections on it. `docs/json-tcp.md` describes what is said.
//! Guarantees: requests of one connection are served one after the other, and answered in that
//! order; a request that cannot be served gets an answer that says why, and the connection goes on;
//! a line that is no JSON object ends it; no line is kept beyond its bound, however long it is.
//! Refuses: to wait for clients that say nothing, too little or read nothing.

mod answer;
mod connection;
mod lines;
mod request;

use std::sync::Arc;

use tokio::net::TcpListener;

pub(crate) use request::fuzz;

use crate::house::House;
use crate::seats::Seats;
use crate::serve::Tuning;
use crate::socket;

/// Takes connections until the server ends.
pub(crate) async fn accept(house: Arc<House>, listener: TcpListener, seats: Seats, tuning: Tuning) {
    loop {
        let (stream, peer, seat) = tokio::select! {
            accepted = seats.accept(&listener) => accepted,
            () = house.closed() => return,
        };
        let (house, tuning) = (Arc::clone(&house), tuning.clone());
        tokio::spawn(async move {
            socket::prepare(&stream);
            if let Err(why) = connection::converse(house, stream, tuning).await {
                tracing::debug!(%peer, %why, "a connection has ended");
            }
            drop(seat);
        });
    }
}
