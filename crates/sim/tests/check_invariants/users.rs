//! What clients are told, believe and write.

use fencepost_core::command::{Action, Caller, ForceRelease, LeaseGrant, Once};
use fencepost_core::outcome::Outcome;
use fencepost_core::query::LockView;
use fencepost_core::{
    ClientId, Command, LeaseId, LockName, Millis, Reply, Restore, Revision, Seq, Token,
};
use fencepost_node::io::{Micros, ProposeError};
use fencepost_sim::client::{Belief, CallResult, ClientNumber, Request};
use fencepost_sim::seen::{Seen, Time};

use crate::rig::{Rig, Told, breaks, token};

/// Client `c<n>` believes to hold a lock for so many milliseconds more.
fn believes(rig: &mut Rig, client: u32, lock: &str, token: u64, for_ms: u64) -> Told {
    let lock = LockName::from(lock);
    let until = Micros(0);
    let belief = Belief::Holds { lock, token: Token(token), until, exclusive: true };
    let until = Time((rig.ms + for_ms) * 1_000);
    rig.see(&Seen::Believes { client: ClientNumber(client), belief: &belief, until })
}

fn believes_not(rig: &mut Rig, client: u32, lock: &str, token: u64) -> Told {
    let belief = Belief::HoldsNot { lock: LockName::from(lock), token: Token(token) };
    let until = rig.at();
    rig.see(&Seen::Believes { client: ClientNumber(client), belief: &belief, until })
}

fn wrote(rig: &mut Rig, client: u32, lock: &str, token: u64, accepted: bool) -> Told {
    let token = Token(token);
    rig.see(&Seen::Wrote { client: ClientNumber(client), lock, token, accepted })
}

/// Two leases, and lock `a` passes from the first to the second. Answers with both tokens.
fn passed_on(rig: &mut Rig) -> Told<(u64, u64)> {
    rig.lease(1, 10_000)?;
    rig.lease(2, 10_000)?;
    let first = token(&rig.run(0, rig.want("a", 1))?);
    rig.run(0, rig.release("a", 1, first))?;
    let second = token(&rig.run(0, rig.want("a", 2))?);
    Ok((first, second))
}

#[test]
fn two_do_not_believe_at_once() {
    let mut rig = Rig::new(None);
    let (first, second) = passed_on(&mut rig).expect("sound");
    believes(&mut rig, 1, "a", first, 100).expect("sound");
    breaks("I14", believes(&mut rig, 2, "a", second, 100));
}

#[test]
fn one_after_the_other_is_right() {
    let mut rig = Rig::new(None);
    let (first, second) = passed_on(&mut rig).expect("sound");
    believes(&mut rig, 1, "a", first, 100).expect("sound");
    believes_not(&mut rig, 1, "a", first).expect("sound");
    believes(&mut rig, 2, "a", second, 100).expect("it was given up");
    rig.ms += 100;
    rig.run(0, rig.release("a", 2, second)).expect("sound");
    let third = token(&rig.run(0, rig.want("a", 1)).expect("sound"));
    believes(&mut rig, 1, "a", third, 100).expect("it had run out");
}

#[test]
fn an_operator_who_does_not_wait_is_an_exception() {
    for now in [true, false] {
        let mut rig = Rig::new(None);
        rig.lease(1, 10_000).expect("sound");
        rig.lease(2, 20_000).expect("sound");
        let first = token(&rig.run(0, rig.want("a", 1)).expect("sound"));
        rig.run(0, rig.want("a", 2)).expect("sound");
        believes(&mut rig, 1, "a", first, 15_000).expect("sound");
        let (name, token) = (LockName::from("a"), Token(first));
        let reason = ClientId::from("a test");
        let force = Action::ForceRelease(ForceRelease { name, token, reason, now });
        rig.run(0, force).expect("sound");
        rig.entry(10_000, vec![]).expect("sound");
        let told = believes(&mut rig, 2, "a", first + 1, 100);
        if now { told.expect("it was taken at once") } else { breaks("I14", told) }
    }
}

