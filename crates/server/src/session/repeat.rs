//! The command that asks again what became of an acquire.
//!
//! The state recognises a repeat by its number and by the names of its locks, and answers with what it
//! has kept. Guarantees: what a contender says about itself is not kept here for as long as it waits;
//! it may be two MiB, and the state has it.

use fencepost_core::Value;
use fencepost_core::command::{Action, Once, Terms};
use fencepost_node::machine::Order;

use crate::house::command;

/// An acquire without what its contender says about itself; nothing, if it says nothing.
fn bare(action: &Action) -> Option<Action> {
    let mut bare = action.clone();
    let terms = match &mut bare {
        Action::Acquire(acquire) => &mut acquire.terms,
        Action::AcquireMany(acquire) => &mut acquire.terms,
        _ => return None,
    };
    let Terms { metadata, value, .. } = terms;
    if metadata.is_empty() && value.is_empty() {
        return None;
    }
    (*metadata, *value) = (Value::default(), Value::default());
    Some(bare)
}

/// An order, and what repeats it if that can be done.
pub(super) fn with_repeat(action: Action, once: Option<Once>) -> (Order, Option<Vec<u8>>) {
    let Some(once) = once else { return (Order::from(command(action, None)), None) };
    let bare = bare(&action).map(|bare| Order::from(command(bare, Some(once.clone()))));
    let order = Order::from(command(action, Some(once)));
    let repeat = bare.map_or_else(|| order.bytes().to_vec(), Order::into_bytes);
    (order, Some(repeat))
}

#[cfg(test)]
mod tests {
    use fencepost_core::codec::decode_command;
    use fencepost_core::command::{
        Acquire, AcquireMany, Caller, Command, LeaseGrant, LeaseRef, Mode, Wait,
    };
    use fencepost_core::{Entry, Epoch, LeaseId, LockName, LogTime, Millis, Outcome, Seq, State};

    use super::*;

    fn apply(state: &mut State, order: Order) -> Outcome {
        let command = decode_command(order.bytes()).expect("it was just written");
        let effects = state.apply(Entry { at: LogTime(1), commands: vec![command] });
        effects.replies.into_iter().next().expect("it is answered").outcome
    }

    #[test]
    fn repeat_is_small_and_finds_the_answer_of_the_first() {
        let mut state = State::new();
        let id = LeaseId(7);
        let grant = LeaseGrant { id, ttl: Millis(60_000), ..LeaseGrant::default() };
        apply(&mut state, Order::from(Command::from(Action::LeaseGrant(grant))));
        let lease = LeaseRef { id, epoch: Epoch::default() };
        let terms = Terms {
            metadata: Value::from(&[1; 100_000][..]),
            value: Value::from(&[2; 100_000][..]),
            ..Terms::default()
        };
        let one = Acquire {
            name: LockName::from("a"),
            lease,
            wait: Wait::WhileLeased,
            terms: terms.clone(),
            ..Acquire::default()
        };
        let many = AcquireMany {
            locks: vec![(LockName::from("b"), Mode::Exclusive)],
            lease,
            wait: Wait::WhileLeased,
            terms,
        };
        for (seq, action) in [(1, Action::Acquire(one)), (2, Action::AcquireMany(many))] {
            let once = Once { by: Caller::Lease(id), seq: Seq(seq), ack_upto: Seq(0) };
            let (order, repeat) = with_repeat(action, Some(once));
            assert!(order.bytes().len() > 200_000);
            let repeat = repeat.expect("it is numbered");
            assert!(repeat.len() < 200, "{}", repeat.len());
            let first = apply(&mut state, order);
            let before = state.revision();
            assert_eq!(apply(&mut state, Order::from(repeat)), first);
            assert_eq!(state.revision(), before, "nothing was done again");
        }
    }
}
