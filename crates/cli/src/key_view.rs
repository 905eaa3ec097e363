//! A key and its value as JSON, with the fields of `docs/cli.md`.

use fencepost_client::proto;
use serde::{Serialize, Serializer};

use crate::ids::LeaseId;

/// One key.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KeyView {
    pub(crate) key: Text,
    pub(crate) value: Text,
    pub(crate) create_revision: i64,
    pub(crate) mod_revision: i64,
    pub(crate) version: i64,
    /// Null if the key has none.
    pub(crate) lease: Option<LeaseId>,
}

impl From<proto::KeyVal> for KeyView {
    fn from(kv: proto::KeyVal) -> KeyView {
        KeyView {
            key: key(&kv),
            value: Text::from(&*kv.value),
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
            lease: lease(kv.lease_id),
        }
    }
}

/// The name of a key, whichever field it stands in.
pub(crate) fn key(kv: &proto::KeyVal) -> Text {
    if kv.key.is_empty() { Text::from(&*kv.raw_key) } else { Text::Plain(kv.key.clone()) }
}

pub(crate) fn lease(id: i64) -> Option<LeaseId> {
    Some(LeaseId(id)).filter(|lease| lease.0 != 0)
}

/// Bytes that are text, as they nearly always are. In JSON the others are an object with their
/// hexadecimal digits, so that nothing is lost and nothing is mistaken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Plain(String),
    Bytes(Vec<u8>),
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Text {
        match std::str::from_utf8(bytes) {
            Ok(text) => Text::Plain(text.to_owned()),
            Err(_) => Text::Bytes(bytes.to_vec()),
        }
    }
}

impl Text {
    /// For people.
    pub(crate) fn shown(&self) -> String {
        match self {
            Text::Plain(text) => text.clone(),
            Text::Bytes(bytes) => format!("0x{}", digits(bytes)),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Hex {
            hex: String,
        }
        match self {
            Text::Plain(text) => serializer.serialize_str(text),
            Text::Bytes(bytes) => Hex { hex: digits(bytes) }.serialize(serializer),
        }
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_keep_every_digit() {
        let told = |bytes: &[u8]| serde_json::to_string(&Text::from(bytes)).expect("it is JSON");
        assert_eq!(told(b"plain"), "\"plain\"");
        assert_eq!(told(&[0xff, 0x00]), "{\"hex\":\"ff00\"}");
    }
}
