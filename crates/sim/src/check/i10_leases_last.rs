//! I10, leases last: a deadline never moves back, and log time is never faster than true time by
//! more than the fastest clock. So no lease ends before its length has passed in true time since
//! the last request was sent that made or renewed it.

use fencepost_core::outcome::{Outcome, RenewResult};
use fencepost_core::{LogTime, Reply};

use super::book::{Book, LeaseRecord};
use super::oracle::Step;
use super::{Check, Rules, broken};
use crate::seen::Time;

/// Stamps are whole milliseconds, and so are the ends of leases.
const ROUNDING: u64 = 2_000;

/// So many parts per million may a clock be faster than true time.
fn fastest_ppm(rules: Rules) -> u64 {
    if rules.clocks_in_bounds { 10_000 } else { 100_000 }
}

/// Log time only goes forward, and not faster than the fastest clock since the run began.
pub(super) fn moved(rules: Rules, step: &Step<'_>) -> Check {
    if step.now < step.before {
        let (from, to) = (step.before.0, step.now.0);
        return Err(broken("I10", format!("log time goes back from {from} to {to}")));
    }
    let most = u128::from(step.at.0) * u128::from(1_000_000 + fastest_ppm(rules)) / 1_000_000;
    if u128::from(step.now.0) * 1_000 > most + u128::from(ROUNDING) {
        let (now, at) = (step.now.0, step.at.0 / 1_000);
        return Err(broken("I10", format!("log time is {now} ms after {at} ms of true time")));
    }
    Ok(())
}

/// The state has the same deadlines as the book, for every lease that this entry renewed.
pub(super) fn deadlines(book: &mut Book, step: &Step<'_>) -> Check {
    for (&id, lease) in &mut book.leases {
        if !std::mem::take(&mut lease.changed) || !lease.is_alive(step.now) {
            continue;
        }
        let found = step.state.lease(id).map(|info| info.expiry);
        if found != Some(lease.deadline) {
            let (expected, id) = (lease.deadline.0, id.0);
            let what = format!("lease {id:x} was promised to live until {expected}, not {found:?}");
            return Err(broken("I10", what));
        }
    }
    Ok(())
}

/// A renewal's answer tells the time that the lease has by the book, which is written before.
pub(super) fn answered(book: &Book, now: LogTime, reply: &Reply) -> Check {
    let Outcome::LeasesRenewed(answers) = &reply.outcome else { return Ok(()) };
    for answer in answers {
        let RenewResult::Alive { ttl, .. } = answer.result else { continue };
        let Some(lease) = book.leases.get(&answer.id) else { continue };
        if lease.deadline.since(now) != ttl {
            let (id, told) = (answer.id.0, ttl.0);
            let has = lease.deadline.since(now).0;
            return Err(broken("I10", format!("lease {id:x} has {has} ms and is told {told}")));
        }
    }
    Ok(())
}

/// A lease has ended because its time was over.
pub(super) fn expired(rules: Rules, lease: &LeaseRecord, at: Time) -> Check {
    let Some(sent) = lease.sent_at else { return Ok(()) };
    let lived = u128::from(at.0.saturating_sub(sent.0) + ROUNDING);
    let least = u128::from(lease.ttl.0 * 1_000) * 1_000_000;
    if lived * u128::from(1_000_000 + fastest_ppm(rules)) < least {
        let (lived, ttl) = (at.0.saturating_sub(sent.0) / 1_000, lease.ttl.0);
        let client = &lease.client;
        let what = format!("a lease of {client} ended {lived} ms after a renewal left, not {ttl}");
        return Err(broken("I10", what));
    }
    Ok(())
}
