//! Why bytes could not be read.

use core::error::Error;
use core::fmt;

/// Bytes that nobody can have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// What is wrong.
    pub what: &'static str,
    /// How many bytes had been read when it was found. Where two parts of a snapshot contradict
    /// each other, that is all of them.
    pub at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)
    }
}

impl Error for Malformed {}

/// Why an entry or a snapshot could not be read. In every case the node must stop: a replica
/// that passes over what the others apply is no replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are damaged, or were never what they are taken for.
    Malformed(Malformed),
    /// A later version's command, which its author did not mark as safe to pass over.
    UnknownCommand(u32),
    /// A format that this build cannot read.
    UnknownVersion(u8),
    /// A state that behaves in ways which this build cannot apply.
    UnknownFeatureLevel(u32),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Malformed(malformed) => malformed.fmt(f),
            DecodeError::UnknownCommand(tag) => {
                write!(f, "command {tag} comes from a later version and must not be passed over")
            }
            DecodeError::UnknownVersion(version) => {
                write!(f, "format version {version} is not known to this build")
            }
            DecodeError::UnknownFeatureLevel(level) => {
                write!(f, "feature level {level} is not known to this build")
            }
        }
    }
}

impl Error for DecodeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            DecodeError::Malformed(malformed) => Some(malformed),
            _ => None,
        }
    }
}

impl From<Malformed> for DecodeError {
    fn from(malformed: Malformed) -> DecodeError {
        DecodeError::Malformed(malformed)
    }
}
