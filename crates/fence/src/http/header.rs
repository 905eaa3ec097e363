//! The `Fencepost-Token` header.
//!
//! `42`, or `42; mode=shared`, or a signed token.

use http::HeaderMap;

use crate::token::{Mode, Presented, Token, TokenError, UnknownMode};

/// The name of the header.
pub const HEADER: &str = "fencepost-token";

/// What a caller presents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenHeader {
    /// A number that anybody could have made up.
    Bare(Presented),
    /// A signed token. Nothing in it is verified yet.
    Signed(String),
}

/// Why a header cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// There is none.
    #[error("the header Fencepost-Token is missing: send the token that came with the lock")]
    Missing,
    /// There are several, and nobody can say which is meant.
    #[error("the header Fencepost-Token stands there more than once")]
    Doubled,
    /// It is no text.
    #[error("the header Fencepost-Token has other characters than visible ASCII")]
    NotText,
    /// It is no token.
    #[error("the header Fencepost-Token holds no token: {0}")]
    Token(#[from] TokenError),
    /// What follows the token is not `mode=` and a mode.
    #[error("after the token only \"; mode=\" may follow: {UnknownMode}")]
    Mode,
}

impl TokenHeader {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// It is not there, or makes no sense.
    pub fn read(headers: &HeaderMap) -> Result<TokenHeader, HeaderError> {
        let mut all = headers.get_all(HEADER).iter();
        let value = all.next().ok_or(HeaderError::Missing)?;
        if all.next().is_some() {
            return Err(HeaderError::Doubled);
        }
        TokenHeader::parse(value.to_str().map_err(|_| HeaderError::NotText)?)
    }

    /// Reads the header's value.
    ///
    /// # Errors
    ///
    /// It makes no sense.
    pub fn parse(text: &str) -> Result<TokenHeader, HeaderError> {
        let text = text.trim();
        // A number has no dots, a signed token has two.
        if text.contains('.') {
            return Ok(TokenHeader::Signed(text.to_owned()));
        }
        let (number, mode) = match text.split_once(';') {
            None => (text, Mode::Exclusive),
            Some((number, rest)) => {
                let mode = rest.trim().strip_prefix("mode=").ok_or(HeaderError::Mode)?;
                (number.trim_end(), mode.parse().map_err(|_| HeaderError::Mode)?)
            }
        };
        let token: Token = number.parse()?;
        Ok(TokenHeader::Bare(Presented { token, mode }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_and_signed_values_are_told_apart() {
        let token = Token::new(42).unwrap();
        let bare = |presented| Ok(TokenHeader::Bare(presented));
        assert_eq!(TokenHeader::parse("42"), bare(Presented::exclusive(token)));
        assert_eq!(TokenHeader::parse(" 42 "), bare(Presented::exclusive(token)));
        assert_eq!(TokenHeader::parse("42; mode=shared"), bare(Presented::shared(token)));
        assert_eq!(TokenHeader::parse("42 ;mode=permit"), bare(Presented::permit(token)));
        assert_eq!(TokenHeader::parse("a.b.c"), Ok(TokenHeader::Signed("a.b.c".to_owned())));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["", "x", "-1", "0", "007", "18446744073709551616", "4 2"] {
            assert!(matches!(TokenHeader::parse(text), Err(HeaderError::Token(_))), "{text:?}");
        }
        for text in ["42;", "42; mode", "42; mode=", "42; mode=Shared", "42; mode=shared; x=1"] {
            assert_eq!(TokenHeader::parse(text), Err(HeaderError::Mode), "{text:?}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(TokenHeader::read(&headers), Err(HeaderError::Missing));
        headers.append(HEADER, "1".parse().unwrap());
        headers.append(HEADER, "2".parse().unwrap());
        assert_eq!(TokenHeader::read(&headers), Err(HeaderError::Doubled));
    }
}
