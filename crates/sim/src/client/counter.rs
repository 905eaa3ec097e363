//! Numbers for requests, and which of them are answered.

use std::collections::BTreeSet;

use fencepost_core::Seq;
use fencepost_core::command::{Caller, Once};

/// Numbers the requests of one caller.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    last: u64,
    /// Numbers whose answers are not known yet.
    open: BTreeSet<u64>,
}

impl Counter {
    /// A fresh number.
    pub(super) fn take(&mut self) -> Seq {
        self.last += 1;
        self.open.insert(self.last);
        Seq(self.last)
    }

    /// The mark of a request with this number: everything before the first open one is known.
    pub(super) fn mark(&self, by: Caller, seq: Seq) -> Once {
        let ack_upto = Seq(self.open.first().copied().unwrap_or(seq.0).min(seq.0));
        Once { by, seq, ack_upto }
    }

    /// The answer to this number is known, and will never be asked for again.
    pub(super) fn close(&mut self, seq: Seq) {
        self.open.remove(&seq.0);
    }
}
