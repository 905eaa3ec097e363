//! Numbers in JSON, where only those below 2^53 survive every reader.
//!
//! Tokens and revisions stay below that, and are numbers. Leases, members and clusters do not, and
//! are texts of hexadecimal digits, as on the command line and in the keys of a lock's queue.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// The greatest whole number that every reader of JSON keeps exactly.
pub(super) const EXACT_MAX: u64 = (1 << 53) - 1;

/// The digits of a lease, as people write them.
pub(super) fn lease(digits: &str) -> Option<i64> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lease = i64::from_str_radix(digits, 16).ok().filter(|_| is_plain);
    lease.filter(|&lease| lease > 0)
}

/// A whole number that JSON has room for.
pub(super) fn exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = u64::deserialize(deserializer)?;
    if number > EXACT_MAX {
        return Err(de::Error::custom("a number must be below 2^53"));
    }
    Ok(number)
}

/// The same, if it is there.
pub(super) fn exact_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    struct Exact(#[serde(deserialize_with = "exact")] u64);
    Ok(Option::<Exact>::deserialize(deserializer)?.map(|Exact(number)| number))
}

/// Numbers of the wire, which are below 2^53 wherever they come from here.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A lease that is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease(pub(super) i64);

impl Lease {
    /// Nothing, if there is none.
    pub(super) fn named(id: i64) -> Option<Lease> {
        Some(Lease(id)).filter(|lease| lease.0 != 0)
    }
}

impl Serialize for Lease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:x}", self.0))
    }
}

fn digits(about: &str, pattern: &str, example: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some(about))
        .pattern(Some(pattern))
        .examples([example])
}

impl PartialSchema for Lease {
    fn schema() -> RefOr<Schema> {
        digits("A lease: hexadecimal digits", "^[0-9a-f]{1,16}$", "2a").into()
    }
}

impl ToSchema for Lease {
    fn name() -> Cow<'static, str> {
        "Lease".into()
    }
}

/// A lease that is given: hexadecimal digits, or the number itself where that is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeaseGiven(pub(super) i64);

impl<'de> Deserialize<'de> for LeaseGiven {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LeaseGiven, D::Error> {
        struct Given;

        impl Visitor<'_> for Given {
            type Value = LeaseGiven;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a lease: a text of hexadecimal digits, or a number below 2^53")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<LeaseGiven, E> {
                let lease = i64::try_from(number).ok();
                let lease = lease.filter(|&lease| lease > 0 && number <= EXACT_MAX);
                let wrong = || de::Error::invalid_value(de::Unexpected::Unsigned(number), &self);
                lease.map(LeaseGiven).ok_or_else(wrong)
            }

            fn visit_str<E: de::Error>(self, digits: &str) -> Result<LeaseGiven, E> {
                let wrong = || de::Error::invalid_value(de::Unexpected::Str(digits), &self);
                lease(digits).map(LeaseGiven).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(Given)
    }
}

impl PartialSchema for LeaseGiven {
    fn schema() -> RefOr<Schema> {
        let pattern = "^(0x)?[0-9a-fA-F]{1,16}$";
        let number = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(EXACT_MAX))
            .description(Some("The number itself, if it is below 2^53"));
        OneOfBuilder::new()
            .item(digits("Hexadecimal digits, as a lease is told", pattern, "2a"))
            .item(number)
            .description(Some("A lease"))
            .into()
    }
}

impl ToSchema for LeaseGiven {
    fn name() -> Cow<'static, str> {
        "LeaseGiven".into()
    }
}

/// A member or a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id(pub(super) u64);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        let about = "A member or a cluster: sixteen hexadecimal digits";
        digits(about, "^[0-9a-f]{16}$", "8c1cce8199dd521b").into()
    }
}

impl ToSchema for Id {
    fn name() -> Cow<'static, str> {
        "Id".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_given_as_digits_or_as_a_number() {
        let given = |json: &str| serde_json::from_str::<LeaseGiven>(json).ok().map(|one| one.0);
        for json in ["\"2a\"", "\"0x2a\"", "\"2A\"", "\"002a\"", "42"] {
            assert_eq!(given(json), Some(42), "{json}");
        }
        assert_eq!(given("\"7fffffffffffffff\""), Some(i64::MAX));
        for json in [
            "0",
            "-1",
            "1.0",
            "9007199254740992",
            "\"\"",
            "\"0\"",
            "\"-1\"",
            "\"+1\"",
            "null",
            "[1]",
        ] {
            assert_eq!(given(json), None, "{json}");
        }
        assert_eq!(
            serde_json::to_string(&Lease(i64::MAX)).ok(),
            Some("\"7fffffffffffffff\"".into())
        );
    }
}
