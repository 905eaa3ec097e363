//! What can go wrong, as a program can act on it.
//!
//! Guarantees: every variant but [`Error::Indeterminate`] means that the request has had no effect,
//! or none that is left. An acquire that failed otherwise holds nothing.

/// Why a request has not done what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lock was not obtained in the time that was given. Nothing is held.
    #[error("the lock was not obtained in time")]
    Timeout,
    /// Somebody else has the lock, and the request was not to wait. Nothing is held.
    #[error("the lock is held by {holder}")]
    Denied {
        /// Who has it, as the service calls them.
        holder: String,
    },
    /// The request may or may not have been done. What it may hold ends with its lease.
    #[error("the outcome is unknown: {message}")]
    Indeterminate {
        /// What was seen last.
        message: String,
    },
    /// The lease under which the request was made has ended, and everything with it.
    #[error("the lease was lost: {message}")]
    LeaseLost {
        /// What is known about its end.
        message: String,
    },
    /// The wait for a lock was ended by somebody else: its place in the queue is gone.
    #[error("the wait for the lock was ended: {cause}")]
    Ended {
        /// Why, as the service says it.
        cause: String,
    },
    /// The service refuses the request.
    #[error("refused ({code}): {message}")]
    Rejected {
        /// Stable, for programs.
        code: String,
        /// For people.
        message: String,
        /// Whether the same request may succeed later.
        retryable: bool,
    },
    /// No member of the cluster could be reached in time. Nothing was done.
    #[error("the service cannot be reached: {message}")]
    Unavailable {
        /// What was tried last, and what came of it.
        message: String,
    },
    /// What answers at the endpoints is another cluster than the one that this client began with.
    /// Nothing was asked of it: leases and tokens of the one mean nothing to the other.
    #[error("another cluster answers: {message}")]
    WrongCluster {
        /// Who answers, and who should.
        message: String,
    },
    /// The watch cannot go on where it stopped: history begins later.
    #[error("history before revision {revision} is gone")]
    Compacted {
        /// The first revision that can still be watched from.
        revision: i64,
    },
    /// The backup did not arrive as it was sent.
    #[error("the backup is damaged: its checksum is {found:08x}, not {expected:08x}")]
    Damaged {
        /// The sum that the service gave.
        expected: u32,
        /// The sum of what arrived.
        found: u32,
    },
    /// The request makes no sense, and was not sent.
    #[error("{message}")]
    Invalid {
        /// What is wrong with it.
        message: String,
    },
    /// The service answered something that this client does not understand.
    #[error("the answer was not understood: {message}")]
    Protocol {
        /// What was seen.
        message: String,
    },
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

impl Error {
    /// Whether the same request may succeed later, and repeating it can do no harm.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Rejected { retryable, .. } => *retryable,
            Error::Timeout
            | Error::Denied { .. }
            | Error::LeaseLost { .. }
            | Error::Ended { .. }
            | Error::Unavailable { .. }
            | Error::Damaged { .. } => true,
            Error::Indeterminate { .. }
            | Error::WrongCluster { .. }
            | Error::Compacted { .. }
            | Error::Invalid { .. }
            | Error::Protocol { .. }
            | Error::Closed => false,
        }
    }

    /// Whether the request may have been done all the same.
    pub fn is_indeterminate(&self) -> bool {
        matches!(self, Error::Indeterminate { .. })
    }

    pub(crate) fn unknown(message: impl Into<String>) -> Error {
        Error::Indeterminate { message: message.into() }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Error {
        Error::Unavailable { message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::Invalid { message: message.into() }
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Error {
        Error::Protocol { message: message.into() }
    }
}
