//! `/.well-known/jwks.json`: the keys that a resource may believe, from any member.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use fencepost_fence::signed::PublicKey;

use super::known::Known;
use crate::house::House;
use crate::limits;

/// What is asked of the whole cluster may be kept for a while. A new key is published long before
/// it signs; a revoked one is believed for so much longer.
const FRESH: &str = "public, max-age=60";
/// What this member only remembers may be old, and is to be asked for again.
const STALE: &str = "no-store";

pub(crate) async fn serve(State(house): State<Arc<House>>) -> Response {
    let asked = tokio::time::timeout(limits::JWKS_PATIENCE, house.ask(false, Known::of)).await;
    let (known, cache) = match asked {
        Ok(Ok((_, known))) => (Arc::new(known), FRESH),
        // Verifying must go on without a leader, as holders do.
        Ok(Err(_)) | Err(_) => (house.signing.known(), STALE),
    };
    let keys: Vec<PublicKey> = known.believed().map(|key| PublicKey::new(&key.0)).collect();
    let headers =
        [(header::CONTENT_TYPE, "application/jwk-set+json"), (header::CACHE_CONTROL, cache)];
    (headers, PublicKey::set(&keys)).into_response()
}
