//! Makes signed tokens. Only the lock service needs it.
//!
//! Owns: one private key, in a file that nobody else can read. It never leaves the machine; the
//! public half is what the cluster spreads.
//! Refuses: a key file that others may read.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::Serialize;

use super::claims::{Audience, FloorClaims, TokenClaims};
use super::header::ALGORITHM;
use super::{FLOOR_TYPE, TOKEN_TYPE};
use crate::durable::{sync_all, sync_folder_of};
use crate::journal::beside;
use crate::rule::Floor;
use crate::token::{Presented, Token};

/// How far `iat` is set back: a verifier whose clock is behind would refuse a token from the
/// future.
const BACKDATED_S: u64 = 60;

/// What a signed token says.
#[derive(Clone, Debug)]
pub struct Grant<'a> {
    /// The cluster's id, in hex.
    pub cluster: &'a str,
    /// The incarnation of the cluster, below 2^53.
    pub incarnation: u64,
    /// The lock.
    pub lock: &'a str,
    /// The token and its mode.
    pub presented: Presented,
    /// The holder's lease, in hex.
    pub lease: &'a str,
    /// The holder, by the name that it gave itself.
    pub holder: &'a str,
    /// The revision now.
    pub revision: u64,
    /// For whom the token is meant, if not for everybody.
    pub audience: &'a [String],
    /// When it ends, if it does, in Unix seconds.
    pub expires_at: Option<u64>,
}

/// What a signed floor statement says.
#[derive(Clone, Debug)]
pub struct FloorNotice<'a> {
    /// The cluster's id, in hex.
    pub cluster: &'a str,
    /// The incarnation of the cluster, below 2^53.
    pub incarnation: u64,
    /// The lock.
    pub lock: &'a str,
    /// What was taken away.
    pub floor: &'a Floor,
    /// The revision now.
    pub revision: u64,
}

/// The public half of a key, as a JSON Web Key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicKey {
    kty: &'static str,
    crv: &'static str,
    alg: &'static str,
    #[serde(rename = "use")]
    usage: &'static str,
    kid: String,
    x: String,
}

impl PublicKey {
    /// The key with these 32 bytes. Its name follows from them (RFC 7638), so every member gives
    /// one key the same name.
    pub fn new(bytes: &[u8; 32]) -> PublicKey {
        let x = URL_SAFE_NO_PAD.encode(bytes);
        // The members in this order and without spaces, as the standard demands.
        let canonical = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{x}"}}"#);
        let kid = URL_SAFE_NO_PAD.encode(digest(&SHA256, canonical.as_bytes()));
        PublicKey { kty: "OKP", crv: "Ed25519", alg: ALGORITHM, usage: "sig", kid, x }
    }

    /// Its name.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// The set of these keys, as `/.well-known/jwks.json` shows it.
    pub fn set<'a>(keys: impl IntoIterator<Item = &'a PublicKey>) -> String {
        #[derive(Serialize)]
        struct Set<'a> {
            keys: Vec<&'a PublicKey>,
        }
        let set = Set { keys: keys.into_iter().collect() };
        serde_json::to_string(&set).expect("texts can be written as JSON")
    }
}

/// Signs tokens with one key.
pub struct Signer {
    key: EncodingKey,
    bytes: [u8; 32],
    public: PublicKey,
}

/// Why there is no key to sign with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The operating system refuses.
    #[error("cannot use the signing key {path}: {error}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// Somebody else may read it, so somebody else may sign.
    #[error("the signing key {path} has mode {mode:o}: run chmod 600, or rotate it if it leaked")]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It is no key.
    #[error("{0} is no Ed25519 key in PKCS#8: restore it, or remove it to make a new one")]
    Malformed(PathBuf),
    /// The machine has no randomness to make one.
    #[error("cannot make a key: the system gives no random bytes")]
    Random,
}

impl Signer {
    /// The key in this file (PKCS#8, DER). A file that is not there is made, with mode 0600.
    ///
    /// # Errors
    ///
    /// There is no key that can be used.
    pub fn open(path: impl AsRef<Path>) -> Result<Signer, KeyError> {
        let path = path.as_ref();
        let failed = |error| KeyError::Io { path: path.to_owned(), error };
        let document = match File::open(path) {
            Ok(file) => {
                check_mode(path, &file.metadata().map_err(failed)?)?;
                fs::read(path).map_err(failed)?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let document = generate()?;
                write_secret(path, &document).map_err(failed)?;
                document
            }
            Err(error) => return Err(failed(error)),
        };
        Signer::of(&document).ok_or_else(|| KeyError::Malformed(path.to_owned()))
    }

