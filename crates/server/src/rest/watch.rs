//! Watch: Server-Sent Events.
//!
//! It is a session that only watches, as the gRPC call is, told in another form; `stream.rs` has
//! that. Here: where it begins, and what is answered if it cannot.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use fencepost_core::{ClientId, Reason, Revision};
use fencepost_node::io::ProposeError;
use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request as Frame;
use fencepost_proto::v1::session_response::Response as Answer;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_stream::StreamExt as _;
use utoipa::{IntoParams, ToSchema};

use super::answer::{Refusal, address, refused};
use super::facts;
use super::numbers::{Lease, signed};
use super::problem::{More, Problems};
use super::query::Query;
use super::stream::{Answers, Last, Stream};
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;
use crate::session::{Outgoing, Session, listen};

const LAST_EVENT_ID: &str = "last-event-id";

/// What is watched.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct WatchQuery {
    /// The key; all keys, if it is not given. The keys of a lock begin with its name and a slash.
    key: Option<String>,
    /// All keys that begin with `key`.
    prefix: Option<bool>,
    /// From this revision on, also if it is past. From now on, if it is not given.
    #[param(maximum = 9_007_199_254_740_991_u64)]
    from: Option<u64>,
}

/// The header with which a client says what it has seen last.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "it only describes the header")]
pub(super) struct Resume {
    /// The `id` of the last event that was seen. The watch goes on right behind it, whatever
    /// `from` says.
    #[param(rename = "Last-Event-ID", pattern = r"^[0-9]+(\.[0-9]+)?$")]
    last_event_id: Option<String>,
}

/// What happened, as `data` has it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Event {
    /// With `sub`, unique and growing.
    pub(super) revision: i64,
    /// Its place among the events of that revision.
    pub(super) sub: u32,
    /// `put`, `delete`, `granted`, `lost`, `force_asked` or `over_budget`.
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    /// Null if it is no text.
    pub(super) key: Option<String>,
    /// Only if the key is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key_base64: Option<String>,
    /// `put`: the new value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
    /// `put`: the new value, if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value_base64: Option<String>,
    /// `put`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) create_revision: Option<i64>,
    /// `put`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<i64>,
    /// Of a key with a lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<Lease>,
    /// `delete` of a place in a lock's queue: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<String>,
    /// Of a lock: the holder's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<i64>,
    /// Of a lock: the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<String>,
    /// `force_asked`: how long the holder still has the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until_ms: Option<i64>,
    /// `force_asked`: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
}

/// Hear what happens to keys and locks, as it happens
///
/// Each event is a message with an `id` and, in `data`, an `Event`. A watch that ends says why in a
/// message of the type `end`, whose `data` is a `Problem`. Comments show that the stream is alive.
#[utoipa::path(get, path = "/v1/watch", operation_id = "watch", tag = "watch",
    params(WatchQuery, Resume),
    responses(
        (status = 200, description = "Events, until the client goes", body = Event,
            content_type = "text/event-stream"),
        Problems
    ))]
pub(super) async fn watch(State(house): State<Arc<House>>, request: Request) -> Response {
    let address = address(&request);
    let begun = begin(&house, address, request.into_parts().0).await;
    let code = begun.as_ref().map_or_else(|refusal| refusal.failure.code, |_| "ok");
    house.metrics.request("watch", code);
    match begun {
        Ok((header, stream)) => {
            let mut response = Body::from_stream(stream).into_response();
            let kind = HeaderValue::from_static("text/event-stream");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            facts::add(response.headers_mut(), &header);
            response
        }
        Err(refusal) => refused(refusal),
    }
}

async fn begin(
    house: &Arc<House>,
    address: ClientId,
    asked: Parts,
) -> Result<(v1::Header, Stream), Refusal> {
    let mut query = Query::of(&asked.uri)?;
    let (key, prefix, from) = (query.text("key"), query.flag("prefix")?, query.number("from")?);
    query.end()?;
    let last = seen(&asked.headers)?;
    // A stream goes on with what came after the last event, so it looks at that revision again.
    let start = last.map_or(from, Last::start);
    let watch = v1::WatchRequest {
        prefix: prefix || key.is_none(),
        key: key.unwrap_or_default(),
        start_revision: signed(start),
        watch_id: 1,
        lock_events: true,
        progress: true,
        ..v1::WatchRequest::default()
    };
    let mut answers = open(house, address, watch);
    let first = tokio::time::timeout(limits::REQUEST_PATIENCE, answers.next()).await;
    let first = first.ok().flatten().and_then(Result::ok);
    let first = first.ok_or(Wrong::Unproposed(ProposeError::NoLeader))?;
    let header = first.header.clone().unwrap_or_default();
    if let Some(failure) = first.failure {
        return Err(passed_on(&failure.code));
    }
    let Some(Answer::Watch(told)) = first.response else { return Err(Wrong::Unexpected.into()) };
    if told.canceled {
        return Err(compacted(told.compact_revision));
    }
    let present = u64::try_from(header.revision).unwrap_or_default();
    let begins = last.unwrap_or(Last::before(if start > 0 { start } else { present }));
    Ok((header, Stream::new(answers, begins)))
}

/// A session with one watch.
fn open(house: &Arc<House>, address: ClientId, watch: v1::WatchRequest) -> Answers {
    let session = Session::open(house, address, Some(ClientId::default()));
    let (farewell, gone) = oneshot::channel();
    let answers = Outgoing::new(Arc::clone(&session), farewell, |one| Some(Ok(one)));
    let frame =
        v1::SessionRequest { request_id: 1, once: None, request: Some(Frame::Watch(watch)) };
    // It has nothing more to say, and stays.
    let frames = tokio_stream::once(Ok(frame)).chain(tokio_stream::pending());
    tokio::spawn(listen(session, frames, gone));
    Box::pin(answers)
}

/// What the client has seen last, if it says so.
fn seen(headers: &HeaderMap) -> Result<Option<Last>, Failure> {
    let Some(id) = headers.get(LAST_EVENT_ID) else { return Ok(None) };
    let last = id.to_str().ok().and_then(Last::parse);
    let wrong = || Wrong::Invalid("Last-Event-ID", "must be the id of an event of this service");
    Ok(Some(last.ok_or_else(wrong)?))
}

/// History is gone where the watch was to begin.
pub(super) fn compacted(oldest: i64) -> Refusal {
    let revision = Revision(u64::try_from(oldest).unwrap_or_default());
    let failure = Failure::from(Reason::Compacted(revision));
    Refusal { failure, more: More { oldest_revision: Some(oldest), ..More::default() } }
}

/// What a session says has failed. Only its words are known here.
pub(super) fn passed_on(code: &str) -> Refusal {
    match code {
        "key_empty" => Reason::KeyEmpty.into(),
        "overloaded" => ProposeError::Overloaded.into(),
        "shutting_down" => Wrong::ShuttingDown.into(),
        "slow_reader" => Wrong::SlowReader.into(),
        _ => ProposeError::NoLeader.into(),
    }
}
