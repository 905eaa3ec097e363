//! What the JSON doors share: how a request is read, and how a failure and a member are told.
//!
//! Guarantees: whatever the bytes are, reading them ends in a request or in a failure that says what
//! is wrong with them; nesting is bounded by the parser. Refuses: to guess. A number where a text
//! belongs, a fraction of a millisecond or a TTL that was meant in seconds are mistakes.

use fencepost_core::{Millis, Token};
use fencepost_proto::v1;
use serde_json::{Map, Value, json};

use crate::error::{Failure, Wrong};
use crate::parse::Parsed;

/// How long a lock is held if nobody says for how long.
pub(crate) const TTL_DEFAULT: Millis = Millis(30_000);
/// Below this a TTL was meant in another unit.
const TTL_MEANT_MIN: Millis = Millis(100);
/// Members with smaller numbers are named by them. New ones are drawn below it; each is exact as a
/// number of JSON, and has fewer decimal digits than a text has hexadecimal ones.
const MEMBER_NUMBERS: u64 = 1_000_000_000_000_000;
/// Hexadecimal digits of a member's number as a text.
const MEMBER_TEXT_LEN: usize = 16;

/// The fields of a request.
#[derive(Debug)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object.
    pub(crate) fn read(bytes: &[u8]) -> Parsed<Fields> {
        match serde_json::from_slice(bytes) {
            Ok(Value::Object(fields)) => Ok(Fields(fields)),
            Ok(_) => Err(Wrong::NotJson("it is no object".to_owned()).into()),
            Err(why) => Err(Wrong::NotJson(why.to_string()).into()),
        }
    }

    /// The fields inside of a field. None at all, if it is not there.
    pub(crate) fn inside(&self, field: &'static str) -> Parsed<Fields> {
        match self.get(field) {
            None => Ok(Fields(Map::new())),
            Some(Value::Object(fields)) => Ok(Fields(fields.clone())),
            Some(_) => Err(Wrong::Invalid(field, "must be an object").into()),
        }
    }

    /// A field, unless it is not there or null.
    pub(crate) fn get(&self, field: &'static str) -> Option<&Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    /// A text, unless it is not there.
    pub(crate) fn text_if_any(&self, field: &'static str) -> Parsed<Option<&str>> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(Wrong::Invalid(field, "must be a text").into()),
        }
    }

    /// A text that must be there.
    pub(crate) fn text(&self, field: &'static str) -> Parsed<&str> {
        let missing = || Wrong::Invalid(field, "is missing").into();
        self.text_if_any(field)?.ok_or_else(missing)
    }

    /// A length of time: milliseconds as a number, or a text such as `"30s"`.
    pub(crate) fn length(&self, field: &'static str) -> Parsed<Option<Millis>> {
        let wrong = || {
            let why = "must be a whole number of milliseconds, or a text such as \"30s\"";
            Failure::from(Wrong::Invalid(field, why))
        };
        match self.get(field) {
            None => Ok(None),
            Some(Value::Number(number)) => {
                number.as_u64().map(|length| Some(Millis(length))).ok_or_else(wrong)
            }
            Some(Value::String(text)) => {
                let length = humantime::parse_duration(text).map_err(|_| wrong())?;
                let length = u64::try_from(length.as_millis()).map_err(|_| wrong())?;
                Ok(Some(Millis(length)))
            }
            Some(_) => Err(wrong()),
        }
    }

    /// How long a lock is to be held. A number that makes no sense in milliseconds was meant in
    /// seconds, and is refused rather than taken for a lock that ends at once.
    pub(crate) fn ttl(&self) -> Parsed<Option<Millis>> {
        let ttl = self.length("ttl")?;
        if ttl.is_some_and(|ttl| ttl < TTL_MEANT_MIN) {
            let why = "is in milliseconds, and too short to be meant: 30000 or \"30s\" is half a \
                       minute";
            return Err(Wrong::Invalid("ttl", why).into());
        }
        Ok(ttl)
    }

    /// A fencing token: a number, or an object with it as `value`, as answers have it.
    pub(crate) fn token(&self, field: &'static str) -> Parsed<Option<Token>> {
        let given = match self.get(field) {
            None => return Ok(None),
            Some(Value::Object(token)) => token.get("value"),
            given => given,
        };
        let why = "must be a fencing token: a whole number, as it was granted";
        let token = given.and_then(Value::as_u64).filter(|&token| token > 0);
        token.map(|token| Some(Token(token))).ok_or_else(|| Wrong::Invalid(field, why).into())
    }

    /// The number of a member: hexadecimal digits as a text, or a number.
    pub(crate) fn member(&self, field: &'static str) -> Parsed<u64> {
        let id = match self.get(field) {
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) => u64::from_str_radix(text, 16).ok(),
            _ => None,
        };
        let why = "must be a member's number: up to 16 hexadecimal digits as a text, or a number";
        id.filter(|&id| id != 0).ok_or_else(|| Wrong::Invalid(field, why).into())
    }

    /// The number of a member where answers have it as a number: that, or a key of the answers.
    pub(crate) fn numbered_member(&self, field: &'static str) -> Parsed<u64> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let id = match self.get(field) {
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) if text.len() == MEMBER_TEXT_LEN => {
                let is_hex = text.bytes().all(|byte| byte.is_ascii_hexdigit());
                is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten()
            }
            Some(Value::String(text)) if text.len() < MEMBER_TEXT_LEN && digits(text) => {
                text.parse().ok()
            }
            _ => None,
        };
        let why =
            "must be a member's number: a number, its decimal digits, or 16 hexadecimal digits";
        id.filter(|&id| id != 0).ok_or_else(|| Wrong::Invalid(field, why).into())
    }
}

