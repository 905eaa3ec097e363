//! Why a node does not start, and why it ends. Three lines each: what, why, and what to do.

use std::io;
use std::path::PathBuf;

use crate::peer::Refusal;
use crate::{boot, data_dir};

/// Why a node has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was told to.
    Stopped,
    /// It is not a member any more.
    Removed,
    /// It cannot go on.
    Failed(String),
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory.
    #[error(transparent)]
    DataDir(#[from] data_dir::Error),
    /// What is in it.
    #[error(transparent)]
    Boot(#[from] boot::Error),
    /// The peer address.
    #[error(
        "cannot listen for other members on {address}\n\
         the system says: {source}\n\
         stop what listens there, or choose another --peer-listen"
    )]
    Listen {
        /// Which.
        address: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// Another node does not want this one.
    #[error("{address} refuses this node: {why}")]
    Refused {
        /// Who.
        address: String,
        /// Why.
        why: Refusal,
    },
    /// The members cannot be changed so that this node is one of them.
    #[error(
        "cannot join through {address}\n\
         the leader says: {why}\n\
         change what it complains about, and start this node again"
    )]
    NotAdded {
        /// Who was asked.
        address: String,
        /// Why.
        why: String,
    },
    /// Asking led in circles.
    #[error(
        "cannot join through {address}\n\
         the leader was not found after {redirects} redirects\n\
         look whether the cluster has a leader, and start this node again"
    )]
    TooManyRedirects {
        /// Who was asked first.
        address: String,
        /// How many there were.
        redirects: usize,
    },
    /// Others did not come in time.
    #[error(
        "cannot start: waited in vain for {what}\n\
         {why}\n\
         look whether the nodes run and can be reached, and start this one again"
    )]
    TimedOut {
        /// For what.
        what: String,
        /// What was heard last.
        why: String,
    },
    /// What was asked for makes no sense.
    #[error(
        "cannot start: {what}\n\
         it was given so on the command line or in the configuration\n\
         correct it, and start again"
    )]
    Settings {
        /// What is wrong.
        what: String,
    },
    /// The directory is another node's.
    #[error(
        "cannot begin as {given} in the data directory {}\n\
         it belongs to the node {found}\n\
         name the directory of {given} with --data-dir, or give no --name",
        path.display()
    )]
    OtherName {
        /// Which directory.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose it should be.
        given: String,
    },
    /// The directory is nobody's, and not empty.
    #[error(
        "cannot begin in the data directory {}\n\
         it holds the log or the snapshots of a member, but does not say of which\n\
         choose an empty directory, or bring the file `identity` back",
        path.display()
    )]
    NotEmpty {
        /// Which directory.
        path: PathBuf,
    },
    /// The log and the engine do not agree.
    #[error(
        "cannot start: the log contradicts itself: {why}\n\
         its checksums are right, so this is a mistake in Fencepost\n\
         please report it; to go on, remove this member and let it join with an empty directory"
    )]
    Engine {
        /// What the engine says.
        why: String,
    },
    /// The system has no room for a thread.
    #[error(
        "cannot start: no thread can be made\n\
         the system says: {0}\n\
         raise the limits of the process, and start again"
    )]
    Threads(io::Error),
}
