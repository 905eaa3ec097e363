//! Reads at an earlier revision show what a read at that moment showed.

use fencepost_core::command::{Action, Command, Compact, DeleteRange, Entry, Put};
use fencepost_core::range::{KeyRange, RangeAnswer, RangeQuery};
use fencepost_core::{Key, LogTime, Reason, Revision, State, Value};

fn everything() -> RangeQuery {
    RangeQuery::from(KeyRange::From(Key::default()))
}

fn act(state: &mut State, action: Action) {
    let at = LogTime(state.now().0 + 1);
    state.apply(Entry { at, commands: vec![Command::from(action)] });
}

#[test]
fn the_past_is_what_it_was() {
    let mut state = State::new();
    let mut seen: Vec<(Revision, RangeAnswer)> = Vec::new();
    let mut dice: u32 = 7;
    for _ in 0..500 {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = Key::from(&*format!("k{}", (dice >> 8) % 9));
        match (dice >> 16) % 3 {
            0 => {
                let range = KeyRange::One(key);
                act(&mut state, Action::DeleteRange(DeleteRange { range, prev: false }));
            }
            _ => {
                let value = Value::from(&*dice.to_string());
                act(&mut state, Action::Put(Put { key, value, ..Put::default() }));
            }
        }
        seen.push((state.revision(), state.range(&everything())));
    }
    for (revision, answer) in &seen {
        assert_eq!(state.range_at(&everything(), *revision).as_ref(), Ok(answer), "{revision:?}");
    }
    let future = state.revision().next();
    let refused = state.range_at(&everything(), future);
    assert_eq!(refused, Err(Reason::RevisionFuture(state.revision())));
    let oldest = seen[250].0;
    act(&mut state, Action::Compact(Compact { revision: oldest }));
    assert_eq!(state.range_at(&everything(), oldest).as_ref(), Ok(&seen[250].1));
    let before = Revision(oldest.0 - 1);
    assert_eq!(state.range_at(&everything(), before), Err(Reason::Compacted(oldest)));
}
