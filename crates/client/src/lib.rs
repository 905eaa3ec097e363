//! The Rust SDK of Fencepost: locks that you can stake data on.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use fencepost_client::Client;
//! # async fn write_report(_token: i64) {}
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::builder()
//!     .endpoints(["http://127.0.0.1:7420"])
//!     .name("job-runner")
//!     .connect()
//!     .await?;
//!
//! let guard = client
//!     .lock("reports/nightly")
//!     .ttl(Duration::from_secs(30))
//!     .wait(Duration::from_secs(5))
//!     .acquire()
//!     .await?;
//!
//! // The work is stopped if the lock is lost, before anybody else can get it. The token goes along
//! // with every write, so that the resource can refuse one that comes too late all the same.
//! guard.run(write_report(guard.token().get())).await?;
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! 1. Tokens of one lock grow from holder to holder, whatever fails.
//! 2. At most one [`Guard`] of an exclusive lock is valid at a time, as long as the rates of clocks
//!    differ by less than one percent, and nobody deletes the holder's key or takes the lock away
//!    with `now`.
//! 3. Side effects are exclusive only if the resource checks the token. The service knows when a
//!    holder was lost; a write that is already on its way does not.
//!
//! # How it is kept
//!
//! A client has one session: one stream to the service, over which everything goes, and one thread,
//! which renews every lease at a third of its TTL. Validity is counted from when a renewal was
//! *sent*, on a clock that goes on while the machine sleeps, less one percent of the TTL and 50 ms.
//! If nothing is confirmed for the safety window, half the TTL, a guard is lost: its
//! [`cancel_token`](Guard::cancel_token) is cancelled and its work has the rest of the TTL to stop in.
//! While twenty callers or more wait for answers that come quickly, the thread stays awake for them, and
//! takes what nobody else wants of one core.
//!
//! Every acquire has a lease of its own, so that a loss loses nothing else. A request that was not
//! answered is sent again under the same number, over whatever connection there is, and acts once.
//! What stays open after that is said so: [`Error::Indeterminate`] is neither yes nor no, and every
//! other error means that nothing is held.
//!
//! Two tasks of one client exclude each other like two clients, in the order in which they ask;
//! [`reentrant`](LockBuilder::reentrant) opts out. Programs without a runtime use [`blocking`].

#![warn(missing_docs)]

mod admin;
pub mod blocking;
mod boot_time;
mod builder;
mod client;
mod clients;
mod cluster;
#[doc(hidden)]
pub mod core;
mod election;
mod error;
mod guard;
mod kv;
mod lease;
mod limits;
mod lock;
mod shell;
mod signing;
mod watch;

pub use crate::core::{Loss, Place, Released};
pub use admin::Forced;
pub use boot_time::BootTime;
pub use builder::Builder;
pub use client::Client;
pub use cluster::{NewMember, Snapshot};
pub use election::{Election, Leader, Leadership, Observer};
pub use error::Error;
/// The messages of the service, for what is passed on as it comes.
pub use fencepost_proto::v1 as proto;
pub use guard::{Guard, Lost, Token};
pub use kv::{HeldPut, Kv};
pub use lease::{Lease, LeaseBuilder};
pub use limits::{LimitsChange, QuotaSetting};
pub use lock::{LockBuilder, TTL_DEFAULT};
pub use shell::Transport;
pub use signing::SigningKeys;
pub use tokio_util::sync::CancellationToken;
pub use watch::Watch;
