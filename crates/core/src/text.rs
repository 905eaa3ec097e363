//! Lock commands as text: `ACQUIRE:<lock>:<client>:<ttl in ms>`, `RELEASE:<lock>:<client>[:<token>]`
//! and `HEARTBEAT:<lock>:<client>[:<token>]`.
//!
//! For people and for debugging; the log is binary. A colon or a percent sign inside a name is
//! written as `%3A` or `%25`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::command::{AcquireAs, Action, ReleaseAs, ReleaseHeld, RenewAs, RenewHeld, Terms, Wait};
use crate::ids::{ClientId, LockName, Millis, Token};
use crate::outcome::Reason;

/// Reads a command. What cannot be read is an answer too: [`Reason::InvalidCommand`].
pub fn parse(line: &str) -> Result<Action, Reason> {
    let invalid = || Reason::InvalidCommand(String::from(line));
    let parts: Vec<&str> = line.split(':').collect();
    match parts.as_slice() {
        ["ACQUIRE", name, client, ttl] => Ok(Action::AcquireAs(AcquireAs {
            name: LockName::from(unescape(name).ok_or_else(invalid)?.as_str()),
            client: ClientId::from(unescape(client).ok_or_else(invalid)?.as_str()),
            ttl: Millis(ttl.parse().map_err(|_| invalid())?),
            wait: Wait::Try,
            terms: Terms::default(),
        })),
        ["RELEASE", name, client] => Ok(Action::ReleaseAs(ReleaseAs {
            name: LockName::from(unescape(name).ok_or_else(invalid)?.as_str()),
            client: ClientId::from(unescape(client).ok_or_else(invalid)?.as_str()),
        })),
        ["RELEASE", name, client, token] => Ok(Action::ReleaseHeld(ReleaseHeld {
            name: LockName::from(unescape(name).ok_or_else(invalid)?.as_str()),
            client: ClientId::from(unescape(client).ok_or_else(invalid)?.as_str()),
            token: Token(token.parse().map_err(|_| invalid())?),
        })),
        ["HEARTBEAT", name, client, token] => Ok(Action::RenewHeld(RenewHeld {
            name: LockName::from(unescape(name).ok_or_else(invalid)?.as_str()),
            client: ClientId::from(unescape(client).ok_or_else(invalid)?.as_str()),
            ttl: Millis::ZERO,
            token: Token(token.parse().map_err(|_| invalid())?),
        })),
        ["HEARTBEAT", name, client] => Ok(Action::RenewAs(RenewAs {
            name: LockName::from(unescape(name).ok_or_else(invalid)?.as_str()),
            client: ClientId::from(unescape(client).ok_or_else(invalid)?.as_str()),
            ttl: Millis::ZERO,
        })),
        _ => Err(invalid()),
    }
}

/// Writes a command, if it has a text form.
pub fn format(action: &Action) -> Option<String> {
    match action {
        Action::AcquireAs(acquire) => {
            let (name, client) =
                (escape(&acquire.name)?, escape(acquire.client.as_str().as_bytes())?);
            Some(format!("ACQUIRE:{name}:{client}:{}", acquire.ttl.0))
        }
        Action::ReleaseAs(release) => {
            let (name, client) =
                (escape(&release.name)?, escape(release.client.as_str().as_bytes())?);
            Some(format!("RELEASE:{name}:{client}"))
        }
        Action::RenewAs(renew) => {
            let (name, client) = (escape(&renew.name)?, escape(renew.client.as_str().as_bytes())?);
            Some(format!("HEARTBEAT:{name}:{client}"))
        }
        Action::ReleaseHeld(release) => {
            let (name, client) =
                (escape(&release.name)?, escape(release.client.as_str().as_bytes())?);
            Some(format!("RELEASE:{name}:{client}:{}", release.token.0))
        }
        Action::RenewHeld(renew) => {
            let (name, client) = (escape(&renew.name)?, escape(renew.client.as_str().as_bytes())?);
            Some(format!("HEARTBEAT:{name}:{client}:{}", renew.token.0))
        }
        _ => None,
    }
}

fn escape(bytes: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(bytes).ok()?;
    Some(text.replace('%', "%25").replace(':', "%3A"))
}

/// Undoes [`escape`]. A percent sign before anything else is a mistake.
fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        plain.push_str(&rest[..at]);
        match rest.get(at + 1..at + 3)? {
            "3A" | "3a" => plain.push(':'),
            "25" => plain.push('%'),
            _ => return None,
        }
        rest = &rest[at + 3..];
    }
    plain.push_str(rest);
    Some(plain)
}
