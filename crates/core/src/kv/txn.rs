//! Compares, then does one of two lists of operations, all at one revision.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::budget::Budget;
use crate::command::{Op, Txn};
use crate::ids::Key;
use crate::outcome::{OpAnswer, Outcome, Reason, TxnAnswer};
use crate::range::{KeyRange, RangeAnswer};
use crate::state::State;
use crate::step::Step;

impl Txn {
    /// Whether it may write a key, in either list or in a transaction inside.
    pub fn has_put(&self) -> bool {
        self.success.iter().chain(&self.failure).any(|op| match op {
            Op::Put(_) => true,
            Op::DeleteRange(_) | Op::Range(_) => false,
            Op::Txn(txn) => txn.has_put(),
        })
    }

    /// Whether it may visit more keys than it names.
    pub fn has_range(&self) -> bool {
        let mut ops = self.success.iter().chain(&self.failure);
        self.compares.iter().any(|compare| !compare.range.is_one())
            || ops.any(|op| match op {
                Op::Put(_) => false,
                Op::DeleteRange(delete) => !delete.range.is_one(),
                Op::Range(query) => !query.range.is_one(),
                Op::Txn(txn) => txn.has_range(),
            })
    }
}

/// Which branch of a transaction is taken, and of those inside it, decided before any write.
pub(crate) struct Path {
    succeeded: bool,
    inner: Vec<Path>,
}

impl Step<'_> {
    pub(crate) fn txn(&mut self, txn: Txn) -> Result<Outcome, Reason> {
        let mut budget = Budget::at_level(self.state.feature_level);
        let path = self.state.path_of(&txn, &mut budget);
        let path = path.and_then(|path| {
            self.check_puts(&txn, &path)?;
            if budget.is_bounded() {
                self.state.check_cost(&txn, &path, &mut budget)?;
                self.state.check_txn_growth(&txn, &path)?;
            }
            Ok(path)
        });
        self.state.work.key_visits += budget.visited();
        let path = path?;
        Ok(Outcome::Txn(Box::new(self.run_txn(txn, path))))
    }

    /// All puts on the path are checked first: a transaction is done whole or not at all.
    fn check_puts(&self, txn: &Txn, path: &Path) -> Result<(), Reason> {
        let mut inner = path.inner.iter();
        for op in path.branch(txn) {
            match op {
                Op::Put(put) => self.check_put(put)?,
                Op::Txn(txn) => {
                    let path = inner.next().expect("each inner transaction has its path");
                    self.check_puts(txn, path)?;
                }
                Op::DeleteRange(_) | Op::Range(_) => {}
            }
        }
        Ok(())
    }

    fn run_txn(&mut self, txn: Txn, path: Path) -> TxnAnswer {
        let mut inner = path.inner.into_iter();
        let ops = if path.succeeded { txn.success } else { txn.failure };
        let mut answers = Vec::with_capacity(ops.len());
        for op in ops {
            answers.push(match op {
                Op::Put(put) => OpAnswer::Put(self.put_checked(put)),
                Op::DeleteRange(delete) => {
                    let (count, removed) = self.delete_keys(&delete);
                    OpAnswer::Deleted(count, removed)
                }
                Op::Range(query) if self.answers => {
                    let answer = self.state.range(&query);
                    self.state.work.key_visits += answer.count;
                    OpAnswer::Range(answer)
                }
                Op::Range(_) => OpAnswer::Range(RangeAnswer::default()),
                Op::Txn(txn) => {
                    let path = inner.next().expect("each inner transaction has its path");
                    OpAnswer::Txn(self.run_txn(*txn, path))
                }
            });
        }
        TxnAnswer { succeeded: path.succeeded, answers }
    }
}

impl State {
    /// Inner comparisons look at the state before the outermost transaction, as in etcd.
    fn path_of(&self, txn: &Txn, budget: &mut Budget) -> Result<Path, Reason> {
        let mut succeeded = true;
        for compare in &txn.compares {
            if !self.compare_holds(compare, budget)? {
                succeeded = false;
                break;
            }
        }
        let mut path = Path { succeeded, inner: Vec::new() };
        for op in path.branch(txn) {
            if let Op::Txn(inner) = op {
                path.inner.push(self.path_of(inner, budget)?);
            }
        }
        Ok(path)
    }

    /// Refuses a transaction that costs more than a command may from feature level 2 on, as the
    /// state is now. A leader asks at level 1, where the log has no such rule yet.
    pub fn check_txn_cost(&self, txn: &Txn) -> Result<(), Reason> {
        let mut budget = Budget::at_level(2);
        let path = self.path_of(txn, &mut budget)?;
        self.check_cost(txn, &path, &mut budget)
    }
}

impl Path {
    /// The paths of the transactions inside, in their order.
    pub(crate) fn inner(&self) -> impl Iterator<Item = &Path> {
        self.inner.iter()
    }

    pub(crate) fn branch<'t>(&self, txn: &'t Txn) -> &'t [Op] {
        if self.succeeded { &txn.success } else { &txn.failure }
    }
}

/// What a list of operations would write.
#[derive(Default)]
struct Writes<'t> {
    puts: BTreeSet<&'t Key>,
    deletes: Vec<&'t KeyRange>,
}

impl<'t> Writes<'t> {
    fn deletes(&self, key: &Key) -> bool {
        self.deletes.iter().any(|range| range.contains(key))
    }

    fn add_put(&mut self, key: &'t Key) -> Result<(), Reason> {
        if self.deletes(key) || !self.puts.insert(key) {
            return Err(Reason::KeyRepeated);
        }
        Ok(())
    }
}

/// Refuses a transaction that would write a key twice: within one revision a key has one value.
/// The two branches of a transaction exclude each other and may write the same key.
pub(crate) fn check_repeats(txn: &Txn) -> Result<(), Reason> {
    writes_of(&txn.success)?;
    writes_of(&txn.failure)?;
    Ok(())
}

fn writes_of(ops: &[Op]) -> Result<Writes<'_>, Reason> {
    let mut writes = Writes::default();
    for op in ops {
        if let Op::DeleteRange(delete) = op {
            writes.deletes.push(&delete.range);
        }
    }
    for op in ops {
        let Op::Txn(inner) = op else { continue };
        let success = writes_of(&inner.success)?;
        let failure = writes_of(&inner.failure)?;
        for &key in &success.puts {
            writes.add_put(key)?;
        }
        for &key in failure.puts.difference(&success.puts) {
            writes.add_put(key)?;
        }
        writes.deletes.extend(success.deletes);
        writes.deletes.extend(failure.deletes);
    }
    for op in ops {
        if let Op::Put(put) = op {
            writes.add_put(&put.key)?;
        }
    }
    Ok(writes)
}
