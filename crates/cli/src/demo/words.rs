//! What a worker of the demo says, and what it is told: a line each.

use serde::{Deserialize, Serialize};

/// What a worker says.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It waits for the lock.
    Waits,
    /// It has the lock.
    Holds { token: i64 },
    /// It has read this from the store.
    Reads { data: String },
    /// It has looked whether it still has the lock. It writes next, without looking again.
    Checks { is_valid: bool },
    /// It has written, and this came of it.
    Wrote { data: String, refusal: Option<String> },
    /// What its lock looks like after the write.
    Stands { is_valid: bool },
    /// It has given the lock back.
    Released,
}

impl Said {
    /// Reads a line, if it is one of these.
    pub(super) fn read(line: &str) -> Option<Said> {
        serde_json::from_str(line).ok()
    }

    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers can be written as JSON")
    }
}

/// What a worker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Take the next step: read, and then look at the lock.
    Go,
    /// Write what was meant to be written.
    Write,
    /// Give the lock back, and end.
    Finish,
    /// Take the lock anew, read again, and wait for the order to write.
    Again,
}

impl Order {
    const ALL: [Order; 4] = [Order::Go, Order::Write, Order::Finish, Order::Again];

    pub(super) fn read(line: &str) -> Option<Order> {
        Order::ALL.into_iter().find(|order| order.line() == line.trim())
    }

    pub(super) fn line(self) -> &'static str {
        match self {
            Order::Go => "go",
            Order::Write => "write",
            Order::Finish => "finish",
            Order::Again => "again",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let all = [
            Said::Waits,
            Said::Holds { token: 7 },
            Said::Wrote { data: "a\n\"b\"".to_owned(), refusal: Some("no".to_owned()) },
        ];
        for said in all {
            assert_eq!(said.line().lines().count(), 1);
            assert_eq!(Said::read(&said.line()), Some(said));
        }
        assert_eq!(Said::read("error: something else"), None);
        for order in Order::ALL {
            assert_eq!(Order::read(&format!("{}\n", order.line())), Some(order));
        }
        assert_eq!(Order::read(""), None);
    }
}
