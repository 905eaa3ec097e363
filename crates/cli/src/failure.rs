//! Errors as people read them: what, why, and what to do, on a line each.
//!
//! Owns: how an error of the client becomes such a message, and which exit code it has. What to do
//! comes from the pages of `docs/errors`, which are part of the binary. Guarantees: an unknown
//! outcome is never called a failure.

use std::fmt;
use std::process::ExitCode;

use fencepost_client::Error;

/// The exit code of a command line that makes no sense.
const USAGE: u8 = 2;

/// A message of three lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    what: String,
    why: String,
    remedy: String,
    is_usage: bool,
}

impl Failure {
    /// Something did not work.
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Failure {
        let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
        Failure {
            what: what.into(),
            why: one_line(why.into()),
            remedy: one_line(remedy.into()),
            is_usage: false,
        }
    }

    /// The command line, the environment or the configuration file makes no sense.
    pub(crate) fn usage(
        what: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Failure {
        Failure { is_usage: true, ..Failure::new(what, why, remedy) }
    }

    /// What was to be done did not work because of an error of the client. `doing` completes the
    /// sentence "cannot …".
    pub(crate) fn client(doing: impl fmt::Display, error: &Error) -> Failure {
        let what = match error.is_indeterminate() {
            true => format!("it is not known whether this was done: {doing}"),
            false => format!("cannot {doing}"),
        };
        let (why, remedy) = explained(error);
        Failure::new(what, why, remedy)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}", self.what, self.why, self.remedy)
    }
}

impl std::error::Error for Failure {}

/// Lets an error of the client be told with what was being done.
pub(crate) trait Told<T> {
    /// `doing` completes the sentence "cannot …".
    fn told(self, doing: impl fmt::Display) -> Result<T, Failure>;
}

impl<T> Told<T> for Result<T, Error> {
    fn told(self, doing: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::client(doing, &error))
    }
}

/// The exit code of a verb that ended with this error.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    match error.downcast_ref::<Failure>() {
        Some(failure) if failure.is_usage => ExitCode::from(USAGE),
        _ => ExitCode::FAILURE,
    }
}

/// Why, and what to do.
pub(crate) fn explained(error: &Error) -> (String, String) {
    let asked = |why: &dyn fmt::Display, remedy: &str| (why.to_string(), remedy.to_owned());
    match error {
        Error::Rejected { code, message, .. } => {
            let remedy = remedy(code).unwrap_or_else(|| "look at the server's log".to_owned());
            (format!("{message} ({code})"), remedy)
        }
        Error::Unavailable { message } => asked(
            message,
            "look whether the servers run, and whether --endpoints or FENCEPOST_ENDPOINTS names them",
        ),
        Error::Indeterminate { message } => {
            let remedy = remedy("indeterminate");
            (message.clone(), remedy.unwrap_or_else(|| "look at the present state".to_owned()))
        }
        Error::Timeout => {
            asked(error, "wait for longer, or look with `fencepost show` who holds it")
        }
        Error::Denied { .. } => {
            asked(error, "wait for it, or look with `fencepost show` who waits")
        }
        Error::LeaseLost { .. } => {
            asked(error, "begin again with a new lease; what the old one held has ended")
        }
        Error::Ended { .. } => asked(error, "ask for the lock again"),
        Error::Compacted { revision } => {
            (error.to_string(), format!("begin at revision {revision} or later"))
        }
        Error::WrongCluster { .. } => asked(
            error,
            "look whether --endpoints or FENCEPOST_ENDPOINTS names members of one cluster only",
        ),
        Error::Damaged { .. } => asked(error, "make the backup again"),
        Error::Invalid { .. } => asked(error, "correct it, and try again"),
        Error::Protocol { .. } => {
            asked(error, "look whether the server is a Fencepost of about the same version")
        }
        Error::Closed => asked(error, "try again"),
        // The list of the client's errors may grow.
        _ => asked(error, "look at the server's log"),
    }
}

/// What the page of a code says to do, in one line.
fn remedy(code: &str) -> Option<String> {
    fencepost_server::page(code).map(|page| page.remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_three_lines_and_its_code() {
        let error = Error::Rejected {
            code: "token_mismatch".to_owned(),
            message: "held with token 7".to_owned(),
            retryable: false,
        };
        let text = Failure::client("release jobs", &error).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "cannot release jobs");
        assert_eq!(lines[1], "held with token 7 (token_mismatch)");
        assert!(lines[2].contains("operator"), "{text}");
    }

    #[test]
    fn an_unknown_outcome_is_no_failure() {
        let error = Error::Indeterminate { message: "the connection was lost".to_owned() };
        let text = Failure::client("write a key", &error).to_string();
        assert!(text.starts_with("it is not known whether this was done: write a key"), "{text}");
    }
}