    /// A key that is gone with the process: for tests, and for clusters that are thrown away.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn in_memory() -> Result<Signer, KeyError> {
        Signer::of(&generate()?).ok_or(KeyError::Random)
    }

    fn of(document: &[u8]) -> Option<Signer> {
        // Fails if the program has chosen a provider already; then that one is meant.
        let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let pair = Ed25519KeyPair::from_pkcs8(document).ok()?;
        let bytes: [u8; 32] = pair.public_key().as_ref().try_into().ok()?;
        let public = PublicKey::new(&bytes);
        Some(Signer { key: EncodingKey::from_ed_der(document), bytes, public })
    }

    /// The public half.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The bytes of the public half, from which [`PublicKey::new`] makes the same key anywhere.
    pub fn public_bytes(&self) -> [u8; 32] {
        self.bytes
    }

    /// Signs a token. The time is that of the signer's wall clock, in Unix seconds.
    pub fn sign(&self, grant: &Grant<'_>, now: u64) -> String {
        let aud = match grant.audience {
            [] => None,
            [one] => Some(Audience::One(one.clone())),
            many => Some(Audience::Many(many.to_vec())),
        };
        let claims = TokenClaims {
            iss: grant.cluster.to_owned(),
            inc: grant.incarnation,
            sub: grant.lock.to_owned(),
            mode: grant.presented.mode.name().to_owned(),
            tok: grant.presented.token.to_string(),
            ses: grant.lease.to_owned(),
            hld: grant.holder.to_owned(),
            iat: now.saturating_sub(BACKDATED_S),
            rev: grant.revision.to_string(),
            aud,
            exp: grant.expires_at,
        };
        self.encode(TOKEN_TYPE, &claims)
    }

    /// Signs a statement that a lock was released by force.
    pub fn sign_floor(&self, notice: &FloorNotice<'_>, now: u64) -> String {
        let claims = FloorClaims {
            iss: notice.cluster.to_owned(),
            inc: notice.incarnation,
            sub: notice.lock.to_owned(),
            below: notice.floor.below.map(|token| token.to_string()),
            taken: notice.floor.taken.iter().map(Token::to_string).collect(),
            iat: now.saturating_sub(BACKDATED_S),
            rev: notice.revision.to_string(),
        };
        self.encode(FLOOR_TYPE, &claims)
    }

    fn encode<T: Serialize>(&self, typ: &str, claims: &T) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.typ = Some(typ.to_owned());
        header.kid = Some(self.public.kid.clone());
        jsonwebtoken::encode(&header, claims, &self.key)
            .expect("the key was parsed before, and texts can be written as JSON")
    }
}

/// The secret half is never shown.
impl fmt::Debug for Signer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Signer").field("kid", &self.public.kid).finish_non_exhaustive()
    }
}

/// A new key, whose name does not look like an option where people type it.
fn generate() -> Result<Vec<u8>, KeyError> {
    loop {
        let document = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new());
        let document = document.map_err(|_| KeyError::Random)?;
        let signer = Signer::of(document.as_ref()).ok_or(KeyError::Random)?;
        if !signer.public.kid.starts_with('-') {
            return Ok(document.as_ref().to_vec());
        }
    }
}

/// Writes a new file that only its owner can read, whole or not at all. An existing one is never
/// replaced: two processes that start at once end up with one key.
fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = beside(path, ".new");
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&draft)?;
    file.write_all(bytes)?;
    sync_all(&file)?;
    // Unlike a rename, a link fails if the name is taken.
    fs::hard_link(&draft, path)?;
    fs::remove_file(&draft)?;
    sync_folder_of(path)
}

#[cfg(unix)]
fn check_mode(path: &Path, metadata: &fs::Metadata) -> Result<(), KeyError> {
    let mode = std::os::unix::fs::MetadataExt::mode(metadata) & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(KeyError::Exposed { path: path.to_owned(), mode })
}

#[cfg(not(unix))]
fn check_mode(_: &Path, _: &fs::Metadata) -> Result<(), KeyError> {
    Ok(())
}
