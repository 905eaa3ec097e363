//! The comparisons of a transaction.

use core::cmp::Ordering;

use crate::budget::Budget;
use crate::command::{Compare, CompareTarget, Relation};
use crate::ids::{LeaseId, Revision};
use crate::outcome::Reason;
use crate::range::KeyRange;
use crate::record::Record;
use crate::state::State;

impl State {
    /// Whether a comparison holds: for every key of its range, or for the one key that it names,
    /// which is compared as zero if it is not there. Refuses to visit more keys, and to compare
    /// more bytes, than the budget allows.
    pub(crate) fn compare_holds(
        &self,
        compare: &Compare,
        budget: &mut Budget,
    ) -> Result<bool, Reason> {
        budget.visit(1)?;
        if let KeyRange::One(key) = &compare.range {
            let record = self.keys.get(key).map(|record| &**record);
            budget.carry(record.map_or(0, |record| compared_bytes(record, compare)))?;
            return Ok(relates(record, compare));
        }
        let Some(bounds) = compare.range.bounds() else {
            return Ok(relates(None, compare));
        };
        let mut records = self.keys.range::<[u8], _>(bounds).map(|(_, record)| record).peekable();
        if records.peek().is_none() {
            return Ok(relates(None, compare));
        }
        for record in records {
            budget.visit(1)?;
            budget.carry(compared_bytes(record, compare))?;
            if !relates(Some(record), compare) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Bytes that are looked at to compare a record.
fn compared_bytes(record: &Record, compare: &Compare) -> u64 {
    match &compare.target {
        CompareTarget::Value(value) => record.value.len().min(value.len()) as u64,
        _ => 0,
    }
}

fn relates(record: Option<&Record>, compare: &Compare) -> bool {
    let ordering = match (&compare.target, record) {
        (CompareTarget::Version(version), _) => {
            record.map_or(0, |record| record.version).cmp(version)
        }
        (CompareTarget::Create(revision), _) => {
            record.map_or(Revision::NONE, |record| record.created).cmp(revision)
        }
        (CompareTarget::Mod(revision), _) => {
            record.map_or(Revision::NONE, |record| record.modified).cmp(revision)
        }
        (CompareTarget::Lease(lease), _) => {
            record.map_or(LeaseId::NONE, |record| record.lease).cmp(lease)
        }
        (CompareTarget::Value(value), Some(record)) => (*record.value).cmp(&**value),
        // A value that is not there compares with nothing, not even as different.
        (CompareTarget::Value(_), None) => return false,
    };
    match compare.relation {
        Relation::Equal => ordering == Ordering::Equal,
        Relation::NotEqual => ordering != Ordering::Equal,
        Relation::Greater => ordering == Ordering::Greater,
        Relation::Less => ordering == Ordering::Less,
    }
}
