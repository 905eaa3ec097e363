//! Refuses requests that could never be served, whatever the state.
//!
//! These checks come before everything else and look at nothing but the request and the limits,
//! so a bad request leaves no trace, not even in the caller's window of answers.

use crate::command::{
    Acquire, AcquireAs, AcquireMany, Action, Caller, Command, DeleteRange, ForceRelease,
    LeaseGrant, Mode, Op, Put, Terms, Txn, Wait,
};
use crate::ids::{ClientId, Key, LockName, Millis, Seq, Value};
use crate::kv::check_repeats;
use crate::limits::Limits;
use crate::outcome::Reason;
use crate::range::KeyRange;

type Check = Result<(), Reason>;

pub(crate) fn check(command: &Command, limits: &Limits) -> Check {
    if !command.namespace.is_empty() && command.namespace.as_str() != "default" {
        return Err(Reason::NamespaceUnknown);
    }
    if let Some(once) = &command.once {
        if once.seq == Seq::NONE {
            return Err(Reason::SeqZero);
        }
        if let Caller::Client(id) = &once.by {
            client(id, limits)?;
        }
    }
    action(&command.action, limits)
}

fn action(action: &Action, limits: &Limits) -> Check {
    match action {
        Action::LeaseGrant(grant) => lease_grant(grant, limits),
        Action::LeaseRenew(renew) => {
            at_most(renew.renewals.len(), limits.renewals_max, Reason::TooManyRenewals)
        }
        Action::Put(one) | Action::PutPlain(one) => put(one, limits),
        Action::DeleteRange(delete) => delete_range(delete, limits),
        Action::Txn(one) => {
            let mut left = limits.txn_tree_ops_max;
            txn(one, limits, 1, &mut left)?;
            check_repeats(one)
        }
        Action::Acquire(one) => acquire(one, limits),
        Action::AcquireMany(many) => acquire_many(many, limits),
        Action::Release(release) => name(&release.name, limits),
        Action::ReleaseMany(release) => names(release.names.iter(), limits),
        Action::ForceRelease(force) => force_release(force, limits),
        Action::DeleteLock(delete) => name(&delete.name, limits),
        Action::AcquireAs(one) => acquire_as(one, limits),
        Action::RenewAs(one) => renew_as(&one.name, &one.client, one.ttl, limits),
        Action::RenewHeld(one) => renew_as(&one.name, &one.client, one.ttl, limits),
        Action::ReleaseAs(one) => owner_and_name(&one.name, &one.client, limits),
        Action::ReleaseHeld(one) => owner_and_name(&one.name, &one.client, limits),
        Action::PublishKey(publish) => span(publish.after, limits),
        Action::RotateKey(rotate) => span(rotate.after, limits),
        Action::SetLimits(new) if !new.are_sound() => Err(Reason::LimitsUnsound),
        Action::LeaseRevoke(_)
        | Action::Disconnect(_)
        | Action::Compact(_)
        | Action::Cancel(_)
        | Action::CallsAnswered(_)
        | Action::NodeLost(_)
        | Action::SetLimits(_)
        | Action::ChangeLimits(_)
        | Action::RaiseFeatureLevel(_)
        | Action::RetireKeys(_)
        | Action::RevokeKey(_)
        | Action::Skipped(_) => Ok(()),
    }
}

fn at_most(len: usize, max: u32, refuse: fn(u64, u32) -> Reason) -> Check {
    if len > max as usize { Err(refuse(len as u64, max)) } else { Ok(()) }
}

fn name(name: &LockName, limits: &Limits) -> Check {
    if name.is_empty() {
        return Err(Reason::NameEmpty);
    }
    at_most(name.len(), limits.name_len_max(), Reason::NameTooLong)
}

fn names<'a>(all: impl Iterator<Item = &'a LockName> + Clone, limits: &Limits) -> Check {
    let count = all.clone().count();
    if count == 0 {
        return Err(Reason::NamesEmpty);
    }
    at_most(count, limits.names_per_acquire_max, Reason::TooManyNames)?;
    for (at, one) in all.clone().enumerate() {
        name(one, limits)?;
        if all.clone().take(at).any(|earlier| earlier == one) {
            return Err(Reason::NameRepeated(one.clone()));
        }
    }
    Ok(())
}

fn key(key: &Key, limits: &Limits) -> Check {
    if key.is_empty() {
        return Err(Reason::KeyEmpty);
    }
    at_most(key.len(), limits.key_len_max, Reason::KeyTooLong)
}

fn key_range(range: &KeyRange, limits: &Limits) -> Check {
    match range {
        KeyRange::One(one) => key(one, limits),
        KeyRange::Span(from, to) => {
            at_most(from.len(), limits.key_len_max, Reason::KeyTooLong)?;
            at_most(to.len(), limits.key_len_max, Reason::KeyTooLong)
        }
        KeyRange::From(from) => at_most(from.len(), limits.key_len_max, Reason::KeyTooLong),
    }
}

fn value(value: &Value, limits: &Limits) -> Check {
    at_most(value.len(), limits.value_len_max, Reason::ValueTooLarge)
}

fn text(text: &ClientId, limits: &Limits) -> Check {
    at_most(text.as_str().len(), limits.text_len_max, Reason::TextTooLong)
}

