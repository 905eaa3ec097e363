//! Lengths of time and texts, as people read them in tables.

use std::time::Duration;

/// A length of time with as much detail as a reader needs: `350ms`, `12s`, `3m 20s`, `2h 5m`.
pub(crate) fn length(millis: i64) -> String {
    let whole = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    let rounded = match whole.as_secs() {
        0 => whole,
        1..3_600 => Duration::from_secs(whole.as_secs()),
        seconds => Duration::from_secs(seconds / 60 * 60),
    };
    humantime::format_duration(rounded).to_string()
}

/// A length of time as people write it on the command line.
pub(crate) fn parse_length(text: &str) -> Result<Duration, String> {
    let wrong = |_| "a length of time is written as 500ms, 30s, 5m or 1h".to_owned();
    humantime::parse_duration(text).map_err(wrong)
}

/// A text from elsewhere on one line of a table: nothing in it can move the cursor.
pub(crate) fn cell(text: &str) -> String {
    const LEN_MAX: usize = 80;
    let mut shown: String = text.chars().flat_map(shown).take(LEN_MAX).collect();
    if text.chars().count() > LEN_MAX {
        shown.push('…');
    }
    shown
}

/// A text from elsewhere on a line of its own: nothing in it can move the cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars().flat_map(shown).collect()
}

fn shown(letter: char) -> Vec<char> {
    if letter.is_control() { letter.escape_default().collect() } else { vec![letter] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_keep_what_matters() {
        let told = [0, 350, 12_900, 200_000, 7_530_000].map(length);
        assert_eq!(told, ["0s", "350ms", "12s", "3m 20s", "2h 5m"]);
    }

    #[test]
    fn a_text_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(cell(&"x".repeat(100)).chars().count(), 81);
    }
}
