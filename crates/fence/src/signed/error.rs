//! Why a signed token is not believed.

use super::jwks::JwksError;
use crate::token::{TokenError, UnknownMode};

/// Why a signed token or floor statement is not believed. Each says what, why and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// It is no JWS in compact form.
    #[error("this is no signed token ({0}): pass on what the lock service gave you, unchanged")]
    Malformed(&'static str),
    /// It is signed in a way that is not accepted, or not at all.
    #[error(
        "the token is signed with {0:?}, and only \"EdDSA\" is accepted: \
         take the token from the lock service"
    )]
    Algorithm(String),
    /// It is something else than what was asked for.
    #[error("this is a {found:?}, and a {expected:?} is needed: do not mix tokens and statements")]
    Type {
        /// What its header says.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// Its header demands something that is not understood.
    #[error("the header has a critical extension, and none is understood: update this verifier")]
    Critical,
    /// It does not say which key signed it.
    #[error("the header names no key: take the token from the lock service")]
    NoKeyId,
    /// No known key has signed it.
    #[error(
        "no key {0:?} is known: it was revoked, or the key set is old; \
         fetch /.well-known/jwks.json again"
    )]
    UnknownKey(String),
    /// It was altered, or signed by somebody else.
    #[error("the signature does not match: the token was altered or forged")]
    Signature,
    /// Its claims are not those of a token.
    #[error("the claims are not those of this kind of token: {0}")]
    Claims(String),
    /// It comes from another cluster.
    #[error("the token is from cluster {found:?}, and this resource trusts {expected:?}")]
    Cluster {
        /// Who issued it.
        found: String,
        /// Who is trusted.
        expected: String,
    },
    /// It is for another lock.
    #[error(
        "the token is for lock {found:?}, and {expected:?} is needed: \
         acquire the lock that guards this resource"
    )]
    Lock {
        /// What it is for.
        found: String,
        /// What guards the resource.
        expected: String,
    },
    /// It is for another resource.
    #[error("the token is not meant for this resource: ask for it with the right audience")]
    Audience,
    /// Its time is over.
    #[error("the token expired at {at} (Unix time {now} now): acquire the lock again")]
    Expired {
        /// When it did.
        at: u64,
        /// What the clock says.
        now: u64,
    },
    /// Its number is no token.
    #[error("the claim {claim:?} is no token: {error}")]
    Token {
        /// Where it stands.
        claim: &'static str,
        /// What is wrong with it.
        error: TokenError,
    },
    /// Its mode is not known.
    #[error("the claim \"mode\" is {0:?}: {UnknownMode}; update this verifier")]
    Mode(String),
    /// There are no keys to verify with.
    #[error("there are no keys to verify with: {0}")]
    Keys(#[from] JwksError),
}

impl VerifyError {
    /// A stable word for machines.
    pub const fn code(&self) -> &'static str {
        match self {
            VerifyError::Malformed(_) => "signed_malformed",
            VerifyError::Algorithm(_) => "signed_algorithm",
            VerifyError::Type { .. } => "signed_type",
            VerifyError::Critical => "signed_critical",
            VerifyError::NoKeyId => "signed_no_key",
            VerifyError::UnknownKey(_) => "signed_unknown_key",
            VerifyError::Signature => "signed_forged",
            VerifyError::Claims(_) => "signed_claims",
            VerifyError::Cluster { .. } => "signed_wrong_cluster",
            VerifyError::Lock { .. } => "signed_wrong_lock",
            VerifyError::Audience => "signed_wrong_audience",
            VerifyError::Expired { .. } => "signed_expired",
            VerifyError::Token { .. } => "signed_no_token",
            VerifyError::Mode(_) => "signed_unknown_mode",
            VerifyError::Keys(_) => "signed_no_keys",
        }
    }
}
