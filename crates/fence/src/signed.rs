//! Tokens that nobody can forge.
//!
//! A bare token is a number, and a resource that cannot trust its callers must not believe it: one
//! forged high number would lock every later holder out. A signed token is an Ed25519 signature of
//! the lock service over the number, the lock and the holder, as a JWS that every language can
//! verify. The resource needs the public keys of the cluster and nothing else; it never asks the
//! service.
//!
//! The signature proves where a token comes from. Whether it is still the latest one, only the
//! [`Mark`](crate::Mark) can say: verify, then present.
//!
//! Guarantees: one algorithm, pinned. Whatever a header asks for, nothing but EdDSA is verified.

mod claims;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod header;
mod jwks;
mod key_source;
#[cfg(feature = "sign")]
mod signer;
mod verifier;

pub use claims::{FloorStatement, SignedToken};
pub use error::VerifyError;
pub use jwks::{Jwks, JwksError, KEYS_MAX};
pub use key_source::{Fetch, KeySource};
#[cfg(feature = "sign")]
pub use signer::{FloorNotice, Grant, KeyError, PublicKey, Signer};
pub use verifier::{Clock, SystemClock, Verifier};

/// The `typ` of a signed token.
pub const TOKEN_TYPE: &str = "fence+jwt";
/// The `typ` of a signed floor statement.
pub const FLOOR_TYPE: &str = "fence-floor+jwt";
/// Bytes in a signed token or statement: room for the longest lock name and a full floor, and
/// little enough that rubbish costs nothing.
pub const SIGNED_LEN_MAX: usize = 64 << 10;
