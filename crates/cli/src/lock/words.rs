//! What a supervisor and its watchdog say to each other: one word and its numbers on a line.

use std::fmt;

use rustix::process::Pid;

use super::timeline::Moment;

/// What the supervisor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The process group to watch over.
    Group(Pid),
    /// Without a later word, stop it at the first moment and kill it at the second.
    Until { stop: Moment, kill: Moment },
    /// The command has ended, and there is nothing left to watch over.
    Finished,
}

/// What the watchdog says once it runs, and again once it knows the group and its deadline.
pub(crate) const READY: &str = "ready";
pub(crate) const WATCHING: &str = "watching";

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Group(group) => write!(f, "group {}", group.as_raw_pid()),
            Word::Until { stop, kill } => write!(f, "until {stop} {kill}"),
            Word::Finished => f.write_str("finished"),
        }
    }
}

impl Word {
    /// Nothing if it cannot be understood.
    pub(crate) fn parse(line: &str) -> Option<Word> {
        let mut parts = line.split(' ');
        let word = match parts.next()? {
            "group" => Word::Group(group(parts.next()?)?),
            "until" => Word::Until { stop: moment(parts.next()?)?, kill: moment(parts.next()?)? },
            "finished" => Word::Finished,
            _ => return None,
        };
        parts.next().is_none().then_some(word)
    }
}

/// Never 0 or 1: a signal to the one is a signal to oneself, to the other one to everybody.
fn group(text: &str) -> Option<Pid> {
    let number: i32 = text.parse().ok()?;
    if number > 1 { Pid::from_raw(number) } else { None }
}

fn moment(text: &str) -> Option<Moment> {
    text.parse().ok().map(Moment::from_micros)
}

/// Takes whole lines out of what was read so far.
pub(crate) fn take_line(buffer: &mut Vec<u8>) -> Option<String> {
    let end = buffer.iter().position(|&byte| byte == b'\n')?;
    let line: Vec<u8> = buffer.drain(..=end).collect();
    Some(String::from_utf8_lossy(&line[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let group = Pid::from_raw(4321).expect("not zero");
        let (stop, kill) = (Moment::from_micros(17), Moment::from_micros(23));
        for word in [Word::Group(group), Word::Until { stop, kill }, Word::Finished] {
            assert_eq!(Word::parse(&word.to_string()), Some(word));
        }
    }

    #[test]
    fn nonsense_is_not_taken_for_a_word() {
        for line in ["", "group", "group 0", "group 1", "group -5", "until 5", "until 1 2 3", "no"]
        {
            assert_eq!(Word::parse(line), None, "{line}");
        }
    }

    #[test]
    fn lines_come_in_pieces() {
        let mut buffer = b"group 8\nuntil 5".to_vec();
        assert_eq!(take_line(&mut buffer).as_deref(), Some("group 8"));
        assert_eq!(take_line(&mut buffer), None);
        buffer.extend(b" 6\n");
        assert_eq!(take_line(&mut buffer).as_deref(), Some("until 5 6"));
        assert!(buffer.is_empty());
    }
}
