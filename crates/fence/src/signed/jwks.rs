//! Public keys, as `/.well-known/jwks.json` lists them.
//!
//! Refuses: a set in which two keys have one name. Keys of other kinds are skipped: a set may be
//! shared with other services.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;

use super::header::ALGORITHM;

/// Keys in one set: far more than a cluster has members, with some rotations each.
pub const KEYS_MAX: usize = 1_024;
/// Bytes in a set.
pub(super) const JWKS_LEN_MAX: usize = 1 << 20;
/// Bytes in an Ed25519 public key.
const PUBLIC_KEY_LEN: usize = 32;

/// The public keys of a cluster, by their names.
#[derive(Clone, Default)]
pub struct Jwks {
    keys: HashMap<String, DecodingKey>,
}

/// Why there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JwksError {
    /// It is no key set.
    #[error("this is no JSON Web Key Set: {0}")]
    Malformed(String),
    /// It is larger than any key set has to be.
    #[error("the key set is larger than {KEYS_MAX} keys or {JWKS_LEN_MAX} bytes")]
    TooLarge,
    /// Two keys have the same name, and nobody can say which is meant.
    #[error("two keys of the set are named {0:?}")]
    Doubled(String),
    /// It could not be read or fetched.
    #[error("the key set cannot be read: {0}")]
    Unreachable(String),
    /// It was fetched so long ago that revoked keys may still be in it.
    #[error("the key set is too old, and fetching it fails: {0}")]
    TooOld(String),
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Key>,
}

/// Only what is looked at, and all of it optional: a key of another kind has other fields.
#[derive(Deserialize)]
struct Key {
    kty: Option<String>,
    crv: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    kid: Option<String>,
    x: Option<String>,
}

impl Jwks {
    /// Reads a key set.
    ///
    /// # Errors
    ///
    /// It is no key set.
    pub fn parse(json: &str) -> Result<Jwks, JwksError> {
        if json.len() > JWKS_LEN_MAX {
            return Err(JwksError::TooLarge);
        }
        let set: Set =
            serde_json::from_str(json).map_err(|error| JwksError::Malformed(error.to_string()))?;
        if set.keys.len() > KEYS_MAX {
            return Err(JwksError::TooLarge);
        }
        let mut keys = HashMap::new();
        for key in set.keys {
            let Some((kid, key)) = key.usable()? else { continue };
            if keys.insert(kid.clone(), key).is_some() {
                return Err(JwksError::Doubled(kid));
            }
        }
        Ok(Jwks { keys })
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn find(&self, kid: &str) -> Option<&DecodingKey> {
        self.keys.get(kid)
    }
}

impl fmt::Debug for Jwks {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(self.keys.keys()).finish()
    }
}

impl Key {
    /// The key and its name, if it is one of ours.
    fn usable(self) -> Result<Option<(String, DecodingKey)>, JwksError> {
        let is = |field: &Option<String>, name: &str| field.as_deref() == Some(name);
        let may = |field: &Option<String>, name: &str| field.is_none() || is(field, name);
        let ours = is(&self.kty, "OKP")
            && is(&self.crv, "Ed25519")
            && (may(&self.alg, ALGORITHM) || is(&self.alg, "Ed25519"))
            && may(&self.usage, "sig");
        let (true, Some(kid), Some(x)) = (ours, self.kid, self.x) else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(&x).ok().filter(|bytes| bytes.len() == PUBLIC_KEY_LEN);
        let bytes = bytes.ok_or_else(|| {
            JwksError::Malformed(format!("the \"x\" of key {kid:?} is no Ed25519 public key"))
        })?;
        Ok(Some((kid, DecodingKey::from_ed_der(&bytes))))
    }
}