/// A failure, as the JSON doors tell it.
pub(crate) fn problem(failure: &Failure) -> Value {
    json!({
        "code": failure.code,
        "message": failure.message,
        "indeterminate": failure.indeterminate,
        "retryable": failure.retryable,
    })
}

/// The number of a member as a text, which is exact for all of them.
pub(crate) fn member_id(id: u64) -> String {
    format!("{id:016x}")
}

/// The number of a member as a key of an object: decimal digits if it is small enough to be a number.
pub(crate) fn member_key(id: u64) -> String {
    if id < MEMBER_NUMBERS { id.to_string() } else { member_id(id) }
}

/// The number of a member as a value: a number if it is small enough to be exact.
fn member_number(id: u64) -> Value {
    if id < MEMBER_NUMBERS { id.into() } else { member_id(id).into() }
}

/// Who leads, in the words of the founding protocol.
pub(crate) fn leader(header: &v1::Header) -> Map<String, Value> {
    let mut told = Map::new();
    let id = Some(header.leader_id).filter(|&id| id != 0).map(member_number);
    told.insert("leaderId".to_owned(), json!(id));
    told.insert("leaderAddr".to_owned(), json!(header.leader_address));
    told.insert("term".to_owned(), json!(header.raft_term));
    told
}

#[cfg(test)]
mod tests {
    use fencepost_node::io::ProposeError;

    use super::*;

    fn fields(text: &str) -> Fields {
        Fields::read(text.as_bytes()).expect("it is an object")
    }

    // Requirements: S3-021.
    #[test]
    fn a_ttl_has_a_unit() {
        let ttl = |text: &str| fields(&format!("{{\"ttl\":{text}}}")).ttl().map_err(|no| no.code);
        assert_eq!(ttl("30000"), Ok(Some(Millis(30_000))));
        assert_eq!(ttl("\"30s\""), Ok(Some(Millis(30_000))));
        assert_eq!(ttl("\"1m 30s\""), Ok(Some(Millis(90_000))));
        assert_eq!(ttl("\"1500ms\""), Ok(Some(Millis(1_500))));
        assert_eq!(ttl("null"), Ok(None));
        assert_eq!(ttl("18446744073709551615"), Ok(Some(Millis(u64::MAX))));
        for wrong in [
            "0",
            "30",
            "99",
            "-1",
            "1.5",
            "1e3",
            "\"30\"",
            "\"soon\"",
            "[]",
            "{}",
            "true",
            "18446744073709551616",
            "\"99999999999999999999h\"",
            "\"600000000000y\"",
        ] {
            assert_eq!(ttl(wrong), Err("field_invalid"), "{wrong}");
        }
    }

    // Requirements: S3-020.
    #[test]
    fn a_failure_says_whether_it_passes_and_was_done() {
        let shown = |why: ProposeError| {
            let told = problem(&why.into());
            (told["code"].clone(), told["indeterminate"].clone(), told["retryable"].clone())
        };
        let cases = [
            (ProposeError::Indeterminate, "indeterminate", true, true),
            (ProposeError::NoLeader, "no_leader", false, true),
            (ProposeError::Malformed, "malformed", false, false),
        ];
        for (why, code, indeterminate, retryable) in cases {
            assert_eq!(shown(why), (json!(code), json!(indeterminate), json!(retryable)));
        }
    }

    // Requirements: S1-027, S1-031.
    #[test]
    fn a_member_is_read_as_it_is_answered() {
        let read = |text: &str| {
            let fields = fields(&format!("{{\"serverId\":{text}}}"));
            fields.numbered_member("serverId").map_err(|no| no.code)
        };
        for id in [1, 4_444, MEMBER_NUMBERS - 1, MEMBER_NUMBERS, u64::MAX] {
            assert_eq!(read(&member_number(id).to_string()), Ok(id));
            assert_eq!(read(&json!(member_key(id)).to_string()), Ok(id));
            assert_eq!(read(&json!(member_id(id)).to_string()), Ok(id));
            // What a program makes of a number of JSON is the same number.
            let exact = member_number(id).as_u64().is_none_or(|number| number < 1 << 53);
            assert!(exact, "{id}");
        }
        assert!(member_number(MEMBER_NUMBERS - 1).is_number());
        // One is a text of sixteen digits, and the other of fewer: none can be taken for the other.
        assert_eq!(read("\"1000\""), Ok(1_000));
        assert_eq!(read("\"0000000000001000\""), Ok(0x1000));
        for wrong in ["0", "\"0\"", "-1", "1.5", "\"115c\"", "\"\"", "\"+000000000000001\"", "{}"] {
            assert_eq!(read(wrong), Err("field_invalid"), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_object_is_said_to_be_none() {
        for wrong in ["", "{", "[]", "1", "null", "{\"a\":1}x", "{\"a\":1e999}", "\u{fffd}"] {
            let failure = Fields::read(wrong.as_bytes()).expect_err("it is none");
            assert_eq!(failure.code, "json_invalid", "{wrong}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(100_000));
        assert_eq!(Fields::read(deep.as_bytes()).expect_err("it is too deep").code, "json_invalid");
        assert_eq!(Fields::read(b"\xff").expect_err("it is no text").code, "json_invalid");
    }
}
