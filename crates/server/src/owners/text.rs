//! Lock commands as text, and their results in words.

use std::sync::Arc;

use fencepost_core::Reason;

use super::{Answer, Answered, Ask, Told, Turn, serve};
use crate::arrival::Arrival;
use crate::house::House;

/// Has a command done that is written as text.
pub(crate) async fn text(house: &Arc<House>, line: &str, arrival: Option<&Arrival>) -> Answer {
    match Ask::from_text(line) {
        Ok(ask) => serve(house, ask, arrival, Turn::default()).await,
        Err(reason) => Answered::Err(reason.into()).into(),
    }
}

/// What came of a command, in the words that people know: `Acquired`, `Denied(Lock held by …)`.
pub(crate) fn tell_in_words(told: &Told) -> String {
    match told {
        Told::Acquired(_) => "Acquired".to_owned(),
        Told::Renewed(_) => "Renewed".to_owned(),
        Told::MustStop(grant) => {
            format!("Renewed(An operator has asked for it: stop within {})", grant.remaining)
        }
        Told::Released(_) => "Released".to_owned(),
        Told::Denied(denial) => format!("Denied({denial})"),
        Told::NotFound => "NotFound".to_owned(),
        Told::TimedOut(owner) => format!("Denied(Lock held by {owner})"),
    }
}

/// Reads any text as a command, and whatever was read once more after writing it.
pub(crate) fn fuzz(bytes: &[u8]) {
    let line = String::from_utf8_lossy(bytes);
    match fencepost_core::text::parse(&line) {
        Ok(action) => {
            let again = fencepost_core::text::format(&action).expect("what was read has a form");
            assert_eq!(fencepost_core::text::parse(&again), Ok(action), "a command has changed");
        }
        Err(reason) => assert_eq!(reason, Reason::InvalidCommand(line.clone().into_owned())),
    }
}
