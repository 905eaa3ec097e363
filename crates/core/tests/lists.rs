//! One page of a list costs no more than its budget, however much the state holds.

use fencepost_core::command::{
    Acquire, Action, Command, Entry, LeaseGrant, Mode, Put, Terms, Wait,
};
use fencepost_core::query::{Sight, Subject};
use fencepost_core::scan::StepBudget;
use fencepost_core::{ClientId, Key, LeaseId, LockName, LogTime, Millis, State};

/// Locks that one lease holds, and as many keys attached to another.
fn state(count: u32) -> State {
    let mut state = State::new();
    let mut commands = Vec::new();
    for id in [7, 8] {
        commands.push(Action::LeaseGrant(LeaseGrant {
            id: LeaseId(id),
            ttl: Millis(5_000),
            client: ClientId::from("c"),
            ..LeaseGrant::default()
        }));
    }
    for number in 0..count {
        let name = LockName::from(&*format!("l{number:04}"));
        let (wait, terms) = (Wait::WhileLeased, Terms::default());
        let lease = LeaseId(7).into();
        commands.push(Action::Acquire(Acquire { name, lease, mode: Mode::Exclusive, wait, terms }));
        let key = Key::from(&*format!("k{number:04}"));
        commands.push(Action::Put(Put { key, lease: LeaseId(8), ..Put::default() }));
    }
    let commands = commands.into_iter().map(Command::from).collect();
    state.apply(Entry { at: LogTime(0), commands });
    state
}

#[test]
fn list_of_locks_ends_with_its_budget_and_goes_on_behind_it() {
    let state = state(500);
    let sight = Sight::waiters(16);
    let (mut after, mut names, mut pages) = (None, Vec::new(), 0);
    loop {
        let budget = &mut StepBudget::new(320);
        let (page, more) = state.locks_within(b"", after.as_ref(), 100, &sight, budget);
        assert!(!page.is_empty() && page.len() <= 20, "{} locks", page.len());
        pages += 1;
        after = page.last().map(|view| view.name.clone());
        names.extend(page.into_iter().map(|view| view.name));
        if !more {
            break;
        }
    }
    assert_eq!(pages, 25);
    let all = state.locks(b"", None, usize::MAX, &sight);
    assert_eq!(names, all.into_iter().map(|view| view.name).collect::<Vec<_>>());
    let (page, more) = state.locks_within(b"", None, 500, &sight, &mut StepBudget::new(u32::MAX));
    assert_eq!((page.len(), more), (500, false));
}

#[test]
fn list_of_leases_counts_their_keys() {
    let state = state(500);
    let (page, more) = state.leases_within(LeaseId(0), 10, &mut StepBudget::new(100));
    assert_eq!((page.len(), more), (1, true));
    let (page, more) = state.leases_within(LeaseId(7), 10, &mut StepBudget::new(100));
    assert_eq!((page.len(), more), (1, false));
    assert_eq!(state.lease_ids(LeaseId(0), 10), [LeaseId(7), LeaseId(8)]);
    assert_eq!(state.lease_ids(LeaseId(0), 1), [LeaseId(7)]);
}

#[test]
fn explanation_of_a_lease_shows_the_first_of_many_locks() {
    let state = state(500);
    let explained = state.explain(&Subject::Lease(LeaseId(7)), 32);
    assert_eq!((explained.locks.len(), explained.leases.len()), (64, 1));
    let explained = state.explain(&Subject::Client(ClientId::from("c")), 32);
    assert_eq!((explained.locks.len(), explained.leases.len()), (64, 2));
}
