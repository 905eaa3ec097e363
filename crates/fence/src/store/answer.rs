//! Every answer of a store, and its status.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::backend::{FencedWriteError, ReadError};
use super::record::Record;
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
    #[error("the signed token was granted to the client {holder:?}, and not to {client:?}")]
    NotTheHolder { client: String, holder: String },
    #[error(transparent)]
    Write(#[from] FencedWriteError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the store is overloaded: try again later")]
    Overloaded,
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
            Problem::Signature(VerifyError::Lock { .. } | VerifyError::Audience)
            | Problem::NotTheHolder { .. } => StatusCode::FORBIDDEN,
            Problem::SignatureMissing | Problem::Signature(_) => StatusCode::UNAUTHORIZED,
            Problem::Write(error) => Self::status_of_write(error),
            Problem::Read(ReadError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Problem::Read(ReadError::Invalid(_)) => StatusCode::BAD_REQUEST,
            Problem::Read(ReadError::Foreign(_)) => StatusCode::CONFLICT,
        }
    }

    fn status_of_write(error: &FencedWriteError) -> StatusCode {
        match error {
            FencedWriteError::Refused(_)
            | FencedWriteError::NotHeld(_)
            | FencedWriteError::Foreign(_) => StatusCode::CONFLICT,
            FencedWriteError::Invalid(_) => StatusCode::BAD_REQUEST,
            FencedWriteError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            FencedWriteError::Overloaded | FencedWriteError::Unavailable(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            FencedWriteError::DiskFailed => StatusCode::INTERNAL_SERVER_ERROR,
            FencedWriteError::Unknown(_) => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// `{"success":false,"error":...}`, and `"indeterminate":true` if the write may be there all the
    /// same.
    pub(super) fn answer(&self) -> Answer {
        #[derive(Serialize)]
        struct Body {
            success: bool,
            error: String,
            #[serde(skip_serializing_if = "std::ops::Not::not")]
            indeterminate: bool,
        }
        let indeterminate = matches!(self, Problem::Write(error) if error.is_indeterminate());
        let body = Body { success: false, error: self.to_string(), indeterminate };
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
    pub(super) fn of(key: &'a str, entry: &'a Record) -> Shown<'a> {
        Shown {
            key,
            value: entry.presented.token.get(),
            mode: entry.presented.mode.name(),
            client_id: &entry.client_id,
            data: &entry.data,
        }
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::rule::Refusal;
    use crate::token::Token;

    // Requirements: S1-002.
    #[tokio::test]
    async fn only_an_unknown_outcome_is_called_indeterminate() {
        let token = Token::MAX;
        let why = || "why".to_owned();
        let cases = [
            (FencedWriteError::from(Refusal::Reused { token }), 409, false),
            (FencedWriteError::NotHeld(why()), 409, false),
            (FencedWriteError::Foreign(why()), 409, false),
            (FencedWriteError::Invalid(why()), 400, false),
            (FencedWriteError::Full(why()), 507, false),
            (FencedWriteError::Overloaded, 503, false),
            (FencedWriteError::Unavailable(why()), 503, false),
            (FencedWriteError::DiskFailed, 500, true),
            (FencedWriteError::Unknown(why()), 504, true),
        ];
        for (error, status, is_unknown) in cases {
            let answer = Problem::from(error.clone()).answer();
            assert_eq!(answer.status(), status, "{error}");
            let body = answer.into_body().collect().await.expect("it is in memory").to_bytes();
            let body: serde_json::Value = serde_json::from_slice(&body).expect("it is JSON");
            let unknown = is_unknown.then_some(true).into();
            assert_eq!((&body["success"], &body["indeterminate"]), (&false.into(), &unknown));
            let says_so = error.to_string().contains("may or may not have happened");
            assert_eq!(says_so, is_unknown, "{error}");
        }
    }
}
