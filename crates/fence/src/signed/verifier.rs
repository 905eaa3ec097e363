//! Verifies signed tokens and floor statements, offline.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jsonwebtoken::Algorithm;
use serde::de::DeserializeOwned;

use super::claims::{FloorClaims, FloorStatement, SignedToken, TokenClaims};
use super::error::VerifyError;
use super::header::{Kind, Parts, shown};
use super::key_source::KeySource;

/// How far the clocks of service and resource may differ before an `exp` is misjudged. It errs
/// towards accepting: the mark decides about safety, not the clock.
const LEEWAY_S: u64 = 60;

/// The time, for the age of keys and for tokens that expire.
pub trait Clock: Send + Sync {
    /// Seconds since 1970.
    fn unix_seconds(&self) -> u64;
    /// Time since any moment; never goes back.
    fn monotonic(&self) -> Duration;
}

/// The clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts to count.
    #[expect(clippy::disallowed_methods, reason = "this type is where the real clock comes in")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this type is where the real clock comes in")]
    fn unix_seconds(&self) -> u64 {
        // A clock before 1970 is broken; zero lets every token pass, as the mark still decides.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Verifies what one cluster signs.
pub struct Verifier {
    cluster: String,
    audience: Option<String>,
    source: KeySource,
    clock: Box<dyn Clock>,
}

impl Verifier {
    /// Trusts the cluster with this id (in hex, as `fencepost status` shows it) and these keys.
    pub fn new(cluster: impl Into<String>, source: KeySource) -> Verifier {
        // Fails if the program has chosen a provider already; then that one is meant.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let clock = Box::new(SystemClock::new());
        Verifier { cluster: cluster.into(), audience: None, source, clock }
    }

    /// The name by which tokens may be meant for this resource. Without it, a token that has an
    /// audience is refused; with it, one that lacks it is.
    #[must_use]
    pub fn audience(mut self, name: impl Into<String>) -> Verifier {
        self.audience = Some(name.into());
        self
    }

    /// Another clock than that of this machine.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Verifier {
        self.clock = Box::new(clock);
        self
    }

    /// Verifies a token that must be for this lock.
    ///
    /// # Errors
    ///
    /// It is not to be believed.
    pub fn verify(&self, text: &str, lock: &str) -> Result<SignedToken, VerifyError> {
        let token = self.verify_any_lock(text)?;
        check_lock(&token.lock, lock)?;
        Ok(token)
    }

    /// Verifies a token for whatever lock it names. The caller must then make sure that this lock
    /// guards the resource, or derive the resource from it.
    ///
    /// # Errors
    ///
    /// It is not to be believed.
    pub fn verify_any_lock(&self, text: &str) -> Result<SignedToken, VerifyError> {
        let claims: TokenClaims = self.open(text, Kind::Token)?;
        self.check_cluster(&claims.iss)?;
        let is_for_us = match (&claims.aud, &self.audience) {
            (None, None) => true,
            (Some(audience), Some(name)) => audience.has(name),
            _ => false,
        };
        if !is_for_us {
            return Err(VerifyError::Audience);
        }
        let token = SignedToken::of(claims)?;
        if let Some(at) = token.expires_at {
            let now = self.clock.unix_seconds();
            if now >= at.saturating_add(LEEWAY_S) {
                return Err(VerifyError::Expired { at, now });
            }
        }
        Ok(token)
    }

    /// Verifies a statement that a lock was released by force.
    ///
    /// # Errors
    ///
    /// It is not to be believed.
    pub fn verify_floor(&self, text: &str, lock: &str) -> Result<FloorStatement, VerifyError> {
        let claims: FloorClaims = self.open(text, Kind::Floor)?;
        self.check_cluster(&claims.iss)?;
        check_lock(&claims.sub, lock)?;
        FloorStatement::of(claims)
    }

    /// Verifies the signature, and only then reads what was signed.
    fn open<T: DeserializeOwned>(&self, text: &str, kind: Kind) -> Result<T, VerifyError> {
        let parts = Parts::split(text, kind)?;
        let keys = self.source.keys_for(&parts.kid, self.clock.monotonic())?;
        let key =
            keys.find(&parts.kid).ok_or_else(|| VerifyError::UnknownKey(shown(&parts.kid)))?;
        let message = parts.message.as_bytes();
        // The algorithm is ours, not the header's.
        match jsonwebtoken::crypto::verify(parts.signature, message, key, Algorithm::EdDSA) {
            Ok(true) => {}
            Ok(false) | Err(_) => return Err(VerifyError::Signature),
        }
        serde_json::from_slice(&parts.claims()?)
            .map_err(|error| VerifyError::Claims(error.to_string()))
    }

    fn check_cluster(&self, found: &str) -> Result<(), VerifyError> {
        if found == self.cluster {
            return Ok(());
        }
        Err(VerifyError::Cluster { found: shown(found), expected: self.cluster.clone() })
    }
}

fn check_lock(found: &str, expected: &str) -> Result<(), VerifyError> {
    if found == expected {
        return Ok(());
    }
    Err(VerifyError::Lock { found: shown(found), expected: shown(expected) })
}

impl fmt::Debug for Verifier {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Verifier")
            .field("cluster", &self.cluster)
            .field("audience", &self.audience)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}
