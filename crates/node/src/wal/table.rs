//! All witnesses in one record, which each segment begins with after its head.

use std::collections::BTreeMap;

use super::item::{Item, Witness};
use super::record;

/// The record of all witnesses, and its length without padding; empty if there are none.
pub(super) fn record_of(witnesses: &BTreeMap<u64, Witness>) -> (Vec<u8>, u32) {
    let mut table = Vec::new();
    if witnesses.is_empty() {
        return (table, 0);
    }
    record::begin(&mut table);
    for witness in witnesses.values() {
        Item::Witness(*witness).put(&mut table);
    }
    let len = record::pad(&mut table).expect("a table of members is short");
    (table, len)
}
