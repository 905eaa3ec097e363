//! Signs fencing tokens with this member's own key.
//!
//! Owns: the secret keys of this member, and a copy of the public keys of all. Guarantees: nothing
//! is signed with a key that the state does not hold as this member's active one, so that any other
//! member can tell a resource about it; what is signed was granted, and is held. Refuses: to let a
//! secret key leave its file. `docs/fencing.md` describes what is signed, `docs/operations.md` the
//! life of a key.

mod desk;
mod duty;
mod jwks;
mod keyring;
mod known;
mod plan;

pub(crate) use desk::{Desk, floor, grant, grants};
pub(crate) use duty::keep_keys;
pub(crate) use jwks::serve as serve_jwks;
pub(crate) use known::{Known, kid};
