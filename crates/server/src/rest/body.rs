//! The JSON that a request brings.
//!
//! Refuses: what is not said to be JSON. A page in a browser can send forms and texts to any
//! address without asking it first, and must not take locks that way; JSON it may send only where
//! it is allowed to, and nowhere here is.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use serde::de::DeserializeOwned;

use crate::error::{Failure, Wrong};
use crate::limits;
use crate::request_body::BodyError;

/// Of a body that is too large, so much is read all the same: a client that still writes when it
/// is refused might not read why.
const DRAINED_BYTES_MAX: usize = 8 << 20;

/// Reads the object that a request brings.
pub(super) async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Failure> {
    let (parts, body) = request.into_parts();
    check_kind(&parts.headers)?;
    let bytes = take(body).await?;
    serde_json::from_slice(&bytes).map_err(|why| Wrong::Unreadable(why.to_string()).into())
}

fn check_kind(headers: &HeaderMap) -> Result<(), Failure> {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes()).unwrap_or_default();
    let kind = String::from_utf8_lossy(kind);
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Wrong::ContentType(essence.to_owned()).into())
}

async fn take(mut body: Body) -> Result<Vec<u8>, Failure> {
    let (mut bytes, mut len) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let lost = |why: axum::Error| {
            let incomplete = || Wrong::Unreadable("the body is not whole".to_owned()).into();
            BodyError::failure_in(&why).unwrap_or_else(incomplete)
        };
        let Ok(data) = frame.map_err(lost)?.into_data() else { continue };
        len += data.len();
        if len <= limits::MESSAGE_BYTES_MAX {
            bytes.extend_from_slice(&data);
        } else if len > DRAINED_BYTES_MAX {
            break;
        }
    }
    if len > limits::MESSAGE_BYTES_MAX {
        return Err(Wrong::TooLarge(limits::MESSAGE_BYTES_MAX).into());
    }
    Ok(bytes)
}
