//! The queues inside one client: its acquires of one name go out in the order in which they came.
//!
//! An acquire stands in the lines of all its names from the moment it is asked for until it has
//! failed, was given back, or is lost. It is let through when nobody stands before it in any of
//! them with whom it could not hold together. All lines are joined at once, so two acquires of
//! several names can never wait for each other.

use std::collections::{BTreeMap, VecDeque};

use super::io::{Mode, OpId};

#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: BTreeMap<String, Line>,
    members: BTreeMap<OpId, Member>,
}

#[derive(Debug, Default)]
struct Line {
    /// Those that were let through and stand in the service's queue, or hold.
    through: Vec<OpId>,
    waiting: VecDeque<OpId>,
}

#[derive(Debug)]
struct Member {
    names: Vec<String>,
    mode: Mode,
}

impl Lines {
    /// Joins the lines of `names`. Says whether it is let through at once.
    pub(super) fn join(&mut self, op: OpId, names: &[String], mode: Mode) -> bool {
        self.members.insert(op, Member { names: names.to_vec(), mode });
        for name in names {
            self.lines.entry(name.clone()).or_default().waiting.push_back(op);
        }
        self.let_through(op)
    }

    /// Leaves all lines. Returns those that are let through because of it, in order.
    pub(super) fn leave(&mut self, op: OpId) -> Vec<OpId> {
        let Some(member) = self.members.remove(&op) else { return Vec::new() };
        for name in &member.names {
            if let Some(line) = self.lines.get_mut(name) {
                line.through.retain(|&other| other != op);
                line.waiting.retain(|&other| other != op);
                if line.through.is_empty() && line.waiting.is_empty() {
                    self.lines.remove(name);
                }
            }
        }
        let mut admitted = Vec::new();
        for name in &member.names {
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
        let free = member.names.iter().all(|name| self.is_free(name, op, member.mode));
        if free {
            for name in &member.names {
                if let Some(line) = self.lines.get_mut(name) {
                    line.waiting.pop_front();
                    line.through.push(op);
                }
            }
        }
        free
    }

    /// Whether `op` is next in line, and can hold together with all that were let through.
    fn is_free(&self, name: &str, op: OpId, mode: Mode) -> bool {
        let Some(line) = self.lines.get(name) else { return false };
        let alike = line
            .through
            .iter()
            .all(|other| self.members.get(other).is_some_and(|member| member.mode == mode));
        let room = match mode {
            Mode::Exclusive => 1,
            Mode::Shared => usize::MAX,
            Mode::Permits(permits) => usize::try_from(permits).unwrap_or(usize::MAX),
        };
        line.waiting.front() == Some(&op) && alike && line.through.len() < room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
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
