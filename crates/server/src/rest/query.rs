//! What a request asks for in the query of its address.
//!
//! Refuses: what is given twice, what nobody has asked for, and what is no text. A misspelt
//! `prefix` must not become a question about something else.

use std::borrow::Cow;

use axum::http::Uri;
use percent_encoding::percent_decode;

use super::numbers::{self, EXACT_MAX};
use crate::error::{Failure, Wrong};

/// The parameters that were not looked at yet.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn of(uri: &Uri) -> Result<Query, Failure> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let all = uri.query().unwrap_or_default();
        for part in all.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (text(name)?, text(value)?);
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(unreadable(format!("the parameter {name} is given twice")));
            }
            pairs.push((name, value));
        }
        Ok(Query(pairs))
    }

    /// A text, if it is there.
    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        let place = self.0.iter().position(|(one, _)| one == name)?;
        Some(self.0.swap_remove(place).1)
    }

    /// A flag: `true` or `false`.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, Failure> {
        match self.text(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Wrong::Invalid(name, "must be true or false").into()),
        }
    }

    /// A whole number that JSON would have room for; nothing is zero.
    pub(super) fn number(&mut self, name: &'static str) -> Result<u64, Failure> {
        let Some(digits) = self.text(name) else { return Ok(0) };
        let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|&number| is_plain && number <= EXACT_MAX);
        number.ok_or_else(|| Wrong::Invalid(name, "must be a whole number below 2^53").into())
    }

    /// How many a page may list; nothing is zero.
    pub(super) fn limit(&mut self) -> Result<u32, Failure> {
        let limit = self.number("limit")?;
        u32::try_from(limit).map_err(|_| Wrong::Invalid("limit", "is too large").into())
    }

    /// A lease; nothing is zero.
    pub(super) fn lease(&mut self, name: &'static str) -> Result<i64, Failure> {
        let Some(digits) = self.text(name) else { return Ok(0) };
        let lease = numbers::lease(&digits);
        lease.ok_or_else(|| Wrong::Invalid(name, "must be 1 to 16 hexadecimal digits").into())
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(unreadable(format!("there is no parameter {name:?} here"))),
        }
    }
}

fn unreadable(why: String) -> Failure {
    Wrong::Unreadable(why).into()
}

fn text(raw: &str) -> Result<String, Failure> {
    let is_escape = |behind: &str| {
        let digits = behind.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !raw.split('%').skip(1).all(is_escape) {
        return Err(unreadable(
            "a % in the query needs two hexadecimal digits behind it".to_owned(),
        ));
    }
    let spaced = raw.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8().map(Cow::into_owned);
    decoded.map_err(|_| unreadable("the query is no UTF-8".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Result<Query, Failure> {
        Query::of(&text.parse().expect("it is an address"))
    }

    #[test]
    fn names_may_have_anything_in_them() {
        let mut query =
            query("/v1/kv?key=jobs/a%2Fb+c%26&prefix=true&&limit=7").expect("it is fine");
        assert_eq!(query.text("key").as_deref(), Some("jobs/a/b c&"));
        assert_eq!(query.flag("prefix").ok(), Some(true));
        assert_eq!(query.number("limit").ok(), Some(7));
        assert_eq!(query.number("from").ok(), Some(0));
        query.end().expect("nothing is left");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in ["/?a=1&a=2", "/?a=%ff", "/?a=%zz", "/?a=b%", "/?a=%4"] {
            assert_eq!(query(wrong).expect_err(wrong).code, "request_unreadable");
        }
        let left = query("/?prefx=true").expect("it can be read").end();
        assert_eq!(left.expect_err("nobody asked for it").code, "request_unreadable");
        for wrong in ["", "+1", "-1", "1.0", "0x1", "9007199254740992", "99999999999999999999"] {
            let refused = query(&format!("/?n={wrong}")).expect("it can be read").number("n");
            assert_eq!(refused.expect_err(wrong).code, "field_invalid");
        }
        for wrong in ["1", "yes", ""] {
            let refused = query(&format!("/?n={wrong}")).expect("it can be read").flag("n");
            assert_eq!(refused.expect_err(wrong).code, "field_invalid");
        }
        for wrong in ["", "0", "xyz", "ffffffffffffffff", "-1", "11111111111111111"] {
            let refused = query(&format!("/?n={wrong}")).expect("it can be read").lease("n");
            assert_eq!(refused.expect_err(wrong).code, "field_invalid");
        }
    }
}
