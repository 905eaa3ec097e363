//! The checking side of Fencepost: what a resource does with a fencing token.
//!
//! A lock alone cannot protect data. Its holder may pause, lose the lock without noticing, and
//! write later than the next holder. So every grant carries a *token* that grows from holder to
//! holder, and the resource refuses a token lower than the highest it has seen. This crate is that
//! refusal, for resources that never talk to the lock service themselves.
//!
//! | where | what |
//! |---|---|
//! | [`Mark`] | the rule itself: pure, no I/O |
//! | [`MemoryMarks`], [`FileMarks`] | marks of many resources, behind [`MarkStore`] |
//! | [`GuardedFile`] | a file that only the latest holder can replace |
//! | [`POSTGRES_SQL`], [`REDIS_LUA`] | the rule inside PostgreSQL and Redis |
//! | `signed` (feature `signed`) | tokens that nobody can forge, verified offline |
//! | `http` (feature `http`) | a tower layer for the `Fencepost-Token` header |
//! | `store` (feature `store`) | a small fenced data store over HTTP |
//!
//! ```
//! use fencepost_fence::{Mark, Presented, Repeats, Token};
//!
//! let mut mark = Mark::default();
//! let token = |number| Presented::exclusive(Token::new(number).unwrap());
//! assert!(mark.present(token(101), Repeats::Accepted).is_ok());
//! let late = mark.present(token(100), Repeats::Accepted).unwrap_err();
//! assert_eq!(late.to_string(), "Token 100 is stale, last seen was 101");
//! ```

mod durable;
mod guarded_file;
#[cfg(feature = "http")]
pub mod http;
mod journal;
mod mark_text;
mod marks;
mod rule;
#[cfg(feature = "signed")]
pub mod signed;
#[cfg(feature = "store")]
pub mod store;
mod token;

pub use guarded_file::{GuardedFile, WriteError};
pub use journal::OpenError;
pub use marks::{Error, FileMarks, MarkStore, MemoryMarks, RESOURCE_LEN_MAX, RESOURCES_MAX};
pub use rule::{Floor, FloorFull, Mark, Refusal, Repeats, TAKEN_MAX};
pub use token::{Mode, Presented, Token, TokenError, UnknownMode};

/// The rule for PostgreSQL: run it once in a database. The file itself says how it is used.
pub const POSTGRES_SQL: &str = include_str!("../sql/fencepost.sql");

/// The rule for Redis: a script for `EVAL`. The file itself says how it is called.
pub const REDIS_LUA: &str = include_str!("../redis/fence.lua");

/// The guide's examples are compiled and run like any other.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/fencing.md")]
struct Guide;