#[test]
fn nobody_believes_in_a_token_of_another() {
    let mut rig = Rig::new(None);
    let (first, _) = passed_on(&mut rig).expect("sound");
    breaks("I14", believes(&mut rig, 2, "a", first, 100));
    breaks("I14", believes(&mut rig, 2, "a", 77, 100));
}

#[test]
fn the_store_takes_no_lower_token() {
    let mut rig = Rig::new(None);
    let (first, second) = passed_on(&mut rig).expect("sound");
    wrote(&mut rig, 1, "a", first, true).expect("sound");
    wrote(&mut rig, 2, "a", second, true).expect("sound");
    wrote(&mut rig, 1, "a", first, false).expect("refused, as it should be");
    breaks("I15", wrote(&mut rig, 1, "a", first, true));
}

#[test]
fn the_store_takes_only_what_was_granted() {
    let mut rig = Rig::new(None);
    let (_, second) = passed_on(&mut rig).expect("sound");
    breaks("I15", wrote(&mut rig, 1, "a", second, true));
    breaks("I15", wrote(&mut rig, 1, "a", second + 5, true));
}

#[test]
fn a_holder_is_not_refused() {
    let mut rig = Rig::new(None);
    let (_, second) = passed_on(&mut rig).expect("sound");
    believes(&mut rig, 2, "a", second, 100).expect("sound");
    breaks("I15", wrote(&mut rig, 2, "a", second, false));
    rig.ms += 100;
    wrote(&mut rig, 2, "a", second, false).expect("it is not sure any more");
}

#[test]
fn an_answer_must_come_from_the_log() {
    let mut rig = Rig::new(None);
    rig.lease(1, 10_000).expect("sound");
    let acquire = Rig::numbered(1, 1, rig.want("a", 1));
    rig.call(1, acquire.clone()).expect("sound");
    let never = Rig::numbered(1, 2, rig.want("b", 1));
    let call = rig.begin(1, &never).expect("sound");
    let reply = Reply { revision: Revision(9), outcome: Outcome::Released };
    breaks("I4", rig.answer(1, call, CallResult::Done(reply.clone())));
    let call = rig.begin(1, &acquire).expect("sound");
    breaks("I4", rig.answer(1, call, CallResult::Done(reply)));
}

/// A client reads lock `a` and sees these tokens.
fn reads(rig: &mut Rig, tokens: &[u64]) -> Told {
    let name = LockName::from("a");
    let call = rig.ask(1, &Request::Read(name.clone()))?;
    let mut view = rig.state.lock(&name, 16);
    view.holders.retain(|holder| tokens.contains(&holder.token.0));
    assert_eq!(view.holders.len(), tokens.len(), "the story is wrong");
    rig.answer(1, call, CallResult::View(Box::new(view)))
}

