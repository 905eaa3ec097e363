//! What a refused request is answered with: RFC 9457, with a stable code.

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use serde::Serialize;

use super::header::HeaderError;
use crate::marks::Error;
use crate::signed::VerifyError;

/// Why a request does not go in.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("this resource accepts signed tokens only: ask the lock service for a signed token")]
    SignatureMissing,
    #[error("this resource has no keys to verify signed tokens with: send the bare token")]
    SignatureUnwanted,
    #[error(transparent)]
    Signature(#[from] VerifyError),
    #[error(transparent)]
    Marks(#[from] Error),
    #[error("the check was interrupted: try again")]
    Interrupted,
}

impl Problem {
    fn status(&self) -> StatusCode {
        match self {
            Problem::Header(HeaderError::Missing) => StatusCode::PRECONDITION_REQUIRED,
            Problem::Header(_)
            | Problem::SignatureUnwanted
            | Problem::Marks(Error::Name(_) | Error::FloorFull(_)) => StatusCode::BAD_REQUEST,
            Problem::Signature(VerifyError::Keys(_))
            | Problem::Marks(Error::Disk(_))
            | Problem::Interrupted => StatusCode::SERVICE_UNAVAILABLE,
            Problem::Signature(VerifyError::Lock { .. } | VerifyError::Audience) => {
                StatusCode::FORBIDDEN
            }
            Problem::SignatureMissing | Problem::Signature(_) => StatusCode::UNAUTHORIZED,
            Problem::Marks(Error::Refused(_)) => StatusCode::CONFLICT,
            Problem::Marks(Error::TooMany) => StatusCode::INSUFFICIENT_STORAGE,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Problem::Header(HeaderError::Missing) => "token_missing",
            Problem::Header(_) => "token_malformed",
            Problem::SignatureMissing => "signature_missing",
            Problem::SignatureUnwanted => "signature_unwanted",
            Problem::Signature(error) => error.code(),
            Problem::Marks(Error::Refused(refusal)) => refusal.code(),
            Problem::Marks(Error::Name(_)) => "resource_name",
            Problem::Marks(Error::TooMany | Error::FloorFull(_)) => "marks_full",
            Problem::Marks(Error::Disk(_)) => "marks_unavailable",
            Problem::Interrupted => "interrupted",
        }
    }

    /// The answer.
    pub(super) fn answer<B: From<String>>(&self) -> Response<B> {
        #[derive(Serialize)]
        struct Body<'a> {
            r#type: &'a str,
            title: &'a str,
            status: u16,
            detail: String,
            code: &'a str,
        }
        let status = self.status();
        let body = Body {
            r#type: "about:blank",
            title: status.canonical_reason().unwrap_or("refused"),
            status: status.as_u16(),
            detail: self.to_string(),
            code: self.code(),
        };
        let text = serde_json::to_string(&body).expect("texts can be written as JSON");
        let mut response = Response::new(B::from(text));
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(CONTENT_TYPE, json);
        response
    }
}
