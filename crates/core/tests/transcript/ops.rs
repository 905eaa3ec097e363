//! Puts, deletions, reads and the transactions made of them.

use fencepost_core::command::{Compare, CompareTarget, DeleteRange, Op, Put, Relation, Txn};
use fencepost_core::range::{Order, RangeQuery, SortBy};
use fencepost_core::{LeaseId, Revision};

use super::words::{Parsed, Words, key_range, lease_id, number};

pub(crate) fn put(words: &mut Words) -> Parsed<Put> {
    let key = words.next("a key")?.as_str().into();
    let value = words.next("a value")?.as_str().into();
    let lease = words.option("lease").map_or(Ok(LeaseId::NONE), |text| lease_id(&text))?;
    let (ignore_value, ignore_lease) = (words.flag("keep-value"), words.flag("keep-lease"));
    Ok(Put { key, value, lease, prev: words.flag("prev"), ignore_value, ignore_lease })
}

pub(crate) fn delete(words: &mut Words) -> Parsed<DeleteRange> {
    let range = key_range(&words.next("the keys")?);
    Ok(DeleteRange { range, prev: words.flag("prev") })
}

pub(crate) fn query(words: &mut Words) -> Parsed<RangeQuery> {
    let range = key_range(&words.next("the keys")?);
    let order = match words.option("order").as_deref() {
        None => Order::Unsorted,
        Some("asc") => Order::Ascending,
        Some("desc") => Order::Descending,
        Some(other) => return Err(format!("no order is called `{other}`")),
    };
    let sort_by = match words.option("sort").as_deref() {
        None | Some("key") => SortBy::Key,
        Some("version") => SortBy::Version,
        Some("create") => SortBy::Create,
        Some("mod") => SortBy::Mod,
        Some("value") => SortBy::Value,
        Some(other) => return Err(format!("nothing is sorted by `{other}`")),
    };
    Ok(RangeQuery {
        range,
        limit: words.number("limit")?,
        order,
        sort_by,
        mod_min: words.revision("mod-min")?,
        mod_max: words.revision("mod-max")?,
        create_min: words.revision("create-min")?,
        create_max: words.revision("create-max")?,
        keys_only: words.flag("keys-only"),
        count_only: words.flag("count-only"),
    })
}

/// `if`, `then` and `else`, each with one comparison or operation, as often as needed.
pub(crate) fn txn(words: &mut Words) -> Parsed<Txn> {
    let mut txn = Txn::default();
    while let Some(word) = words.pop() {
        let clause = clause(words)?;
        match word.as_str() {
            "if" => txn.compares.push(compare(clause)?),
            "then" => txn.success.push(op(clause)?),
            "else" => txn.failure.push(op(clause)?),
            other => return Err(format!("`{other}` instead of if, then or else")),
        }
    }
    Ok(txn)
}

/// The words up to the next clause. Braces keep the clauses of an inner transaction together.
fn clause(words: &mut Words) -> Parsed<Words> {
    let mut clause = Vec::new();
    let mut depth = 0_usize;
    let mut rest = Vec::new();
    while let Some(word) = words.pop() {
        match word.as_str() {
            "{" => depth += 1,
            "}" => depth = depth.checked_sub(1).ok_or("a brace too many")?,
            "if" | "then" | "else" if depth == 0 => {
                rest.push(word);
                break;
            }
            _ => {}
        }
        clause.push(word);
    }
    if depth > 0 {
        return Err("a brace is not closed".into());
    }
    while let Some(word) = words.pop() {
        rest.push(word);
    }
    *words = Words::from_vec(rest);
    Ok(Words::from_vec(clause))
}

fn op(mut words: Words) -> Parsed<Op> {
    let op = match words.next("an operation")?.as_str() {
        "put" => Op::Put(put(&mut words)?),
        "del" => Op::DeleteRange(delete(&mut words)?),
        "get" => Op::Range(query(&mut words)?),
        "txn" => Op::Txn(Box::new(txn(&mut inside_braces(&mut words)?)?)),
        other => return Err(format!("`{other}` is no operation of a transaction")),
    };
    words.finish()?;
    Ok(op)
}

fn inside_braces(words: &mut Words) -> Parsed<Words> {
    let mut inner = Vec::new();
    while let Some(word) = words.pop() {
        inner.push(word);
    }
    match inner.as_slice() {
        [open, inside @ .., close] if open == "{" && close == "}" => {
            Ok(Words::from_vec(inside.to_vec()))
        }
        _ => Err("an inner transaction stands in braces".into()),
    }
}

fn compare(mut words: Words) -> Parsed<Compare> {
    let target = words.next("what to compare")?;
    let range = key_range(&words.next("the keys")?);
    let relation = match words.next("a relation")?.as_str() {
        "=" => Relation::Equal,
        "!=" => Relation::NotEqual,
        ">" => Relation::Greater,
        "<" => Relation::Less,
        other => return Err(format!("`{other}` is no relation")),
    };
    let with = words.next("what to compare with")?;
    words.finish()?;
    let target = match target.as_str() {
        "version" => CompareTarget::Version(number(&with)?),
        "create" => CompareTarget::Create(Revision(number(&with)?)),
        "mod" => CompareTarget::Mod(Revision(number(&with)?)),
        "value" => CompareTarget::Value(with.as_str().into()),
        "lease" => CompareTarget::Lease(lease_id(&with)?),
        other => return Err(format!("`{other}` cannot be compared")),
    };
    Ok(Compare { range, relation, target })
}
