//! The removal of a range of keys, command by command.
//!
//! Owns: what is left of the range, and what was removed so far. Guarantees: a removal that failed
//! after its first command is called unknown. Refuses: to keep more of the removed keys than one
//! answer can carry.

use fencepost_core::command::{Action, DeleteRange};
use fencepost_core::event::KeyValue;
use fencepost_core::outcome::DeletedPart;
use fencepost_core::range::KeyRange;
use fencepost_core::{Key, Outcome};
use fencepost_node::io::ProposeError;
use fencepost_proto::v1;

use crate::error::Failure;
use crate::house::{House, unexpected};
use crate::limits::RANGE_BYTES_MAX;
use crate::show;

/// A removal that may take several commands, each at a revision of its own.
pub(crate) struct Deletion {
    range: KeyRange,
    prev: bool,
    deleted: u64,
    prev_kvs: Vec<KeyValue>,
    prev_bytes: usize,
    is_cut: bool,
}

impl Deletion {
    pub(crate) fn new(delete: DeleteRange) -> Deletion {
        let DeleteRange { range, prev } = delete;
        Deletion { range, prev, deleted: 0, prev_kvs: Vec::new(), prev_bytes: 0, is_cut: false }
    }

    /// The next command.
    pub(crate) fn action(&self) -> Action {
        let prev = self.prev && !self.is_cut;
        Action::DeleteRange(DeleteRange { range: self.range.clone(), prev })
    }

    /// Takes what came of the last command. Says whether that was the whole range.
    pub(crate) fn take(&mut self, outcome: Outcome) -> Result<bool, Failure> {
        match outcome {
            Outcome::Deleted(count, removed) => {
                self.add(count, removed);
                Ok(true)
            }
            Outcome::DeletedPart(part) => {
                let DeletedPart { count, removed, next } = *part;
                self.add(count, removed);
                self.go_on_from(next);
                Ok(false)
            }
            Outcome::Rejected(reason) => Err(self.failed(reason.into())),
            _ => Err(self.failed(unexpected())),
        }
    }

    fn go_on_from(&mut self, next: Key) {
        let range = std::mem::replace(&mut self.range, KeyRange::One(Key::default()));
        self.range = range.starting_at(next);
    }

    fn add(&mut self, count: u64, removed: Vec<KeyValue>) {
        self.deleted += count;
        for kv in removed {
            self.prev_bytes += kv.key.len() + kv.value.len() + KEY_VALUE_BYTES;
            self.is_cut |= !self.prev_kvs.is_empty() && self.prev_bytes > RANGE_BYTES_MAX;
            if self.is_cut {
                return;
            }
            self.prev_kvs.push(kv);
        }
    }

    /// What to call a failure of the last command: after others have removed keys, the outcome of
    /// the whole is unknown.
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        match self.deleted {
            0 => failure,
            _ => ProposeError::Indeterminate.into(),
        }
    }

    /// The native answer, without its header.
    pub(crate) fn show(&self) -> v1::DeleteRangeResponse {
        let prev_kvs = self.prev_kvs.iter().map(show::key_val).collect();
        let (deleted, prev_kvs_cut) = (self.deleted, self.is_cut);
        v1::DeleteRangeResponse { header: None, deleted, prev_kvs, prev_kvs_cut }
    }

    /// How many keys were removed.
    pub(crate) fn deleted(&self) -> u64 {
        self.deleted
    }
}

/// What a key takes beside its bytes, roughly.
const KEY_VALUE_BYTES: usize = 32;

impl House {
    /// Removes a range of keys, in as many commands as that takes.
    pub(crate) async fn delete(
        &self,
        delete: DeleteRange,
    ) -> Result<(v1::Header, Deletion), Failure> {
        let mut deletion = Deletion::new(delete);
        loop {
            let acted = self.act(deletion.action()).await;
            let (header, outcome) = acted.map_err(|failure| deletion.failed(failure))?;
            if deletion.take(outcome)? {
                return Ok((header, deletion));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use fencepost_core::Value;

    use super::*;

    fn part(count: u64, next: &str) -> Outcome {
        let part = DeletedPart { count, removed: Vec::new(), next: Key::from(next) };
        Outcome::DeletedPart(Box::new(part))
    }

    #[test]
    fn deletion_goes_on_where_the_last_command_ended() {
        let range = KeyRange::prefix(b"k");
        let mut deletion = Deletion::new(DeleteRange { range, prev: false });
        assert!(!deletion.take(part(7, "k5")).expect("it goes on"));
        let range = KeyRange::Span(Key::from("k5"), Key::from("l"));
        assert_eq!(deletion.action(), Action::DeleteRange(DeleteRange { range, prev: false }));
        assert!(deletion.take(Outcome::Deleted(2, Vec::new())).expect("it is done"));
        assert_eq!(deletion.deleted(), 9);
    }

    #[test]
    fn failure_after_the_first_command_is_unknown() {
        let range = KeyRange::prefix(b"k");
        let mut deletion = Deletion::new(DeleteRange { range, prev: false });
        assert_eq!(deletion.failed(ProposeError::NoLeader.into()).code, "no_leader");
        deletion.take(part(7, "k5")).expect("it goes on");
        assert_eq!(deletion.failed(ProposeError::NoLeader.into()).code, "indeterminate");
    }

    #[test]
    fn removed_keys_beyond_one_answer_are_cut() {
        let kv = |size: usize| KeyValue {
            key: Key::from("k"),
            value: Value::from("x".repeat(size).as_str()),
            ..KeyValue::default()
        };
        let range = KeyRange::prefix(b"k");
        let mut deletion = Deletion::new(DeleteRange { range, prev: true });
        let removed = vec![kv(1), kv(RANGE_BYTES_MAX), kv(1)];
        deletion.take(Outcome::Deleted(3, removed)).expect("it is done");
        let shown = deletion.show();
        assert_eq!((shown.deleted, shown.prev_kvs.len(), shown.prev_kvs_cut), (3, 1, true));
    }
}
