//! What a client says over WebSocket.

use fencepost_core::command::{AcquireAs, Put, Terms, Wait};
use fencepost_core::{ClientId, Key, LockName, Millis, Token, Value};
use fencepost_node::io::{Change, MemberId};
use fencepost_node::membership::Member;
use serde_json::Value as Json;

use crate::error::{Failure, Wrong};
use crate::json::{Fields, TTL_DEFAULT};
use crate::limits;
use crate::owners::{Ask, GiveBack, Keep};
use crate::parse::Parsed;

/// The longest text that a request may be known by.
const ID_BYTES_MAX: usize = 256;

/// What is asked for, by its number on the wire. Numbers are never given to anything else.
pub(super) mod command {
    pub(crate) const LOCK_ACQUIRE: u64 = 1;
    pub(crate) const LOCK_RELEASE: u64 = 2;
    pub(crate) const APPEND_DATA: u64 = 3;
    pub(crate) const ADD_SERVER: u64 = 4;
    pub(crate) const REMOVE_SERVER: u64 = 5;
    pub(crate) const READ: u64 = 6;
    pub(crate) const LOCK_RENEW: u64 = 7;
    pub(crate) const PEER_LIST: u64 = 8;
    pub(crate) const LOCK_SHOW: u64 = 9;
}

/// A message, as far as it could be read.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) label: Label,
    pub(super) asked: Parsed<Asked>,
}

/// By what an answer is recognised.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Label {
    /// The client's own name for it: a text or a number.
    pub(super) id: Option<Json>,
    pub(super) command: Option<u64>,
    pub(super) key: Option<String>,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    Lock(Ask),
    /// Who holds a lock, and whether it is held with this token.
    Show(LockName, Option<Token>),
    Append(Put),
    Read(Key),
    Change(Change),
    Peers,
}

impl Request {
    /// Reads a message.
    pub(super) fn read(bytes: &[u8]) -> Request {
        if bytes.len() > limits::MESSAGE_BYTES_MAX {
            let wrong = Wrong::TooLarge(limits::MESSAGE_BYTES_MAX).into();
            return Request { label: Label::default(), asked: Err(wrong) };
        }
        match Fields::read(bytes) {
            Ok(fields) => Request::from_fields(&fields),
            Err(wrong) => Request { label: Label::default(), asked: Err(wrong) },
        }
    }

    fn from_fields(fields: &Fields) -> Request {
        let id = request_id(fields);
        let label = Label {
            id: id.as_ref().ok().cloned().flatten(),
            command: fields.get("commandType").and_then(Json::as_u64),
            key: fields.text_if_any("key").ok().flatten().map(str::to_owned),
        };
        let asked = id.and_then(|_| asked(fields, label.command));
        Request { label, asked }
    }
}

fn request_id(fields: &Fields) -> Parsed<Option<Json>> {
    let why = "must be a number, or a text of at most 256 bytes";
    match fields.get("requestId") {
        None => Ok(None),
        Some(Json::String(text)) if text.len() > ID_BYTES_MAX => {
            Err(Wrong::Invalid("requestId", why).into())
        }
        Some(id @ (Json::Number(_) | Json::String(_))) => Ok(Some(id.clone())),
        Some(_) => Err(Wrong::Invalid("requestId", why).into()),
    }
}

fn asked(fields: &Fields, command: Option<u64>) -> Parsed<Asked> {
    Ok(match command {
        Some(command::LOCK_ACQUIRE) => Asked::Lock(Ask::Acquire(AcquireAs {
            name: name(fields)?,
            client: client(fields)?,
            ttl: fields.ttl()?.unwrap_or(TTL_DEFAULT),
            wait: wait(fields)?,
            terms: Terms::default(),
        })),
        Some(command::LOCK_RELEASE) => {
            let token = fields.token("fencingToken")?;
            Asked::Lock(Ask::Release(GiveBack {
                name: name(fields)?,
                client: client(fields)?,
                token,
            }))
        }
        Some(command::LOCK_RENEW) => Asked::Lock(Ask::Renew(Keep {
            name: name(fields)?,
            client: client(fields)?,
            ttl: fields.ttl()?.unwrap_or(Millis::ZERO),
            token: fields.token("fencingToken")?,
        })),
        Some(command::LOCK_SHOW) => Asked::Show(name(fields)?, fields.token("fencingToken")?),
        Some(command::APPEND_DATA) => Asked::Append(Put {
            key: Key::from(fields.text("key")?),
            value: Value::from(fields.text("data")?.as_bytes()),
            ..Put::default()
        }),
        Some(command::READ) => Asked::Read(Key::from(fields.text("key")?)),
        Some(command::ADD_SERVER) => Asked::Change(Change::Add(member(fields)?)),
        Some(command::REMOVE_SERVER) => {
            Asked::Change(Change::Remove(fields.numbered_member("serverId")?))
        }
        Some(command::PEER_LIST) => Asked::Peers,
        _ => return Err(unknown()),
    })
}

fn unknown() -> Failure {
    let why = "must be 1 (acquire), 2 (release), 3 (append data), 4 (add server), 5 (remove \
               server), 6 (read), 7 (renew), 8 (peer list) or 9 (show a lock)";
    Wrong::Invalid("commandType", why).into()
}

fn name(fields: &Fields) -> Parsed<LockName> {
    Ok(LockName::from(fields.text("key")?))
}

/// Both spellings are in use.
fn client(fields: &Fields) -> Parsed<ClientId> {
    let other = fields.text_if_any("clientID")?;
    let client = other.map_or_else(|| fields.text("clientId"), Ok)?;
    Ok(ClientId::from(client))
}

/// For ever, if nothing is said: the grant is pushed when it comes.
fn wait(fields: &Fields) -> Parsed<Wait> {
    Ok(match fields.length("wait")? {
        None => Wait::WhileLeased,
        Some(length) => Wait::AtMost(length),
    })
}

fn member(fields: &Fields) -> Parsed<Member> {
    let id: MemberId = fields.numbered_member("serverId")?;
    let name = fields.text_if_any("serverName")?.map(str::to_owned);
    Ok(Member {
        id,
        name: name.unwrap_or_else(|| format!("node-{id:016x}")),
        peer: fields.text("serverAddr")?.to_owned(),
        client: fields.text_if_any("clientAddr")?.unwrap_or_default().to_owned(),
    })
}

/// Whatever the bytes are, reading them ends, and what was understood is the same the next time.
pub(crate) fn fuzz(bytes: &[u8]) {
    let request = Request::read(bytes);
    let again = Request::read(bytes);
    assert_eq!(request.asked, again.asked, "a message is read in two ways");
    if let Err(failure) = request.asked {
        assert!(!failure.indeterminate && !failure.message.is_empty(), "{failure:?}");
    }
}
