//! What others see beside a lock: who holds it, and what for.
//!
//! Owns: the text that goes with a lock unless another one is given, and how such texts are shown.
//! Guarantees: it is short, whatever the command and the machine are called. Refuses: the arguments of
//! the command, because they may hold passwords, and everybody who can read the locks sees the text.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::process::{getpid, getuid};
use rustix::system::uname;

use crate::words::cell;

/// Letters of each part: host, user, command.
const PART_MAX: usize = 64;

/// The text for a lock that this process takes: `alice@web1, pid 4711, running backup`.
pub(crate) fn own(command: &[OsString]) -> String {
    let user = ["USER", "LOGNAME"].into_iter().find_map(std::env::var_os);
    let user = user.filter(|user| !user.is_empty());
    let user = user.map_or_else(|| format!("uid {}", getuid().as_raw()), |user| part(&user));
    let host = part(OsStr::new(&*uname().nodename().to_string_lossy()));
    let pid = getpid().as_raw_pid();
    // With its path it would be longer, and no clearer.
    let program = command.first().and_then(|program| Path::new(program).file_name());
    match program {
        Some(program) => format!("{user}@{host}, pid {pid}, running {}", part(program)),
        None => format!("{user}@{host}, pid {pid}"),
    }
}

/// A name from the system, which need not be text.
fn part(name: &OsStr) -> String {
    name.to_string_lossy().chars().filter(|letter| !letter.is_control()).take(PART_MAX).collect()
}

/// A holder by its name, and by its text if there is one.
pub(crate) fn shown(client: &str, metadata: &[u8]) -> String {
    match metadata {
        [] => cell(client),
        text => format!("{} ({})", cell(client), cell(&String::from_utf8_lossy(text))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn the_text_names_process_and_program_but_no_arguments() {
        let command = ["/usr/bin/mysql", "-psecret"].map(OsString::from);
        let text = own(&command);
        let pid = std::process::id();
        assert!(text.ends_with(&format!(", pid {pid}, running mysql")), "{text}");
        assert!(text.contains('@') && !text.contains("secret"), "{text}");
        assert!(own(&[]).ends_with(&format!(", pid {pid}")));
    }

    #[test]
    fn no_name_makes_it_long_or_moves_the_cursor() {
        let odd = [b"\x1b[2J\n\xff".repeat(1_000)].map(|name| OsStr::from_bytes(&name).to_owned());
        let text = own(&odd);
        assert!(text.chars().count() < 4 * PART_MAX, "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }

    #[test]
    fn a_holder_is_shown_with_its_text() {
        assert_eq!(shown("a", b""), "a");
        assert_eq!(shown("a", b"alice\n"), "a (alice\\n)");
        assert!(shown("a", &[b'x'; 10_000]).len() < 100);
    }
}
