//! The first part of a signed token, read before anything in it is believed.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::VerifyError;
use super::{FLOOR_TYPE, SIGNED_LEN_MAX, TOKEN_TYPE};

/// The only algorithm.
pub(super) const ALGORITHM: &str = "EdDSA";
/// Bytes of foreign text that an error repeats.
const SHOWN_MAX: usize = 64;

/// What is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Token,
    Floor,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Token => TOKEN_TYPE,
            Kind::Floor => FLOOR_TYPE,
        }
    }
}

/// A signed text, taken apart. Nothing of it is verified yet but the header's shape.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// What the signature covers.
    pub(super) message: &'a str,
    pub(super) payload: &'a str,
    pub(super) signature: &'a str,
    pub(super) kid: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    typ: Option<String>,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl<'a> Parts<'a> {
    pub(super) fn split(text: &'a str, kind: Kind) -> Result<Parts<'a>, VerifyError> {
        if text.len() > SIGNED_LEN_MAX {
            return Err(VerifyError::Malformed("it is too long"));
        }
        let three = VerifyError::Malformed("it does not have three parts with dots between them");
        let (message, signature) = text.rsplit_once('.').ok_or(three.clone())?;
        let (head, payload) = message.split_once('.').ok_or(three.clone())?;
        if payload.contains('.') {
            return Err(three);
        }
        let header: Header = serde_json::from_slice(&decode(head)?)
            .map_err(|_| VerifyError::Malformed("its header is not the JSON of a header"))?;
        if header.alg != ALGORITHM {
            return Err(VerifyError::Algorithm(shown(&header.alg)));
        }
        let typ = header.typ.unwrap_or_default();
        if typ != kind.name() {
            return Err(VerifyError::Type { found: shown(&typ), expected: kind.name() });
        }
        if header.crit.is_some() {
            return Err(VerifyError::Critical);
        }
        let kid = header.kid.ok_or(VerifyError::NoKeyId)?;
        Ok(Parts { message, payload, signature, kid })
    }

    /// The bytes of the payload.
    pub(super) fn claims(&self) -> Result<Vec<u8>, VerifyError> {
        decode(self.payload)
    }
}

fn decode(part: &str) -> Result<Vec<u8>, VerifyError> {
    let outcome = URL_SAFE_NO_PAD.decode(part);
    outcome.map_err(|_| VerifyError::Malformed("a part is not base64url without padding"))
}

/// The beginning of a foreign text, for an error: nobody fills our logs.
pub(super) fn shown(text: &str) -> String {
    let mut end = SHOWN_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
