//! A lock whose queue is blocked by a key that is no contender.
//!
//! Such a key was written as a plain key, with a name that has the form of a place in the queue. Nothing
//! ever gives it back, so people must be told what it is and what clears it.

use crate::words::plain;

/// What to tell people, if a lock without a holder has such keys in its queue.
pub(crate) fn by(has_holder: bool, foreign: &[String]) -> Option<&str> {
    foreign.first().map(String::as_str).filter(|_| !has_holder)
}

/// What it is.
pub(crate) fn why(key: &str) -> String {
    format!("the key {} stands in the queue: a plain key, which is never given back", plain(key))
}

/// What clears it.
pub(crate) fn remedy(key: &str) -> String {
    format!("`fencepost kv del {}` clears it, if nothing else needs the key", word(key))
}

/// A text as one word of a shell.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:@%+=,".contains(letter);
    if text.chars().all(is_plain) && !text.starts_with('-') && !text.is_empty() {
        return text.to_owned();
    }
    format!("-- '{}'", plain(text).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_comes_before_what_stands_behind_it() {
        let keys = ["jobs/1".to_owned()];
        assert_eq!(by(false, &keys), Some("jobs/1"));
        assert_eq!((by(true, &keys), by(false, &[])), (None, None));
    }

    #[test]
    fn the_command_can_be_pasted() {
        assert_eq!(word("jobs/1"), "jobs/1");
        assert_eq!(word("a b/1"), "-- 'a b/1'");
        assert_eq!(word("it's/1"), "-- 'it'\\''s/1'");
        assert_eq!(word("-d/1"), "-- '-d/1'");
    }
}
