//! Bytes in JSON: a text where they are one, base64 beside it where they are not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use fencepost_proto::v1;

use crate::error::{Failure, Wrong};

/// Bytes that are told: either as a text or in base64.
pub(super) type Told = (Option<String>, Option<String>);

pub(super) fn told(bytes: &[u8]) -> Told {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(STANDARD.encode(bytes))),
    }
}

/// The key of a key and its value.
pub(super) fn told_key(kv: &v1::KeyVal) -> Told {
    if kv.key.is_empty() { told(&kv.raw_key) } else { (Some(kv.key.clone()), None) }
}

/// Bytes that are given in one of two fields; none, if in neither.
pub(super) fn given(
    text: Option<String>,
    base64: Option<&str>,
    field: &'static str,
) -> Result<Bytes, Failure> {
    match (text, base64) {
        (Some(_), Some(_)) => Err(Wrong::Invalid(field, "is given along with the text").into()),
        (Some(text), None) => Ok(Bytes::from(text)),
        (None, Some(digits)) => {
            let bytes = STANDARD.decode(digits);
            Ok(bytes.map_err(|_| Wrong::Invalid(field, "is no base64 with padding"))?.into())
        }
        (None, None) => Ok(Bytes::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [&b""[..], b"plain", "\u{e4}\0".as_bytes(), &[0xff, 0, 1]] {
            let (text, base64) = told(bytes);
            let back = given(text, base64.as_deref(), "value_base64").expect("it was told so");
            assert_eq!(&*back, bytes);
        }
        assert_eq!(given(None, None, "x").expect("nothing is nothing"), Bytes::new());
        given(Some(String::new()), Some(""), "x").expect_err("one of them");
        given(None, Some("/w"), "x").expect_err("the padding is missing");
    }
}
