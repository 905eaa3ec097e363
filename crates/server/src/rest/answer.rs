//! How a request is served and answered.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use fencepost_core::ClientId;
use fencepost_node::io::ProposeError;
use fencepost_proto::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::problem::{More, Problem};
use super::{body, facts};
use crate::arrival::Arrival;
use crate::error::Failure;
use crate::grpc::Peer;
use crate::house::House;
use crate::limits;

pub(super) const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// What a request is answered with: the header that goes with it, and the document.
pub(super) type Told<T> = Result<(v1::Header, T), Refusal>;

/// Why a request is not answered as it was meant.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) failure: Failure,
    pub(super) more: More,
}

impl<F: Into<Failure>> From<F> for Refusal {
    fn from(failure: F) -> Refusal {
        Refusal { failure: failure.into(), more: More::default() }
    }
}

/// The part of an answer that every message of the gRPC door has.
pub(super) fn head(header: Option<v1::Header>) -> v1::Header {
    header.unwrap_or_default()
}

/// Where a request comes from.
pub(super) fn address(request: &Request) -> ClientId {
    let peer = request.extensions().get::<Peer>();
    peer.map(|peer| ClientId::from(&*peer.0.to_string())).unwrap_or_default()
}

/// What is known of when a request came.
pub(super) fn arrival(request: &Request) -> Option<Arrival> {
    request.extensions().get().cloned()
}

/// Serves a request that changes something, with the body that it brings.
pub(super) async fn change<B, T, F>(
    house: &Arc<House>,
    kind: &'static str,
    request: Request,
    act: impl FnOnce(Arc<House>, B) -> F,
) -> Response
where
    B: DeserializeOwned,
    T: Serialize,
    F: Future<Output = Told<T>>,
{
    let told = match body::read(request).await {
        Ok(body) => changed(limits::REQUEST_PATIENCE, act(Arc::clone(house), body)).await,
        Err(failure) => Err(failure.into()),
    };
    answered(house, kind, told)
}

/// Waits for a change for so long. What becomes of it after that is not known.
pub(super) async fn changed<T>(
    patience: Duration,
    change: impl Future<Output = Told<T>>,
) -> Told<T> {
    let told = tokio::time::timeout(patience, change).await;
    told.unwrap_or_else(|_| Err(ProposeError::Indeterminate.into()))
}

/// Serves a request that only asks.
pub(super) async fn question<T: Serialize>(
    house: &House,
    kind: &'static str,
    ask: impl Future<Output = Told<T>>,
) -> Response {
    let told = tokio::time::timeout(limits::REQUEST_PATIENCE, ask).await;
    // A question changes nothing, so there is nothing that is not known.
    let told = told.unwrap_or_else(|_| Err(ProposeError::NoLeader.into()));
    answered(house, kind, told)
}

/// Counts a request, and gives its answer the form that HTTP has for it.
pub(super) fn answered<T: Serialize>(house: &House, kind: &'static str, told: Told<T>) -> Response {
    let code = told.as_ref().map_or_else(|refusal| refusal.failure.code, |_| "ok");
    house.metrics.request(kind, code);
    match told {
        Ok((header, document)) => {
            let mut response = written(StatusCode::OK, JSON, &document);
            facts::add(response.headers_mut(), &header);
            response
        }
        Err(refusal) => refused(refusal),
    }
}

/// A problem document for a failure that is told before any path is looked at.
pub(crate) fn refuse(failure: Failure) -> Response {
    refused(failure.into())
}

/// A problem document.
pub(super) fn refused(refusal: Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.failure.http);
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    written(status, PROBLEM, &Problem::from(refusal))
}

fn written(status: StatusCode, kind: &'static str, document: &impl Serialize) -> Response {
    let mut bytes = serde_json::to_vec(document).expect("it is made of texts and numbers");
    // Whoever reads it on a terminal wants the prompt on a line of its own.
    bytes.push(b'\n');
    let mut response = (status, bytes).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
