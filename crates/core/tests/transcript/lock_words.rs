//! The inputs that are about locks.

use fencepost_core::command::{
    Acquire, AcquireAs, AcquireMany, Caller, Cancel, CancelTarget, ForceRelease, LeaseRef, Mode,
    Release, ReleaseAs, ReleaseHeld, ReleaseMany, RenewAs, RenewHeld, Terms, Wait,
};
use fencepost_core::{Action, ClientId, LockName, Seq};

use super::verb::Counted;
use super::words::{Parsed, Words, number, small};

/// Reads an input about locks. Nothing, if its first word is another.
pub(crate) fn parse(word: &str, words: &mut Words) -> Parsed<Option<Counted>> {
    match word {
        "acquire" => acquire(words),
        "acquire-many" => acquire_many(words),
        "cancel" => cancel(words),
        "release" => release(words),
        "release-many" => release_many(words),
        "force" => force(words),
        "acquire-as" => acquire_as(words),
        "renew-as" => renew_as(words),
        "release-as" => release_as(words),
        _ => return Ok(None),
    }
    .map(Some)
}

fn by_lease(action: Action, lease: LeaseRef) -> Counted {
    (action, Some(Caller::Lease(lease.id)))
}

fn by_client(action: Action, client: ClientId) -> Counted {
    (action, Some(Caller::Client(client)))
}

fn name(words: &mut Words) -> Parsed<LockName> {
    Ok(LockName::from(words.next("a lock")?.as_str()))
}

fn owner(words: &mut Words) -> ClientId {
    ClientId::from(words.text("owner").as_str())
}

fn mode(words: &mut Words) -> Parsed<Mode> {
    if words.flag("shared") {
        return Ok(Mode::Shared);
    }
    words.option("permit").map_or(Ok(Mode::Exclusive), |text| small(&text).map(Mode::Permit))
}

fn wait(words: &mut Words) -> Parsed<Wait> {
    if words.flag("try") {
        return Ok(Wait::Try);
    }
    Ok(words.span("wait")?.map_or(Wait::WhileLeased, Wait::AtMost))
}

fn terms(words: &mut Words) -> Parsed<Terms> {
    Ok(Terms {
        metadata: words.text("meta").as_str().into(),
        value: words.text("value").as_str().into(),
        lock_delay: words.span("delay")?.unwrap_or_default(),
        budget: words.span("budget")?.unwrap_or_default(),
        hold_max: words.span("hold-max")?.unwrap_or_default(),
        call: words.call()?,
    })
}

fn acquire(words: &mut Words) -> Parsed<Counted> {
    let name = name(words)?;
    let lease = words.lease()?;
    let (mode, wait, terms) = (mode(words)?, wait(words)?, terms(words)?);
    Ok(by_lease(Action::Acquire(Acquire { name, lease, mode, wait, terms }), lease))
}

/// The locks are one word, `a,b:shared,c:3`: exclusive, shared, one of three permits.
fn acquire_many(words: &mut Words) -> Parsed<Counted> {
    let mut locks = Vec::new();
    for one in list(&words.next("the locks")?) {
        locks.push(match one.split_once(':') {
            None => (LockName::from(one), Mode::Exclusive),
            Some((name, "shared")) => (LockName::from(name), Mode::Shared),
            Some((name, permits)) => (LockName::from(name), Mode::Permit(small(permits)?)),
        });
    }
    let lease = words.lease()?;
    let (wait, terms) = (wait(words)?, terms(words)?);
    Ok(by_lease(Action::AcquireMany(AcquireMany { locks, lease, wait, terms }), lease))
}

/// The parts of a list. An empty word is an empty list, not a list of nothing.
fn list(word: &str) -> impl Iterator<Item = &str> {
    word.split(',').filter(move |_| !word.is_empty())
}

fn cancel(words: &mut Words) -> Parsed<Counted> {
    let lease = words.lease()?;
    let target = match words.option("of") {
        Some(seq) => CancelTarget::Seq(Seq(number(&seq)?)),
        None => match words.call()? {
            Some(call) => CancelTarget::Call(name(words)?, call),
            None => CancelTarget::Contender(name(words)?, words.token()?),
        },
    };
    Ok(by_lease(Action::Cancel(Cancel { lease, target }), lease))
}

fn release(words: &mut Words) -> Parsed<Counted> {
    let (name, lease, token) = (name(words)?, words.lease()?, words.token()?);
    Ok(by_lease(Action::Release(Release { name, lease, token }), lease))
}

fn release_many(words: &mut Words) -> Parsed<Counted> {
    let names = list(&words.next("the locks")?).map(LockName::from).collect();
    let (lease, token) = (words.lease()?, words.token()?);
    Ok(by_lease(Action::ReleaseMany(ReleaseMany { names, lease, token }), lease))
}

fn force(words: &mut Words) -> Parsed<Counted> {
    let (name, token) = (name(words)?, words.token()?);
    let reason = ClientId::from(words.text("reason").as_str());
    let now = words.flag("now");
    Ok((Action::ForceRelease(ForceRelease { name, token, reason, now }), None))
}

fn acquire_as(words: &mut Words) -> Parsed<Counted> {
    let (name, client) = (name(words)?, owner(words));
    let ttl = words.span("ttl")?.ok_or("ttl= is missing")?;
    let (wait, terms) = (wait(words)?, terms(words)?);
    let acquire = AcquireAs { name, client: client.clone(), ttl, wait, terms };
    Ok(by_client(Action::AcquireAs(acquire), client))
}

fn renew_as(words: &mut Words) -> Parsed<Counted> {
    let (name, client) = (name(words)?, owner(words));
    let ttl = words.span("ttl")?.unwrap_or_default();
    if let Some(token) = words.token_if_any()? {
        return Ok((Action::RenewHeld(RenewHeld { name, client, ttl, token }), None));
    }
    Ok(by_client(Action::RenewAs(RenewAs { name, client: client.clone(), ttl }), client))
}

fn release_as(words: &mut Words) -> Parsed<Counted> {
    let (name, client) = (name(words)?, owner(words));
    if let Some(token) = words.token_if_any()? {
        let held = ReleaseHeld { name, client: client.clone(), token };
        return Ok(by_client(Action::ReleaseHeld(held), client));
    }
    Ok(by_client(Action::ReleaseAs(ReleaseAs { name, client: client.clone() }), client))
}
