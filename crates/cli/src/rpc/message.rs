//! One request in JSON over TCP.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::LINE_LEN_MAX;
use crate::words::parse_length;

/// Requests that can be repeated because they change nothing.
const READS: [&str; 5] = ["get_lock", "get_leader", "get_cluster_info", "heartbeat", "ping"];
/// Fields that are texts, also if they look like numbers.
const TEXTS: [&str; 3] = ["key", "owner", "leader_id"];

/// A request, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    kind: String,
    wait: Duration,
    /// With its line break.
    line: String,
}

impl Message {
    /// A type and the fields of its payload.
    pub(super) fn of_fields<F: AsRef<str>>(kind: &str, fields: &[F]) -> Result<Message, String> {
        let mut payload = Map::new();
        for field in fields {
            let (name, value) = parse_field(field.as_ref())?;
            if payload.insert(name.to_owned(), value).is_some() {
                return Err(format!("the field {name:?} stands there twice"));
            }
        }
        Message::new(&json!({ "type": kind, "request_id": "1", "payload": payload }))
    }

    /// A JSON object, or a type and the fields of its payload, with spaces between them.
    pub(super) fn parse(line: &str) -> Result<Message, String> {
        if !line.starts_with('{') {
            let mut words = line.split_whitespace();
            let kind = words.next().ok_or("it is empty")?;
            return Message::of_fields(kind, &words.collect::<Vec<_>>());
        }
        let value = serde_json::from_str(line).map_err(|error| format!("this is no JSON: {error}"));
        Message::new(&value?)
    }

    fn new(request: &Value) -> Result<Message, String> {
        let kind = request["type"].as_str().ok_or("it has no \"type\", which is a text")?;
        let wait = match &request["payload"]["wait_ms"] {
            Value::Number(millis) => millis.as_u64().map(Duration::from_millis),
            Value::String(text) => parse_length(text).ok(),
            _ => None,
        };
        let line = format!("{request}\n");
        if line.len() > LINE_LEN_MAX {
            return Err(format!("it is longer than {LINE_LEN_MAX} bytes"));
        }
        Ok(Message { kind: kind.to_owned(), wait: wait.unwrap_or_default(), line })
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// How long the node may wait before it answers.
    pub(super) fn wait(&self) -> Duration {
        self.wait
    }

    pub(super) fn line(&self) -> &str {
        &self.line
    }

    pub(super) fn changes_nothing(&self) -> bool {
        READS.contains(&self.kind.as_str())
    }
}

/// `FIELD:=JSON`, or `FIELD=VALUE` where a number is one unless the field is known to be a text.
fn parse_field(field: &str) -> Result<(&str, Value), String> {
    let wrong = || format!("{field:?} is neither FIELD=VALUE nor FIELD:=JSON");
    let (name, text) = field.split_once('=').ok_or_else(wrong)?;
    if let Some(name) = name.strip_suffix(':') {
        let value = serde_json::from_str(text);
        return Ok((name, value.map_err(|error| format!("the value of {name:?}: {error}"))?));
    }
    if name.is_empty() {
        return Err(wrong());
    }
    let number = || text.parse::<u64>().ok().filter(|_| !TEXTS.contains(&name));
    Ok((name, number().map_or_else(|| Value::from(text), Value::from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(line: &str) -> Value {
        let message = Message::parse(line).expect("it is a request");
        serde_json::from_str(message.line()).expect("it is JSON")
    }

    #[test]
    fn words_become_a_request() {
        let payload = json!({ "key": "42", "owner": "me", "ttl": 30_000, "wait_ms": "2s" });
        let words = "acquire_lock key=42 owner=me ttl=30000 wait_ms=2s";
        let request = json!({ "type": "acquire_lock", "request_id": "1", "payload": payload });
        assert_eq!(sent(words), request);
        let message = Message::parse(words).expect("it is a request");
        assert_eq!((message.wait(), message.changes_nothing()), (Duration::from_secs(2), false));
        assert_eq!(sent("ping")["payload"], json!({}));
        assert_eq!(sent("get_lock key==a:b x:={\"y\":[1]}")["payload"]["key"], "=a:b");
        assert!(Message::parse("get_lock key=a").expect("it is a request").changes_nothing());
    }

    #[test]
    fn an_object_is_sent_as_it_is() {
        let text = r#"{"payload":{"key":"a","wait_ms":7},"request_id":5,"type":"acquire_lock"}"#;
        let message = Message::parse(text).expect("it is a request");
        assert_eq!(message.line(), format!("{text}\n"));
        assert_eq!(message.wait(), Duration::from_millis(7));
    }

    #[test]
    fn what_is_no_request_is_not_sent() {
        let long = format!("ping x={}", "y".repeat(LINE_LEN_MAX));
        for (line, why) in [
            ("{", "this is no JSON"),
            ("{} x", "this is no JSON"),
            ("{}", "no \"type\""),
            ("{\"type\":5}", "no \"type\""),
            ("ping x", "neither"),
            ("ping =x", "neither"),
            ("ping x:=", "the value of \"x\""),
            ("ping x=1 x=2", "twice"),
            (&long, "longer than 65536 bytes"),
        ] {
            let refused = Message::parse(line).expect_err(&line[..line.len().min(40)]);
            assert!(refused.contains(why), "{refused} does not say {why:?}");
        }
    }
}
