//! What is signed: the claims of a token and of a floor statement.
//!
//! Numbers that may pass 2^53 are decimal strings, because many JSON readers make a float of
//! every number. Unknown claims are ignored, so that a later service may add some.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::error::VerifyError;
use super::header::shown;
use crate::rule::{Floor, TAKEN_MAX};
use crate::token::{Mode, Presented, Token};

/// The claims of a token, as they stand in the JWS.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct TokenClaims {
    /// The cluster, in hex.
    pub(super) iss: String,
    /// Older services do not say. Below 2^53.
    #[serde(default)]
    pub(super) inc: u64,
    /// The lock.
    pub(super) sub: String,
    pub(super) mode: String,
    pub(super) tok: String,
    /// The lease, in hex.
    pub(super) ses: String,
    pub(super) hld: String,
    pub(super) iat: u64,
    pub(super) rev: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) aud: Option<Audience>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exp: Option<u64>,
}

/// The claims of a floor statement, as they stand in the JWS.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct FloorClaims {
    pub(super) iss: String,
    /// Older services do not say. Below 2^53.
    #[serde(default)]
    pub(super) inc: u64,
    pub(super) sub: String,
    /// Tokens below it were taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) below: Option<String>,
    /// Single tokens that were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) taken: Vec<String>,
    pub(super) iat: u64,
    pub(super) rev: String,
}

/// One name or several: both are allowed by the standard.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Audience::One(one) => one == name,
            Audience::Many(many) => many.iter().any(|each| each == name),
        }
    }
}

/// A token whose signature was verified.
///
/// It says that the service granted the lock with this token. Whether a later holder has written
/// since, only the resource's [`Mark`](crate::Mark) knows: present it there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignedToken {
    /// The cluster that granted it, in hex.
    pub cluster: String,
    /// The incarnation of the cluster: a random number that every restore from a backup draws; zero
    /// before the first.
    pub incarnation: u64,
    /// The lock.
    pub lock: String,
    /// The token and its mode.
    pub presented: Presented,
    /// The holder's lease, in hex.
    pub lease: String,
    /// The holder, by the name that it gave itself.
    pub holder: String,
    /// When it was signed, in Unix seconds, a minute back.
    pub issued_at: u64,
    /// The revision at which it was signed.
    pub revision: u64,
    /// When it ends, if it does, in Unix seconds.
    pub expires_at: Option<u64>,
}

impl SignedToken {
    pub(super) fn of(claims: TokenClaims) -> Result<SignedToken, VerifyError> {
        let token = token("tok", &claims.tok)?;
        let mode: Mode = claims.mode.parse().map_err(|_| VerifyError::Mode(shown(&claims.mode)))?;
        Ok(SignedToken {
            cluster: claims.iss,
            incarnation: claims.inc,
            lock: claims.sub,
            presented: Presented { token, mode },
            lease: claims.ses,
            holder: claims.hld,
            issued_at: claims.iat,
            revision: revision(&claims.rev)?,
            expires_at: claims.exp,
        })
    }
}

/// A statement of the service that a lock was released by force, with a verified signature.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FloorStatement {
    /// The cluster, in hex.
    pub cluster: String,
    /// The incarnation of the cluster: a random number that every restore from a backup draws; zero
    /// before the first.
    pub incarnation: u64,
    /// The lock.
    pub lock: String,
    /// What was taken away.
    pub floor: Floor,
    /// When it was signed, in Unix seconds, a minute back.
    pub issued_at: u64,
    /// The revision at which it was signed.
    pub revision: u64,
}

impl FloorStatement {
    pub(super) fn of(claims: FloorClaims) -> Result<FloorStatement, VerifyError> {
        if claims.taken.len() > TAKEN_MAX {
            return Err(VerifyError::Claims(format!("\"taken\" has more than {TAKEN_MAX} tokens")));
        }
        let below = claims.below.map(|text| token("below", &text)).transpose()?;
        let taken: BTreeSet<Token> =
            claims.taken.iter().map(|text| token("taken", text)).collect::<Result<_, _>>()?;
        Ok(FloorStatement {
            cluster: claims.iss,
            incarnation: claims.inc,
            lock: claims.sub,
            floor: Floor { below, taken },
            issued_at: claims.iat,
            revision: revision(&claims.rev)?,
        })
    }
}

fn token(claim: &'static str, text: &str) -> Result<Token, VerifyError> {
    text.parse().map_err(|error| VerifyError::Token { claim, error })
}

fn revision(text: &str) -> Result<u64, VerifyError> {
    let bad = || VerifyError::Claims("\"rev\" is no revision".to_owned());
    let is_plain = text == "0" || !text.starts_with(['0', '+']);
    if is_plain { text.parse().map_err(|_| bad()) } else { Err(bad()) }
}
