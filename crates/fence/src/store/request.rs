//! What the body of a write must look like.
//!
//! `{"clientID": string, "fencingToken": {"key": string, "value": number}, "data": string}`, as the
//! founding document has it. The value may be a string too, because many writers of JSON make a
//! float of every number. Beside it may stand `"mode"` and `"signed"`, the signed token.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{CLIENT_LEN_MAX, KEY_LEN_MAX};
use crate::token::{Mode, Presented, Token};

/// A write, as it was asked for. A signed token is not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) client_id: String,
    pub(super) key: String,
    pub(super) claim: Claim,
    pub(super) data: String,
}

/// By what right somebody wants to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    Bare(Presented),
    /// The text, and the token that must be in it if the caller named one beside it.
    Signed(String, Option<Token>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(rename = "clientID")]
    client_id: String,
    #[serde(rename = "fencingToken")]
    token: Object<BodyToken>,
    data: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BodyToken {
    key: String,
    value: Option<Value>,
    mode: Option<String>,
    signed: Option<String>,
}

/// Reads a body, or says what is wrong with it.
pub(super) fn read(body: &[u8]) -> Result<Write, String> {
    let Object(body): Object<Body> =
        serde_json::from_slice(body).map_err(|error| format!("this is no write: {error}"))?;
    let Object(token) = body.token;
    check_len("fencingToken.key", &token.key, 1, KEY_LEN_MAX)?;
    check_len("clientID", &body.client_id, 0, CLIENT_LEN_MAX)?;
    let number = token.value.map(|Value(token)| token);
    let claim = match (token.signed, number) {
        (Some(_), _) if token.mode.is_some() => {
            return Err("fencingToken.mode stands in the signed token: leave it out".to_owned());
        }
        (Some(signed), number) => Claim::Signed(signed, number),
        (None, Some(token_number)) => {
            let mode = token.mode.as_deref().unwrap_or(Mode::Exclusive.name());
            let mode = mode.parse().map_err(|error| format!("fencingToken.mode: {error}"))?;
            Claim::Bare(Presented { token: token_number, mode })
        }
        (None, None) => {
            return Err("fencingToken has neither a \"value\" nor a \"signed\" token".to_owned());
        }
    };
    Ok(Write { client_id: body.client_id, key: token.key, claim, data: body.data })
}

fn check_len(name: &str, text: &str, min: usize, max: usize) -> Result<(), String> {
    if (min..=max).contains(&text.len()) {
        return Ok(());
    }
    Err(format!("{name} has {} bytes, and {min} to {max} are allowed", text.len()))
}

/// Something that must be written with braces. A struct alone may be written as a list too, and a
/// client that does so has mixed something up.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        struct Braces<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Braces<T> {
            type Value = T;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_map(Braces(std::marker::PhantomData)).map(Object)
    }
}

/// A token as a number or as text, exact in both.
struct Value(Token);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Token;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(to, "a token: a whole number from 1 to {}", Token::MAX)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Token, E> {
                Token::try_from(number).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Token, E> {
                text.parse().map_err(E::custom)
            }
        }
        from.deserialize_any(Number).map(Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exclusive(number: u64) -> Claim {
        Claim::Bare(Presented::exclusive(Token::new(number).unwrap()))
    }

    fn claim(token: &str) -> Result<Claim, String> {
        let body = format!(r#"{{"clientID":"c","fencingToken":{token},"data":"d"}}"#);
        read(body.as_bytes()).map(|write| write.claim)
    }

    // Requirements: S1-018.
    #[test]
    fn the_founding_shape_is_read() {
        let body = br#"{"clientID":"c1","fencingToken":{"key":"k","value":5},"data":"hello"}"#;
        let write = Write {
            client_id: "c1".to_owned(),
            key: "k".to_owned(),
            claim: exclusive(5),
            data: "hello".to_owned(),
        };
        assert_eq!(read(body), Ok(write));
    }

    #[test]
    fn large_tokens_are_exact() {
        for number in [(1 << 53) + 1, u64::MAX - 1, u64::MAX] {
            assert_eq!(claim(&format!(r#"{{"key":"k","value":{number}}}"#)), Ok(exclusive(number)));
            assert_eq!(
                claim(&format!(r#"{{"key":"k","value":"{number}"}}"#)),
                Ok(exclusive(number))
            );
        }
    }

    #[test]
    fn modes_and_signed_tokens_are_read() {
        let shared = Presented::shared(Token::new(3).unwrap());
        assert_eq!(claim(r#"{"key":"k","value":3,"mode":"shared"}"#), Ok(Claim::Bare(shared)));
        assert_eq!(
            claim(r#"{"key":"k","signed":"a.b.c"}"#),
            Ok(Claim::Signed("a.b.c".to_owned(), None))
        );
        assert_eq!(
            claim(r#"{"key":"k","value":7,"signed":"a.b.c"}"#),
            Ok(Claim::Signed("a.b.c".to_owned(), Token::new(7)))
        );
    }

    #[test]
    fn wrong_shapes_are_refused_with_a_reason() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let nested = format!(r#"{{"clientID":"c","fencingToken":{deep},"data":"d"}}"#);
        let long = "k".repeat(1_025);
        let long =
            format!(r#"{{"clientID":"c","fencingToken":{{"key":"{long}","value":1}},"data":"d"}}"#);
        let cases = [
            ("", "EOF"),
            ("null", "object"),
            ("5", "object"),
            (r#"["c",{"key":"k","value":1},"d"]"#, "object"),
            (r#"{"clientID":"c","fencingToken":["k",1],"data":"d"}"#, "object"),
            (r#"{"clientID":"c","fencingToken":{"key":"k","value":1}}"#, "data"),
            (r#"{"clientID":1,"fencingToken":{"key":"k","value":1},"data":"d"}"#, "string"),
            (r#"{"clientID":"c","fencingToken":{"key":"k","value":1},"data":{}}"#, "string"),
            (r#"{"clientID":"c","fencingToken":{"key":"k","value":1},"data":"d"} x"#, "trailing"),
            (
                r#"{"clientID":"c","fencingToken":{"key":"k","value":1},"data":"d","x":1}"#,
                "unknown",
            ),
            (
                r#"{"clientID":"c","fencingToken":{"key":"k","value":1,"value":2},"data":"d"}"#,
                "duplicate",
            ),
            (r#"{"clientID":"c","fencingToken":{"key":"","value":1},"data":"d"}"#, "0 bytes"),
            (r#"{"clientID":"c","fencingToken":{"key":"k"},"data":"d"}"#, "neither"),
            (
                r#"{"clientID":"c","fencingToken":{"key":"k","value":1,"mode":"x"},"data":"d"}"#,
                "mode",
            ),
            (&deep, "object"),
            (&nested, "object"),
            (&long, "1025 bytes"),
        ];
        for (body, reason) in cases {
            let error = read(body.as_bytes()).expect_err(body.get(..60).unwrap_or(body));
            assert!(error.contains(reason), "{error:?} does not speak of {reason:?}");
        }
        for value in
            ["0", "-1", "1.0", "1e3", "18446744073709551616", "\"007\"", "\"\"", "true", "[]"]
        {
            let error = claim(&format!(r#"{{"key":"k","value":{value}}}"#)).expect_err(value);
            assert!(error.contains("token"), "{value}: {error}");
        }
    }
}