#[test]
fn a_read_sees_what_has_returned() {
    let mut rig = Rig::new(None);
    rig.lease(1, 10_000).expect("sound");
    let held = token(&rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound"));
    reads(&mut rig, &[held]).expect("sound");
    rig.see(&Seen::Over { nodes: &[] }).expect("all in order");
}

#[test]
fn a_read_that_is_late_is_found() {
    let mut rig = Rig::new(None);
    rig.lease(1, 10_000).expect("sound");
    rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound");
    reads(&mut rig, &[]).expect("not judged yet");
    breaks("I27", rig.see(&Seen::Over { nodes: &[] }));
}

#[test]
fn a_read_beside_an_acquire_may_see_either() {
    for tokens in [&[][..], &[2]] {
        let mut rig = Rig::new(None);
        rig.lease(1, 10_000).expect("sound");
        let acquire = Rig::numbered(1, 1, rig.want("a", 1));
        let call = rig.begin(1, &acquire).expect("sound");
        let name = LockName::from("a");
        let read = rig.ask(2, &Request::Read(name.clone())).expect("sound");
        let before = rig.state.lock(&name, 16);
        let reply = rig.entry(1, vec![acquire]).expect("sound").remove(0);
        let after = rig.state.lock(&name, 16);
        let view: LockView = if tokens.is_empty() { before } else { after };
        rig.answer(2, read, CallResult::View(Box::new(view))).expect("sound");
        rig.answer(1, call, CallResult::Done(reply)).expect("sound");
        rig.see(&Seen::Over { nodes: &[] }).expect("both are in order");
    }
}

#[test]
fn a_release_that_nobody_was_answered_may_be_seen_or_not_at_first() {
    let mut rig = Rig::new(None);
    rig.lease(1, 10_000).expect("sound");
    let held = token(&rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound"));
    let release = Rig::numbered(1, 2, rig.release("a", 1, held));
    rig.begin(1, &release).expect("sound");
    reads(&mut rig, &[held]).expect("sound");
    rig.entry(1, vec![release]).expect("sound");
    reads(&mut rig, &[]).expect("sound");
    rig.see(&Seen::Over { nodes: &[] }).expect("it took effect between the reads");
}

#[test]
fn an_expiry_that_was_seen_is_seen_on() {
    let mut rig = Rig::new(None);
    rig.lease(1, 1_000).expect("sound");
    rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound");
    let name = LockName::from("a");
    let held = rig.state.lock(&name, 16);
    rig.entry(1_000, vec![]).expect("sound");
    let read = rig.ask(1, &Request::Read(name)).expect("sound");
    rig.answer(1, read, CallResult::View(Box::new(held))).expect("not judged yet");
    breaks("I27", rig.see(&Seen::Over { nodes: &[] }));
}

#[test]
fn a_lease_lasts_in_true_time() {
    for (early, right) in [(600, false), (0, true)] {
        let mut rig = Rig::new(None);
        rig.ms = 5_000;
        let (id, ttl, client) = (LeaseId(1), Millis(1_000), ClientId::from("c1"));
        let grant = LeaseGrant { id, ttl, client: client.clone(), ..LeaseGrant::default() };
        let once = Once { by: Caller::Client(client), seq: Seq(1), ack_upto: Seq(1) };
        let grant = Command { once: Some(once), ..Command::from(Action::LeaseGrant(grant)) };
        let call = rig.begin(1, &grant).expect("sound");
        // Log time has fallen behind true time. Catching up within the lease would shorten it.
        let reply = rig.stamped(2_000, vec![grant]).expect("sound").remove(0);
        rig.answer(1, call, CallResult::Done(reply)).expect("sound");
        rig.stamped(2_000, vec![rig.want("a", 1).into()]).expect("sound");
        rig.ms += 1_000 - early;
        let told = rig.stamped(3_000, vec![]);
        if right { drop(told.expect("it has lived for its time")) } else { breaks("I10", told) }
    }
}

#[test]
fn log_time_is_not_faster_than_true_time() {
    let mut rig = Rig::new(None);
    rig.ms = 10_000;
    rig.stamped(10_090, vec![]).expect("a clock may be a little fast");
    breaks("I10", rig.stamped(10_200, vec![]));
}

#[test]
fn the_cluster_must_heal() {
    let mut rig = Rig::new(None);
    rig.lease(1, 60_000).expect("sound");
    rig.see(&Seen::Healed).expect("sound");
    rig.ms += 9_000;
    rig.entry(0, vec![]).expect("there is time");
    rig.ms += 2_000;
    breaks("I28", rig.entry(0, vec![]));
}

#[test]
fn a_cluster_that_serves_has_healed() {
    let mut rig = Rig::new(None);
    rig.lease(1, 60_000).expect("sound");
    rig.see(&Seen::Healed).expect("sound");
    rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound");
    rig.ms += 11_000;
    rig.entry(0, vec![]).expect("it serves");
}

#[test]
fn a_lease_that_nobody_renews_must_end() {
    let mut rig = Rig::new(None);
    rig.lease(1, 1_000).expect("sound");
    rig.see(&Seen::Healed).expect("sound");
    rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound");
    // The leader has stopped to stamp: log time stands still, and so does the lease.
    let stands = rig.ms;
    rig.ms += 2_000;
    rig.stamped(stands, vec![]).expect("there is time");
    rig.ms += 4_000;
    breaks("I29", rig.see(&Seen::Over { nodes: &[] }));
}

#[test]
fn a_wait_must_end_in_true_time() {
    let mut rig = Rig::new(None);
    rig.lease(1, 60_000).expect("sound");
    rig.lease(2, 60_000).expect("sound");
    rig.see(&Seen::Healed).expect("sound");
    rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound");
    let wait = fencepost_core::command::Wait::AtMost(Millis(500));
    let waits = rig.acquire("a", 2, fencepost_core::command::Mode::Exclusive, wait);
    rig.call(2, Rig::numbered(2, 1, waits)).expect("sound");
    // The leader's stamps stand still, and so does the wait.
    let stands = rig.ms;
    rig.ms += 3_000;
    rig.see(&Seen::Over { nodes: &[] }).expect("there is time");
    rig.stamped(stands, vec![]).expect("there is time");
    rig.ms += 1_000;
    breaks("I18", rig.see(&Seen::Over { nodes: &[] }));
}

#[test]
fn tokens_grow_over_a_restore() {
    for jumps in [true, false] {
        let mut rig = Rig::new(None);
        rig.lease(1, 1_000).expect("sound");
        let backup = rig.state.clone();
        rig.run(0, rig.want("a", 1)).expect("sound");
        let restored = match jumps {
            true => {
                let inputs = Restore {
                    unix_ms: 1_795_000_000_000,
                    incarnation: 1,
                    grant_after: Some(Millis::ZERO),
                    ..Restore::default()
                };
                backup.restore(inputs).expect("there is room")
            }
            false => backup,
        };
        let index = rig.index;
        rig.see(&Seen::Restored { index, state: &restored }).expect("sound");
        rig.state = restored;
        let told = rig.lease(2, 1_000).and_then(|()| rig.run(0, rig.want("a", 2)));
        if jumps { drop(told.expect("far beyond")) } else { breaks("I6", told) }
    }
}

#[test]
fn a_copy_is_put_into_the_log_once() {
    let mut rig = Rig::new(None);
    rig.lease(1, 10_000).expect("sound");
    let acquire = Rig::numbered(1, 1, rig.want("a", 1));
    rig.call(1, acquire.clone()).expect("sound");
    breaks("I16", rig.run(0, acquire.clone()));
    let mut rig = Rig::new(None);
    rig.lease(1, 10_000).expect("sound");
    rig.call(1, acquire.clone()).expect("sound");
    rig.call(1, acquire).expect("another call brings another copy");
}

#[test]
fn what_was_refused_for_sure_is_not_done() {
    for (why, certain) in [(ProposeError::NoLeader, true), (ProposeError::Indeterminate, false)] {
        let mut rig = Rig::new(None);
        rig.lease(1, 10_000).expect("sound");
        let acquire = Rig::numbered(1, 1, rig.want("a", 1));
        let call = rig.begin(1, &acquire).expect("sound");
        rig.answer(1, call, CallResult::Failed(why)).expect("sound");
        let told = rig.run(0, acquire);
        if certain { breaks("I16", told) } else { drop(told.expect("it was left open")) }
    }
}

#[test]
fn log_time_goes_on_while_leases_live() {
    for lives in [true, false] {
        let mut rig = Rig::new(None);
        rig.lease(1, 2_000).expect("sound");
        rig.see(&Seen::Healed).expect("sound");
        rig.call(1, Rig::numbered(1, 1, rig.want("a", 1))).expect("sound");
        if !lives {
            rig.entry(2_000, vec![]).expect("the lease ends");
        }
        rig.ms += 3_300;
        let told = rig.ask(1, &Request::Read(LockName::from("a")));
        if lives {
            breaks("I29", told);
        } else {
            told.expect("nothing is to end");
        }
    }
}
