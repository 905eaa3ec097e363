//! Every answer of a store, and its status.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::book::{Denied, Entry};
use crate::signed::VerifyError;

/// An answer, ready to be sent.
pub(super) type Answer = Response<Full<Bytes>>;

/// Why a request has no effect, or may have had one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("{0}")]
    Malformed(String),
    #[error("the body is larger than {} bytes", super::BODY_LEN_MAX)]
    TooLarge,
    #[error("the body did not arrive in time")]
    TooSlow,
    #[error("there is nothing here: write with POST / or POST /write, read with GET /")]
    NoSuchPath,
    #[error("this is done with {0}")]
    Method(&'static str),
    #[error("there is no key {0:?}")]
    NoSuchKey(String),
    #[error("this store takes signed tokens only: send fencingToken.signed")]
    SignatureMissing,
    #[error("this store has no keys to verify signed tokens with: send fencingToken.value")]
    SignatureUnwanted,
    #[error(transparent)]
    Signature(#[from] VerifyError),
    #[error("fencingToken.value is not the number in the signed token")]
    NotTheSigned,
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("the store is overloaded: try again later")]
    Overloaded,
    /// The only one after which the write may be there all the same.
    #[error("the disk failed: the write may or may not have happened")]
    Unknown,
}

impl Problem {
    fn status(&self) -> StatusCode {
        match self {
            Problem::Malformed(_) | Problem::SignatureUnwanted | Problem::NotTheSigned => {
                StatusCode::BAD_REQUEST
            }
            Problem::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Problem::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Problem::NoSuchPath | Problem::NoSuchKey(_) => StatusCode::NOT_FOUND,
            Problem::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Problem::Signature(VerifyError::Keys(_)) | Problem::Overloaded => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Problem::Signature(VerifyError::Lock { .. } | VerifyError::Audience) => {
                StatusCode::FORBIDDEN
            }
            Problem::SignatureMissing | Problem::Signature(_) => StatusCode::UNAUTHORIZED,
            Problem::Denied(Denied::Token(_)) => StatusCode::CONFLICT,
            Problem::Denied(Denied::Full) => StatusCode::INSUFFICIENT_STORAGE,
            Problem::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// `{"success":false,"error":...}`.
    pub(super) fn answer(&self) -> Answer {
        #[derive(Serialize)]
        struct Body {
            success: bool,
            error: String,
        }
        let body = Body { success: false, error: self.to_string() };
        let mut answer = json(self.status(), &body);
        if let Problem::Method(allowed) = self {
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        answer
    }
}

/// `{"success":true}`.
pub(super) fn success() -> Answer {
    #[derive(Serialize)]
    struct Body {
        success: bool,
    }
    json(StatusCode::OK, &Body { success: true })
}

/// What a reader gets about one key.
#[derive(Serialize)]
pub(super) struct Shown<'a> {
    key: &'a str,
    value: u64,
    mode: &'static str,
    #[serde(rename = "clientID")]
    client_id: &'a str,
    data: &'a str,
}

impl<'a> Shown<'a> {
    pub(super) fn of(key: &'a str, entry: &'a Entry) -> Shown<'a> {
        Shown {
            key,
            value: entry.presented.token.get(),
            mode: entry.presented.mode.name(),
            client_id: &entry.client_id,
            data: &entry.data,
        }
    }

    /// Bytes of its texts.
    pub(super) fn len(&self) -> usize {
        self.key.len() + self.client_id.len() + self.data.len()
    }
}

/// Keys in order, and whether there are more.
#[derive(Serialize)]
pub(super) struct Listed<'a> {
    pub(super) entries: Vec<Shown<'a>>,
    pub(super) more: bool,
}

/// An answer in JSON.
pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Answer {
    let bytes = serde_json::to_vec(body).expect("texts and numbers can be written as JSON");
    let mut answer = Response::new(Full::new(Bytes::from(bytes)));
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}
