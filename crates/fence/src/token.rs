//! What a holder presents: a token and its mode.
//!
//! Refuses: zero, because no grant ever carries it, and every second spelling of a number, so
//! that two texts are equal exactly if their tokens are.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// A fencing token, as a lock's grant carries it. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(NonZeroU64);

impl Token {
    /// The largest number that a token can be.
    pub const MAX: Token = Token(NonZeroU64::MAX);

    /// The token with this number; none has the number zero.
    pub const fn new(number: u64) -> Option<Token> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Token(number)),
            None => None,
        }
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(to)
    }
}

impl TryFrom<u64> for Token {
    type Error = TokenError;

    fn try_from(number: u64) -> Result<Token, TokenError> {
        Token::new(number).ok_or(TokenError::Zero)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Token, TokenError> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TokenError::NotDecimal);
        }
        if text.len() > 1 && text.starts_with('0') {
            return Err(TokenError::LeadingZero);
        }
        let number: u64 = text.parse().map_err(|_| TokenError::TooLarge)?;
        Token::try_from(number)
    }
}

/// Why something is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It has other characters than digits, or none.
    #[error("a token is a whole number in decimal digits")]
    NotDecimal,
    /// It has a second spelling.
    #[error("a token is written without leading zeros")]
    LeadingZero,
    /// It does not fit into 64 bits.
    #[error("the number is larger than any token can be ({})", Token::MAX)]
    TooLarge,
    /// Zero stands for "nothing seen yet".
    #[error("a token is at least 1")]
    Zero,
}

/// How the holder shares its lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// With nobody. Only such a token raises the mark.
    #[default]
    Exclusive,
    /// With every other shared holder.
    Shared,
    /// With the holders of the other permits.
    Permit,
}

impl Mode {
    /// Its name, as it is written everywhere.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Exclusive => "exclusive",
            Mode::Shared => "shared",
            Mode::Permit => "permit",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Mode, UnknownMode> {
        [Mode::Exclusive, Mode::Shared, Mode::Permit]
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or(UnknownMode)
    }
}

/// A mode that this version does not know. It is refused: to guess would be to let it write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the mode is none of exclusive, shared and permit")]
pub struct UnknownMode;

/// A token with its mode, as somebody presents them to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Presented {
    /// The token.
    pub token: Token,
    /// The mode in which its lock is held.
    pub mode: Mode,
}

impl Presented {
    /// The token of an exclusive holder.
    pub const fn exclusive(token: Token) -> Presented {
        Presented { token, mode: Mode::Exclusive }
    }

    /// The token of a shared holder.
    pub const fn shared(token: Token) -> Presented {
        Presented { token, mode: Mode::Shared }
    }

    /// The token of the holder of a permit.
    pub const fn permit(token: Token) -> Presented {
        Presented { token, mode: Mode::Permit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_spelling() {
        for number in [1, 7, 10, (1 << 53) + 1, u64::MAX] {
            let token = Token::new(number).expect("it is not zero");
            assert_eq!(token.to_string().parse(), Ok(token));
        }
    }

    #[test]
    fn what_is_no_token_is_refused_with_its_reason() {
        let cases = [
            ("", TokenError::NotDecimal),
            ("+1", TokenError::NotDecimal),
            ("-1", TokenError::NotDecimal),
            (" 1", TokenError::NotDecimal),
            ("1e3", TokenError::NotDecimal),
            ("1.0", TokenError::NotDecimal),
            ("0x1", TokenError::NotDecimal),
            ("\u{0661}", TokenError::NotDecimal),
            ("01", TokenError::LeadingZero),
            ("00", TokenError::LeadingZero),
            ("0", TokenError::Zero),
            ("18446744073709551616", TokenError::TooLarge),
            ("99999999999999999999999999", TokenError::TooLarge),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Token>(), Err(expected), "{text:?}");
        }
    }

    #[test]
    fn modes_have_one_spelling() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Permit] {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        for text in ["", "Exclusive", "permit(3)", "shared "] {
            assert_eq!(text.parse::<Mode>(), Err(UnknownMode), "{text:?}");
        }
    }
}
