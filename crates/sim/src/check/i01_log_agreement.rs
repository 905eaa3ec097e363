//! I1, log agreement: whoever applies an index applies the same bytes, proposed in the same term,
//! as the first member that applied it.

use super::oracle::Stored;
use super::{Check, broken};

/// Compares an entry that a member applies with what stands in the reference.
pub(super) fn same(member: u64, index: u64, known: &Stored, seen: (u64, i32, &[u8])) -> Check {
    let (term, kind, data) = seen;
    if known.term != term || known.kind != kind {
        return Err(broken(
            "I1",
            format!(
                "member {member} applies entry {index} of term {term} and kind {kind}, others \
                 applied one of term {} and kind {}",
                known.term, known.kind
            ),
        ));
    }
    if *known.data != *data {
        let what = format!("member {member} applies other bytes at {index} than others did");
        return Err(broken("I1", what));
    }
    Ok(())
}
