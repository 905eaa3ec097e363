//! WebSocket at `/v1/ws`: locks by owner name as JSON messages, with the grant pushed when it comes.
//!
//! Owns: the handshake, and who is let in. `docs/websocket.md` describes what is said. Guarantees:
//! every member serves every request, so a client needs no leader; one that wants to talk to nobody
//! else says so with `?leader=required`, and is told who leads. Refuses: pages of other sites. A
//! browser lets every page open a WebSocket to every address, also to one that only this machine
//! reaches.

mod answer;
mod connection;
mod partial;
mod request;

use std::sync::Arc;

use axum::Router;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, State, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

pub(crate) use partial::PartialMessage;
pub(crate) use request::fuzz;

use crate::arrival::Arrivals;
use crate::byte_budget::ByteBudget;
use crate::house::House;
use crate::limits;
use crate::seats::Seat;
use crate::serve::Tuning;

const PATH: &str = "/v1/ws";
/// Messages up to twice the bound are read, to be refused with an answer. Larger ones end the
/// connection.
const READ_BYTES_MAX: usize = 2 * limits::MESSAGE_BYTES_MAX;
/// What one connection has read and not understood, or written and not sent, when it is quiet.
const BUFFER_BYTES: usize = 4 << 10;

#[derive(Clone)]
struct Door {
    house: Arc<House>,
    tuning: Tuning,
}

pub(crate) fn routes(house: &Arc<House>, tuning: &Tuning) -> Router {
    let door = Door { house: Arc::clone(house), tuning: tuning.clone() };
    Router::new().route(PATH, get(open)).with_state(door)
}

/// Opens a WebSocket, or tells who leads if none was asked for.
async fn open(
    State(door): State<Door>,
    Extension(seat): Extension<Seat>,
    Extension(arrivals): Extension<Arrivals>,
    Extension(partial): Extension<Arc<PartialMessage>>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Door { house, tuning } = door;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(_) if !headers.contains_key(header::UPGRADE) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            return (kind, answer::who_leads(&house)).into_response();
        }
        Err(wrong) => return wrong.into_response(),
    };
    if is_of_another_site(&headers) {
        let why = "this page may not open a WebSocket here: it comes from another site\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let only_leader =
        uri.query().is_some_and(|query| query.split('&').any(|part| part == "leader=required"));
    upgrade
        .max_message_size(READ_BYTES_MAX)
        .max_frame_size(READ_BYTES_MAX)
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(0)
        .on_upgrade(move |socket| async move {
            partial.begin(&ByteBudget::for_connection(&house.unread));
            connection::converse(house, socket, (arrivals, partial), tuning, only_leader).await;
            drop(seat);
        })
}

/// Whether a page asks whose origin is not this server.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    match (origin, host) {
        (Some((_, origin)), Some(host)) => origin != host,
        _ => true,
    }
}
