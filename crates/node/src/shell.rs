//! Runs a node for real: threads, sockets, files and a clock around [`crate::node::Node`].
//!
//! Owns: one loop that the node lives on, one thread that writes the log, one that keeps
//! snapshots, and for every other member one that sends and one that receives. All of them are
//! plain threads that block; whoever serves clients talks to the loop through a [`Handle`].
//! Guarantees: the node's outputs are carried out in order; what waits is bounded everywhere; the
//! loop never waits for a disk, a socket or a client. Refuses: to go on after a failed write. The
//! node ends then, with the reason.

mod address_book;
pub mod backup;
mod board;
pub mod cluster;
pub mod descriptors;
mod disk_space;
mod draft;
mod edge;
mod error;
mod event_loop;
mod formation;
mod hall;
mod handle;
mod inbox;
mod joining;
mod link;
mod lobby;
mod log_writer;
mod lookout;
mod mail;
mod memory;
mod notice;
mod pile;
mod post;
mod question;
mod reads;
mod run;
mod sender;
mod server;
mod settings;
mod snapshot_thread;
mod spare_thread;
mod start;
mod wire;

pub use board::{Board, Contact, LinkStatus, SYNC_MICROS, Status};
pub use disk_space::DiskStatus;
pub use error::{Ended, StartError};
pub use handle::{Caller, Handle};
pub use mail::{Delivery, Freshness, Line, Mailbox};
pub use notice::{Notice, Observer};
pub use pile::{Pile, Taken};
pub use reads::{Found, Query, Steps};
pub use run::{Launch, RunningNode, run};
pub use settings::{Origin, Settings};
pub use start::start;
