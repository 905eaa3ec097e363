//! Messages that no member should send. A peer with a bug must not be able to crash this one; a claim
//! that contradicts the committed log stops it cleanly.

use fencepost_core::command::Put;
use fencepost_core::{Action, Key};
use fencepost_node::io::Input;
use fencepost_node::node::LOG_CONTRADICTED;
use raft::prelude::{ConfState, Entry, Message, Snapshot, SnapshotMetadata};

use crate::chaos::Dice;
use crate::support::{Cluster, MS, request};

/// The engine's numbers for all kinds that travel between members, and two that do not.
const KINDS: [i32; 14] = [0, 2, 3, 4, 5, 6, 7, 8, 9, 14, 15, 16, 17, 18];

/// A number near another one, or far out.
fn near(dice: &mut Dice, number: u64) -> u64 {
    match dice.roll(8) {
        0 => 0,
        1 => number + 1,
        2 => number.saturating_sub(1),
        3 => number + 100,
        4 => u64::MAX - dice.roll(3),
        5 => number.saturating_sub(15),
        _ => number,
    }
}

fn strange(dice: &mut Dice, term: u64, last: u64) -> Message {
    let at = usize::try_from(dice.roll(KINDS.len() as u64)).expect("small");
    let mut message = Message { msg_type: KINDS[at], ..Message::default() };
    message.term = match dice.roll(6) {
        0 => 0,
        1 => term + 1,
        2 => term.saturating_sub(1),
        _ => term,
    };
    message.index = near(dice, last);
    message.log_term = near(dice, term);
    message.commit = near(dice, last);
    message.commit_term = near(dice, term);
    message.reject = dice.roll(2) == 0;
    message.reject_hint = near(dice, last);
    message.request_snapshot = if dice.roll(4) == 0 { near(dice, last) } else { 0 };
    for place in 0..dice.roll(4) {
        let (index, term) = (message.index.wrapping_add(1 + place), near(dice, term));
        message.entries.push(Entry { index, term, ..Entry::default() });
    }
    if dice.roll(2) == 0 {
        let voters = if dice.roll(3) == 0 { Vec::new() } else { vec![1, 2, 3] };
        let conf_state = Some(ConfState { voters, ..ConfState::default() });
        let (index, term) = (near(dice, last), near(dice, term));
        let metadata = Some(SnapshotMetadata { index, term, conf_state });
        message.snapshot = Some(Snapshot { metadata, data: Vec::new() });
    }
    message
}

#[test]
fn whatever_a_peer_says_no_node_panics() {
    for seed in 1..400 {
        let mut dice = Dice(seed);
        let mut cluster = Cluster::new(3, seed);
        cluster.elect();
        cluster.may_halt = true;
        for number in 0..dice.roll(20) {
            let key = Key::from(format!("k{number}").as_str());
            let leader = cluster.leader().expect("nothing has happened to it");
            cluster.done(leader, Action::Put(Put { key, ..Put::default() }));
        }
        let to = 1 + dice.roll(3);
        let from = 1 + (to + dice.roll(2)) % 3;
        (1..=3).for_each(|id| cluster.isolate(id));
        for _ in 0..12 {
            let node = cluster.node(to);
            let (term, last) = (node.role().term, node.machine().applied());
            let message = Message { to, from, ..strange(&mut dice, term, last) };
            cluster.deliver(&message);
            cluster.run(3 * MS);
        }
        let is_clean = |why: &String| why == LOG_CONTRADICTED;
        assert!(cluster.halted.values().all(is_clean), "seed {seed}: {:?}", cluster.halted);
    }
}

#[test]
fn a_doubled_question_lets_no_old_answer_confirm_a_newer_one() {
    let mut cluster = Cluster::new(3, 4);
    let to = cluster.elect();
    cluster.done(to, Action::Put(Put { key: Key::from("a"), ..Put::default() }));
    let from = (1..=3).find(|&id| id != to).expect("there are three");
    let context: Vec<u8> =
        [from, 1, 1_000_000].iter().flat_map(|n: &u64| n.to_be_bytes()).collect();
    let asked = Entry { data: context.clone(), ..Entry::default() };
    let question = Message { to, from, entries: vec![asked], ..Message::default() };
    let question = Message { msg_type: 15, ..question };
    cluster.deliver(&question);
    cluster.run(20 * MS);
    // From here on another one may lead: nobody confirms anything.
    (1..=3).for_each(|id| cluster.isolate(id));
    let read = request(1_000_001);
    cluster.input(to, Input::Read(read));
    cluster.deliver(&question);
    let term = cluster.node(to).role().term;
    let answer = Message { msg_type: 9, to, from, term, context, ..Message::default() };
    cluster.deliver(&answer);
    assert!(!cluster.reads.contains(&read.number), "an old answer has confirmed a newer question");
}
