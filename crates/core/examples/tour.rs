//! A lock changes hands, in one process: the state machine without a network.

#![expect(clippy::print_stdout, reason = "an example that shows what happens")]

use fencepost_core::command::{Acquire, LeaseGrant, LeaseRef, Release};
use fencepost_core::event::EventKind;
use fencepost_core::{
    Action, ClientId, Command, Entry, LockName, LogTime, Millis, Outcome, State, Token,
};

fn main() {
    let mut state = State::new();
    let lock = LockName::from("db/migrate");
    let first = lease(&mut state, "worker-1", Millis::from_secs(30));
    let second = lease(&mut state, "worker-2", Millis::from_secs(60));

    let token = acquire(&mut state, "worker-1", first, &lock);
    acquire(&mut state, "worker-2", second, &lock);

    let effects = state.apply(Entry { at: LogTime(30_000), commands: Vec::new() });
    let mut next = token;
    for event in &effects.events {
        let EventKind::Deleted { prev, ended: Some(ended) } = &event.kind else { continue };
        let Some(holder) = &ended.holder else { continue };
        let news = format!(
            "{} expired, now held by {} with token {}",
            prev.key, holder.client, holder.token.0
        );
        say("worker-1 is silent for 30 s", &news);
        next = holder.token;
    }
    release(&mut state, "worker-1 wakes up and", first, &lock, token);
    release(&mut state, "worker-2", second, &lock, next);
}

fn say(what: &str, answer: &str) {
    println!("{what:<46} {answer}");
}

fn apply(state: &mut State, action: Action) -> Outcome {
    let entry = Entry { at: state.now(), commands: vec![Command::from(action)] };
    state.apply(entry).replies.remove(0).outcome
}

fn lease(state: &mut State, client: &str, ttl: Millis) -> LeaseRef {
    let client = ClientId::from(client);
    match apply(state, Action::LeaseGrant(LeaseGrant { ttl, client, ..LeaseGrant::default() })) {
        Outcome::LeaseGranted(granted) => LeaseRef { id: granted.id, epoch: granted.epoch },
        other => panic!("a fresh state grants leases: {other:?}"),
    }
}

fn acquire(state: &mut State, who: &str, lease: LeaseRef, name: &LockName) -> Token {
    let action = Action::Acquire(Acquire { name: name.clone(), lease, ..Acquire::default() });
    let (answer, token) = match apply(state, action) {
        Outcome::Acquired(grant) => (format!("granted, token {}", grant.token.0), grant.token),
        Outcome::Queued(place) => {
            let ahead = &place.predecessor;
            (format!("queued, position {}, behind {ahead}", place.position), Token(0))
        }
        other => panic!("an acquire is granted or queued: {other:?}"),
    };
    say(&format!("{who} acquires {name}"), &answer);
    token
}

fn release(state: &mut State, who: &str, lease: LeaseRef, name: &LockName, token: Token) {
    let answer = match apply(state, Action::Release(Release { name: name.clone(), lease, token })) {
        Outcome::Released => String::from("released"),
        Outcome::Rejected(reason) => format!("refused: {reason}"),
        other => panic!("a release is done or refused: {other:?}"),
    };
    say(&format!("{who} releases with token {}", token.0), &answer);
}
