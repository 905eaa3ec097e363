//! Lengths of time and texts, as people read them in tables.

use std::time::{Duration, UNIX_EPOCH};

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

/// A wall-clock time in RFC 3339, in milliseconds since the Unix epoch.
pub(crate) fn parse_time(text: &str) -> Result<u64, String> {
    const WRITTEN: &str = "a time is written as 2026-11-18T09:30:00Z or 2026-11-18T10:30:00+01:00";
    let wrong = || WRITTEN.to_owned();
    let (local, offset) = match text.len().checked_sub("+00:00".len()) {
        Some(at) if text.get(at..).is_some_and(|end| end.starts_with(['+', '-'])) => {
            text.split_at(at)
        }
        _ => (text.strip_suffix('Z').ok_or_else(wrong)?, "+00:00"),
    };
    let (hours, minutes) = offset[1..].split_once(':').ok_or_else(wrong)?;
    let is_two = |digits: &str| digits.len() == 2 && digits.bytes().all(|one| one.is_ascii_digit());
    let part = |digits: &str, max| match digits.parse::<u64>() {
        Ok(part) if is_two(digits) && part <= max => Ok(part),
        _ => Err(wrong()),
    };
    let offset_ms = (part(hours, 23)? * 60 + part(minutes, 59)?) * 60_000;
    let time = humantime::parse_rfc3339(&format!("{local}Z")).map_err(|_| wrong())?;
    let since = time.duration_since(UNIX_EPOCH).map_err(|_| wrong())?;
    let local_ms = u64::try_from(since.as_millis()).map_err(|_| wrong())?;
    match offset.starts_with('-') {
        true => local_ms.checked_add(offset_ms),
        false => local_ms.checked_sub(offset_ms),
    }
    .ok_or_else(wrong)
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
    fn times_are_read_with_their_offset() {
        let at = 1_795_000_000_000;
        for text in ["2026-11-18T11:06:40Z", "2026-11-18T12:36:40.000+01:30"] {
            assert_eq!(parse_time(text), Ok(at), "{text}");
        }
        assert_eq!(parse_time("2026-11-18T06:06:40.250-05:00"), Ok(at + 250));
        let wrong = ["", "Z", "now", "2026-11-18", "2026-11-18T11:06:40", "2026-13-18T11:06:40Z"];
        let zones = ["2026-11-18T11:06:40+1:000", "2026-11-18T11:06:40+24:00", "+00:00", "é00:00"];
        for text in wrong.iter().chain(&zones).chain(&["1970-01-01T00:00:00+00:01"]) {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_text_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        assert_eq!(cell(&"x".repeat(100)).chars().count(), 81);
    }
}
