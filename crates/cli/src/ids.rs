//! Numbers as people see them. They are too large for the numbers of JSON, so they are texts of
//! hexadecimal digits; a lease is written as in the keys of a lock's queue.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The number of a lease, as it stands in keys: lower-case hexadecimal without leading zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseId(pub(crate) i64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl FromStr for LeaseId {
    type Err = String;

    fn from_str(text: &str) -> Result<LeaseId, String> {
        let wrong = || format!("{text:?} is no lease: it has up to 16 hexadecimal digits");
        let number = i64::from_str_radix(digits(text), 16).map_err(|_| wrong())?;
        if number > 0 { Ok(LeaseId(number)) } else { Err(wrong()) }
    }
}

impl Serialize for LeaseId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The number of a member or of a cluster: sixteen hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberId(pub(crate) u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for MemberId {
    type Err = String;

    fn from_str(text: &str) -> Result<MemberId, String> {
        let wrong = || format!("{text:?} is no member: it has up to 16 hexadecimal digits");
        let number = u64::from_str_radix(digits(text), 16).map_err(|_| wrong())?;
        if number > 0 { Ok(MemberId(number)) } else { Err(wrong()) }
    }
}

impl Serialize for MemberId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn digits(text: &str) -> &str {
    text.strip_prefix("0x").unwrap_or(text)
}
