//! The queues inside one client: its acquires of one name go out in the order in which they came.
//!
//! An acquire stands in the lines of all its names from the moment it is asked for until it has
//! failed, was given back, or is lost. It is let through when nobody stands before it in any of
//! them with whom it could not hold together. All lines are joined at once, so two acquires of
//! several names can never wait for each other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::io::{Mode, OpId};
use super::table::Table;

#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Never walked: what is in it is looked up by name.
    lines: HashMap<String, Line>,
    members: Table<OpId, Member>,
}

#[derive(Debug, Default)]
struct Line {
    through: Through,
    waiting: VecDeque<OpId>,
}

/// Those that were let through and stand in the service's queue, or hold. All of one mode; their
/// order does not matter. Most often there is one.
#[derive(Debug, Default)]
struct Through {
    one: Option<OpId>,
    more: Vec<OpId>,
}

#[derive(Debug)]
struct Member {
    names: Arc<[String]>,
    mode: Mode,
}

impl Through {
    fn len(&self) -> usize {
        usize::from(self.one.is_some()) + self.more.len()
    }

    fn push(&mut self, op: OpId) {
        if self.one.is_none() {
            self.one = Some(op);
        } else {
            self.more.push(op);
        }
    }

    fn remove(&mut self, op: OpId) {
        if self.one == Some(op) {
            self.one = self.more.pop();
        } else {
            self.more.retain(|&other| other != op);
        }
    }
}

impl Lines {
    /// Joins the lines of `names`. Says whether it is let through at once.
    pub(super) fn join(&mut self, op: OpId, names: &Arc<[String]>, mode: Mode) -> bool {
        let is_through = names.iter().all(|name| self.is_free(name, None, mode));
        for name in names.iter() {
            let line = self.lines.entry(name.clone()).or_default();
            if is_through {
                line.through.push(op);
            } else {
                line.waiting.push_back(op);
            }
        }
        self.members.insert(op, Member { names: Arc::clone(names), mode });
        is_through
    }

    /// Leaves all lines. Returns those that are let through because of it, in order.
    pub(super) fn leave(&mut self, op: OpId) -> Vec<OpId> {
        let mut admitted = Vec::new();
        let Some(member) = self.members.remove(&op) else { return admitted };
        let mut is_awaited = false;
        for name in member.names.iter() {
            let Some(line) = self.lines.get_mut(name) else { continue };
            line.through.remove(op);
            line.waiting.retain(|&other| other != op);
            if !line.waiting.is_empty() {
                is_awaited = true;
            } else if line.through.len() == 0 {
                self.lines.remove(name);
            }
        }
        if !is_awaited {
            return admitted;
        }
        for name in member.names.iter() {
            while let Some(first) = self.first_waiting(name) {
                if !self.let_through(first) {
                    break;
                }
                admitted.push(first);
            }
        }
        admitted
    }

    fn first_waiting(&self, name: &str) -> Option<OpId> {
        self.lines.get(name)?.waiting.front().copied()
    }

    fn let_through(&mut self, op: OpId) -> bool {
        let Some(member) = self.members.get(&op) else { return false };
        let free = member.names.iter().all(|name| self.is_free(name, Some(op), member.mode));
        if free {
            for name in member.names.iter() {
                if let Some(line) = self.lines.get_mut(name) {
                    line.waiting.pop_front();
                    line.through.push(op);
                }
            }
        }
        free
    }

    /// Whether `first` is next in line (or nobody is), and one of this mode can hold together with
    /// all that were let through.
    fn is_free(&self, name: &str, first: Option<OpId>, mode: Mode) -> bool {
        let Some(line) = self.lines.get(name) else { return first.is_none() };
        let through = line.through.one.and_then(|other| self.members.get(&other));
        let alike = through.is_none_or(|other| other.mode == mode);
        let room = match mode {
            Mode::Exclusive => 1,
            Mode::Shared => usize::MAX,
            Mode::Permits(permits) => usize::try_from(permits).unwrap_or(usize::MAX),
        };
        line.waiting.front().copied() == first && alike && line.through.len() < room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Arc<[String]> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn exclusive_ones_pass_one_by_one_in_order() {
        let mut lines = Lines::default();
        let a = names(&["a"]);
        assert!(lines.join(OpId(1), &a, Mode::Exclusive));
        assert!(!lines.join(OpId(2), &a, Mode::Exclusive));
        assert!(!lines.join(OpId(3), &a, Mode::Exclusive));
        assert_eq!(lines.leave(OpId(1)), [OpId(2)]);
        assert_eq!(lines.leave(OpId(2)), [OpId(3)]);
        assert_eq!(lines.leave(OpId(3)), []);
        assert!(lines.lines.is_empty());
    }

    #[test]
    fn shared_ones_pass_together_but_nobody_overtakes() {
        let mut lines = Lines::default();
        let a = names(&["a"]);
        assert!(lines.join(OpId(1), &a, Mode::Shared));
        assert!(lines.join(OpId(2), &a, Mode::Shared));
        assert!(!lines.join(OpId(3), &a, Mode::Exclusive));
        assert!(!lines.join(OpId(4), &a, Mode::Shared));
        assert_eq!(lines.leave(OpId(1)), []);
        assert_eq!(lines.leave(OpId(2)), [OpId(3)]);
        assert_eq!(lines.leave(OpId(3)), [OpId(4)]);
    }

    #[test]
    fn permits_are_counted() {
        let mut lines = Lines::default();
        let a = names(&["a"]);
        assert!(lines.join(OpId(1), &a, Mode::Permits(2)));
        assert!(lines.join(OpId(2), &a, Mode::Permits(2)));
        assert!(!lines.join(OpId(3), &a, Mode::Permits(2)));
        assert_eq!(lines.leave(OpId(1)), [OpId(3)]);
    }

    #[test]
    fn several_names_are_passed_only_when_all_are_free() {
        let mut lines = Lines::default();
        assert!(lines.join(OpId(1), &names(&["a"]), Mode::Exclusive));
        assert!(lines.join(OpId(2), &names(&["b"]), Mode::Exclusive));
        assert!(!lines.join(OpId(3), &names(&["a", "b"]), Mode::Exclusive));
        assert!(!lines.join(OpId(4), &names(&["b"]), Mode::Exclusive));
        assert_eq!(lines.leave(OpId(1)), []);
        assert_eq!(lines.leave(OpId(2)), [OpId(3)]);
        assert_eq!(lines.leave(OpId(3)), [OpId(4)]);
    }

    #[test]
    fn one_that_gives_up_in_the_middle_lets_the_next_pass() {
        let mut lines = Lines::default();
        let a = names(&["a"]);
        assert!(lines.join(OpId(1), &a, Mode::Shared));
        assert!(!lines.join(OpId(2), &a, Mode::Exclusive));
        assert!(!lines.join(OpId(3), &a, Mode::Shared));
        assert_eq!(lines.leave(OpId(2)), [OpId(3)]);
    }
}
