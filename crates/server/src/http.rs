//! Plain HTTP beside gRPC: probes, metrics, and the keys that verify signed tokens.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tonic::Status;

use crate::house::House;
use crate::signing;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn routes(house: &Arc<House>) -> Router {
    Router::new()
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/.well-known/jwks.json", get(signing::serve_jwks))
        .with_state(Arc::clone(house))
}

/// There is nothing at this path, said in the caller's own language.
pub(crate) async fn nowhere(headers: HeaderMap) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return Status::unimplemented("there is no such method")
            .into_http::<Body>()
            .into_response();
    }
    (StatusCode::NOT_FOUND, "there is nothing here\n").into_response()
}

/// Whether the process is worth keeping.
async fn live(State(house): State<Arc<House>>) -> Response {
    match house.handle.status().ended {
        None => (StatusCode::OK, "alive\n").into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("the node has ended: {why:?}\n"))
            .into_response(),
    }
}

/// Whether it can serve: only with a leader.
async fn ready(State(house): State<Arc<House>>) -> Response {
    match house.head.leader() {
        Some(_) => (StatusCode::OK, "ready\n").into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "there is no leader\n").into_response(),
    }
}

async fn metrics(State(house): State<Arc<House>>) -> Response {
    // Without the node the other numbers are still worth having.
    if let Ok((_, (sizes, work))) = house.ask(true, |state| (state.sizes(), *state.work())).await {
        house.metrics.state(sizes, &work);
    }
    let unread = house.unread.used();
    house.metrics.unread.set(i64::try_from(unread).unwrap_or(i64::MAX));
    let pending = house.pending().len();
    house.metrics.pending.set(i64::try_from(pending).unwrap_or(i64::MAX));
    match house.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