fn client(client: &ClientId, limits: &Limits) -> Check {
    if client.is_empty() { Err(Reason::ClientEmpty) } else { text(client, limits) }
}

fn ttl(ttl: Millis, limits: &Limits) -> Check {
    if ttl < limits.ttl_min {
        return Err(Reason::TtlTooShort(ttl, limits.ttl_min));
    }
    if ttl > limits.ttl_max {
        return Err(Reason::TtlTooLong(ttl, limits.ttl_max));
    }
    Ok(())
}

fn span(span: Millis, limits: &Limits) -> Check {
    if span > limits.span_max { Err(Reason::SpanTooLong(span, limits.span_max)) } else { Ok(()) }
}

fn mode(mode: Mode, limits: &Limits) -> Check {
    match mode {
        Mode::Permit(permits) if permits == 0 || permits > limits.permits_max => {
            Err(Reason::PermitsInvalid(permits, limits.permits_max))
        }
        _ => Ok(()),
    }
}

fn wait(wait: Wait, limits: &Limits) -> Check {
    match wait {
        Wait::AtMost(length) => span(length, limits),
        Wait::Try | Wait::WhileLeased => Ok(()),
    }
}

fn terms(terms: &Terms, limits: &Limits) -> Check {
    at_most(terms.metadata.len(), limits.value_len_max, Reason::MetadataTooLarge)?;
    value(&terms.value, limits)?;
    span(terms.lock_delay, limits)?;
    span(terms.budget, limits)?;
    span(terms.hold_max, limits)
}

fn lease_grant(grant: &LeaseGrant, limits: &Limits) -> Check {
    if grant.id.0 < 0 {
        return Err(Reason::LeaseIdInvalid(grant.id));
    }
    ttl(grant.ttl, limits)?;
    text(&grant.client, limits)?;
    text(&grant.address, limits)?;
    span(grant.revoke_on_disconnect.unwrap_or_default(), limits)
}

fn acquire(acquire: &Acquire, limits: &Limits) -> Check {
    name(&acquire.name, limits)?;
    mode(acquire.mode, limits)?;
    wait(acquire.wait, limits)?;
    terms(&acquire.terms, limits)
}

fn acquire_many(acquire: &AcquireMany, limits: &Limits) -> Check {
    names(acquire.locks.iter().map(|(name, _)| name), limits)?;
    for &(_, one) in &acquire.locks {
        mode(one, limits)?;
    }
    wait(acquire.wait, limits)?;
    terms(&acquire.terms, limits)
}

fn acquire_as(acquire: &AcquireAs, limits: &Limits) -> Check {
    name(&acquire.name, limits)?;
    client(&acquire.client, limits)?;
    ttl(acquire.ttl, limits)?;
    wait(acquire.wait, limits)?;
    if acquire.wait == Wait::WhileLeased && acquire.terms.call.is_none() {
        return Err(Reason::WaitUnbound);
    }
    terms(&acquire.terms, limits)
}

fn owner_and_name(lock: &LockName, owner: &ClientId, limits: &Limits) -> Check {
    name(lock, limits)?;
    client(owner, limits)
}

fn renew_as(lock: &LockName, owner: &ClientId, length: Millis, limits: &Limits) -> Check {
    owner_and_name(lock, owner, limits)?;
    if length == Millis::ZERO { Ok(()) } else { ttl(length, limits) }
}

fn force_release(force: &ForceRelease, limits: &Limits) -> Check {
    name(&force.name, limits)?;
    if force.reason.is_empty() {
        return Err(Reason::ReasonEmpty);
    }
    text(&force.reason, limits)
}

fn put(put: &Put, limits: &Limits) -> Check {
    key(&put.key, limits)?;
    value(&put.value, limits)?;
    if put.ignore_value && !put.value.is_empty() {
        return Err(Reason::ValueGiven);
    }
    if put.ignore_lease && !put.lease.is_none() {
        return Err(Reason::LeaseGiven);
    }
    Ok(())
}

fn delete_range(delete: &DeleteRange, limits: &Limits) -> Check {
    key_range(&delete.range, limits)
}

/// `left` counts the operations of the whole tree.
fn txn(one: &Txn, limits: &Limits, depth: u32, left: &mut u32) -> Check {
    if depth > limits.txn_depth_max {
        return Err(Reason::TxnTooDeep(limits.txn_depth_max));
    }
    at_most(one.compares.len(), limits.txn_ops_max, Reason::TooManyOps)?;
    at_most(one.success.len(), limits.txn_ops_max, Reason::TooManyOps)?;
    at_most(one.failure.len(), limits.txn_ops_max, Reason::TooManyOps)?;
    for compare in &one.compares {
        key_range(&compare.range, limits)?;
    }
    for op in one.success.iter().chain(&one.failure) {
        if *left == 0 {
            let max = limits.txn_tree_ops_max;
            return Err(Reason::TooManyOps(u64::from(max) + 1, max));
        }
        *left -= 1;
        match op {
            Op::Put(one) => put(one, limits)?,
            Op::DeleteRange(delete) => delete_range(delete, limits)?,
            Op::Range(query) => key_range(&query.range, limits)?,
            Op::Txn(inner) => txn(inner, limits, depth + 1, left)?,
        }
    }
    Ok(())
}
