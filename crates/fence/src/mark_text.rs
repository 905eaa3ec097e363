//! A mark as text, for the files that keep one.
//!
//! `highest below taken`, in decimal, the last one as a list with commas or `-` if it is empty.

use std::collections::BTreeSet;

use crate::rule::{Mark, TAKEN_MAX};
use crate::token::Token;

/// The mark as one line without its end.
pub(crate) fn write(mark: &Mark) -> String {
    let floor = mark.floor();
    let taken: Vec<String> = floor.taken.iter().map(ToString::to_string).collect();
    let taken = if taken.is_empty() { "-".to_owned() } else { taken.join(",") };
    let number = |token: Option<Token>| token.map_or(0, Token::get);
    format!("{} {} {taken}", number(mark.highest()), number(floor.below))
}

/// What [`write`] has written; none if it is something else.
pub(crate) fn read(text: &str) -> Option<Mark> {
    let mut parts = text.split(' ');
    let (highest, below, taken) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let taken: BTreeSet<u64> = if taken == "-" {
        BTreeSet::new()
    } else {
        taken.split(',').map(|each| each.parse().ok()).collect::<Option<_>>()?
    };
    if taken.len() > TAKEN_MAX {
        return None;
    }
    Some(Mark::restored(highest.parse().ok()?, below.parse().ok()?, taken))
}

/// A name without line breaks, so that it fits into one line.
pub(crate) fn escape(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
    out
}

/// The name that [`escape`] was given; none if it cannot be its work.
pub(crate) fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            other => other,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn marks_come_back(
            highest in any::<u64>(), below in any::<u64>(), taken in btree_set(1_u64.., 0..20),
        ) {
            let mark = Mark::restored(highest, below, taken);
            prop_assert_eq!(read(&write(&mark)), Some(mark));
        }

        #[test]
        fn names_come_back_on_one_line(name in any::<String>()) {
            let escaped = escape(&name);
            prop_assert!(!escaped.contains(['\n', '\r']));
            prop_assert_eq!(unescape(&escaped), Some(name));
        }
    }

    #[test]
    fn anything_else_is_no_mark() {
        for text in ["", "1", "1 2", "1 2 - 3", "x 0 -", "1 0 ", "1 0 2,", "-1 0 -"] {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(unescape("a\\"), None);
        assert_eq!(unescape("a\\t"), None);
    }
}
