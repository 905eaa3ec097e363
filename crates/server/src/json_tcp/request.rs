//! What a client says in one line.

use fencepost_core::command::{AcquireAs, Terms, Wait};
use fencepost_core::{ClientId, LockName, Millis, Token};
use serde_json::Value;

use crate::error::Wrong;
use crate::json::{Fields, TTL_DEFAULT};
use crate::owners::{Ask, GiveBack, Keep};
use crate::parse::Parsed;

/// The longest text that is echoed.
const ECHO_BYTES_MAX: usize = 256;

/// A line, as far as it could be read.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) label: Label,
    pub(super) asked: Parsed<Asked>,
    /// Whether it is an object at all. If not, the client speaks something else: HTTP, if a page in a
    /// browser has been told to send a form here. Its headers come first, and nothing that follows
    /// them may be taken for a request.
    pub(super) is_object: bool,
}

/// What every answer echoes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Label {
    pub(super) kind: Option<String>,
    pub(super) id: Option<Value>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    Lock(Ask),
    /// Who holds a lock, and whether it is held with this token.
    GetLock(LockName, Option<Token>),
    GetLeader,
    /// What another one believes: who leads, and in which term.
    Heartbeat(Option<u64>, Option<u64>),
    GetClusterInfo,
    Ping,
}

impl Request {
    /// Reads a line.
    pub(super) fn read(line: &[u8]) -> Request {
        match Fields::read(line) {
            Ok(fields) => Request::from_fields(&fields),
            Err(wrong) => Request { label: Label::default(), asked: Err(wrong), is_object: false },
        }
    }

    fn from_fields(fields: &Fields) -> Request {
        let kind = echo(fields, "type");
        let id = echo(fields, "request_id");
        let label = Label {
            kind: kind.as_ref().ok().cloned().flatten().and_then(|kind| match kind {
                Value::String(kind) => Some(kind),
                _ => None,
            }),
            id: id.as_ref().ok().cloned().flatten(),
        };
        let asked = id.and(kind).and_then(|_| asked(fields));
        Request { label, asked, is_object: true }
    }
}

fn echo(fields: &Fields, field: &'static str) -> Parsed<Option<Value>> {
    let why = "must be a text of at most 256 bytes";
    match fields.get(field) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() > ECHO_BYTES_MAX => {
            Err(Wrong::Invalid(field, why).into())
        }
        Some(value @ (Value::String(_) | Value::Number(_))) => Ok(Some(value.clone())),
        Some(_) => Err(Wrong::Invalid(field, why).into()),
    }
}

fn asked(fields: &Fields) -> Parsed<Asked> {
    let kind = fields.text("type")?;
    let payload = fields.inside("payload")?;
    Ok(match kind {
        "acquire_lock" => Asked::Lock(Ask::Acquire(AcquireAs {
            name: name(&payload)?,
            client: owner(&payload)?,
            ttl: payload.ttl()?.unwrap_or(TTL_DEFAULT),
            wait: payload.length("wait_ms")?.map_or(Wait::Try, Wait::AtMost),
            terms: Terms::default(),
        })),
        "renew_lock" => Asked::Lock(Ask::Renew(Keep {
            name: name(&payload)?,
            client: owner(&payload)?,
            ttl: payload.ttl()?.unwrap_or(Millis::ZERO),
            token: payload.token("fencing_token")?,
        })),
        "release_lock" => Asked::Lock(Ask::Release(GiveBack {
            name: name(&payload)?,
            client: owner(&payload)?,
            token: payload.token("fencing_token")?,
        })),
        "get_lock" => Asked::GetLock(name(&payload)?, payload.token("fencing_token")?),
        "get_leader" => Asked::GetLeader,
        "heartbeat" => {
            let leader = payload.get("leader_id").map(|_| payload.member("leader_id"));
            let term = payload.get("term").and_then(Value::as_u64);
            Asked::Heartbeat(leader.transpose()?, term)
        }
        "get_cluster_info" => Asked::GetClusterInfo,
        "ping" => Asked::Ping,
        _ => {
            let why = "must be acquire_lock, renew_lock, release_lock, get_lock, get_leader, \
                       get_cluster_info, heartbeat or ping";
            return Err(Wrong::Invalid("type", why).into());
        }
    })
}

fn name(payload: &Fields) -> Parsed<LockName> {
    Ok(LockName::from(payload.text("key")?))
}

fn owner(payload: &Fields) -> Parsed<ClientId> {
    Ok(ClientId::from(payload.text("owner")?))
}

/// Whatever the bytes are, reading them ends, and what was understood is the same the next time.
pub(crate) fn fuzz(bytes: &[u8]) {
    let request = Request::read(bytes);
    let again = Request::read(bytes);
    assert_eq!(request.asked, again.asked, "a line is read in two ways");
    if let Err(failure) = request.asked {
        assert!(!failure.indeterminate && !failure.message.is_empty(), "{failure:?}");
    }
}
