//! Reading Rust text line by line, without a parser.
//!
//! A check that errs must err towards a finding: a person can then look, but nobody looks at what
//! was not reported.

/// A line without its `//` comment.
///
/// Slashes inside a string do not begin a comment. A lone quote character confuses the count, and
/// then the comment stays, which can only report too much.
pub(crate) fn code(line: &str) -> &str {
    let mut inside_string = false;
    let mut previous = ' ';
    for (at, letter) in line.char_indices() {
        match letter {
            '"' if previous != '\\' => inside_string = !inside_string,
            '/' if previous == '/' && !inside_string => return &line[..at - 1],
            _ => {}
        }
        previous = letter;
    }
    line
}

/// Whether `needle` stands in `text` as a word of its own: not as a part of a longer name.
pub(crate) fn has_word(text: &str, needle: &str) -> bool {
    text.match_indices(needle).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + needle.len()..].chars().next();
        let starts = !(needle.starts_with(is_name) && before.is_some_and(is_name));
        let ends = !(needle.ends_with(is_name) && after.is_some_and(is_name));
        starts && ends
    })
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Lines with their numbers, counted from 1.
pub(crate) fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(at, line)| (at + 1, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_strings_stay() {
        assert_eq!(code("let a = 1; // why"), "let a = 1; ");
        assert_eq!(code("/// doc"), "");
        assert_eq!(code(r#"let a = "http://x"; f()"#), r#"let a = "http://x"; f()"#);
        assert_eq!(code(r#"let a = "\"//"; f() // g"#), r#"let a = "\"//"; f() "#);
    }

    #[test]
    fn a_word_is_not_a_part_of_a_longer_name() {
        assert!(has_word("use rand::Rng", "rand::"));
        assert!(!has_word("operand::Kind", "rand::"));
        assert!(has_word("a: Instant,", "Instant"));
        assert!(!has_word("a: Instantly,", "Instant"));
        assert!(has_word("Instantly Instant", "Instant"));
    }
}
