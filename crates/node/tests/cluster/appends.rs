//! What a follower does with an append, message by message.

use fencepost_node::node::LOG_CONTRADICTED;
use raft::prelude::{Entry, Message, MessageType};

use crate::messages::message;
use crate::put;
use crate::replication::{all_agree, keys};
use crate::support::{Cluster, MS};

/// An append of these entries behind the entry with this term and index.
fn append(from: u64, to: u64, term: u64, before: (u64, u64), entries: Vec<Entry>) -> Message {
    let mut append = message(MessageType::MsgAppend, from, to, term);
    (append.log_term, append.index) = before;
    append.entries = entries;
    append
}

fn empty_entry(index: u64, term: u64) -> Entry {
    Entry { index, term, ..Entry::default() }
}

/// Has a member receive an append. Its answer.
fn answer(cluster: &mut Cluster, append: &Message) -> Message {
    let mark = cluster.sent.len();
    cluster.deliver(append);
    cluster.run(5 * MS);
    let answers = cluster.sent_since(mark, MessageType::MsgAppendResponse);
    let own = answers.into_iter().find(|one| (one.from, one.to) == (append.to, append.from));
    own.expect("it answers").clone()
}

fn term_at(cluster: &Cluster, id: u64, index: u64) -> Option<u64> {
    cluster.node(id).entry(index).map(|entry| entry.0)
}

// Requirements: S1-041, S1-047.
#[test]
fn append_of_a_lower_term_is_refused() {
    let mut cluster = Cluster::new(3, 7);
    let old = cluster.elect();
    let (earlier, others) = (cluster.node(old).role().term, cluster.others(old));
    cluster.kill(old);
    let leader = cluster.elect_among(&others);
    cluster.done(leader, put("k"));
    cluster.run(50 * MS);
    let follower = cluster.others(leader)[0];
    let (role, last) = (cluster.node(follower).role(), cluster.node(follower).last_index());
    assert!(role.term > earlier);
    let before = (role.term, last);
    let late = append(old, follower, earlier, before, vec![empty_entry(last + 1, earlier)]);
    let refusal = answer(&mut cluster, &late);
    assert_eq!((refusal.term, refusal.index), (role.term, 0), "it names its term and no entry");
    assert_eq!(cluster.node(follower).last_index(), last, "it has the entry");
    assert_eq!(cluster.node(follower).role(), role, "it follows the earlier leader");
    let same = append(leader, follower, role.term, before, vec![empty_entry(last + 1, role.term)]);
    let accepted = answer(&mut cluster, &same);
    assert_eq!((accepted.reject, accepted.index), (false, last + 1));
}

// Requirements: S1-041, S1-048.
#[test]
fn append_from_before_the_first_entry_is_accepted() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, put("k"));
    cluster.run(50 * MS);
    let follower = cluster.others(leader)[0];
    let node = cluster.node(follower);
    let (term, last, commit) = (node.role().term, node.last_index(), node.commit());
    let terms: Vec<u64> =
        (1..=last).map(|index| term_at(&cluster, follower, index).unwrap_or(1)).collect();
    let whole = (1..).zip(&terms).map(|(index, &term)| empty_entry(index, term)).collect();
    let accepted = answer(&mut cluster, &append(leader, follower, term, (0, 0), whole));
    assert_eq!((accepted.reject, accepted.index), (false, commit), "it has them, committed");
    assert_eq!((cluster.node(follower).last_index(), keys(&cluster, follower)), (last, 1));
    // One that has committed anything takes nothing from such a message, shorter or of other terms.
    let log = |cluster: &Cluster| -> Vec<String> {
        let node = cluster.node(follower);
        (1..=node.last_index()).map(|index| format!("{:?}", node.entry(index))).collect()
    };
    let before = log(&cluster);
    let shorter = append(leader, follower, term, (0, 0), vec![empty_entry(1, 1)]);
    let accepted = answer(&mut cluster, &shorter);
    assert_eq!((accepted.reject, accepted.index), (false, commit));
    assert_eq!(log(&cluster), before);
    // What contradicts a committed entry is not taken either: it halts the member.
    let other =
        (1..).zip(&terms).map(|(index, &term)| empty_entry(index, term + u64::from(index > 1)));
    cluster.may_halt = true;
    cluster.deliver(&append(leader, follower, term + 1, (0, 0), other.collect()));
    cluster.run(5 * MS);
    assert_eq!(cluster.halted.get(&follower).map(String::as_str), Some(LOG_CONTRADICTED));
    assert_eq!(log(&cluster), before);
    cluster.may_halt = false;
    // A log without entries takes them all.
    cluster.newcomer(4);
    let fresh =
        |term| append(leader, 4, term, (0, 0), vec![empty_entry(1, 1), empty_entry(2, term)]);
    let accepted = answer(&mut cluster, &fresh(term));
    assert_eq!((accepted.reject, accepted.index), (false, 2));
    let shorter = append(leader, 4, term, (0, 0), vec![empty_entry(1, 1)]);
    assert!(!answer(&mut cluster, &shorter).reject);
    assert_eq!(cluster.node(4).last_index(), 2, "nothing conflicts, so nothing is cut off");
    // What conflicts is told by its term: the entry that agrees stays.
    let accepted = answer(&mut cluster, &fresh(term + 1));
    assert_eq!((accepted.reject, accepted.index), (false, 2));
    assert_eq!([1, 2].map(|index| term_at(&cluster, 4, index)), [Some(1), Some(term + 1)]);
}

/// One member alone has learnt what is committed, and the one that has not is elected.
// Requirements: S1-039.
#[test]
fn follower_ahead_of_its_new_leader_keeps_what_it_has() {
    let mut cluster = Cluster::new(3, 7);
    let leader = cluster.elect();
    cluster.done(leader, put("before"));
    cluster.run(200 * MS);
    let [heir, ahead] = cluster.others(leader)[..] else { panic!("two follow") };
    let index = cluster.node(leader).last_index() + 1;
    cluster.propose(leader, put("k"));
    let has_it = |cluster: &Cluster| cluster.node(heir).last_index() == index;
    while !has_it(&cluster) {
        cluster.run(MS / 10);
    }
    cluster.cut.insert((leader, heir));
    let knows = |cluster: &Cluster, id| cluster.node(id).commit() >= index;
    assert!(cluster.run_until(|cluster| knows(cluster, leader) && knows(cluster, ahead)));
    assert!(!knows(&cluster, heir), "it has learnt it too");
    let term = cluster.node(leader).role().term;
    cluster.kill(leader);
    cluster.deliver(&message(MessageType::MsgTimeoutNow, leader, heir, term));
    while !cluster.node(heir).leads() {
        cluster.run(MS / 10);
        assert!(cluster.node(ahead).role().term <= term + 1, "another one is elected");
    }
    assert!(!knows(&cluster, heir), "nothing is shown");
    let applied = cluster.node(ahead).machine().state().hash();
    while !knows(&cluster, heir) {
        assert!(knows(&cluster, ahead), "it has taken back what is committed");
        assert_eq!(cluster.node(ahead).machine().state().hash(), applied);
        cluster.run(MS / 10);
    }
    cluster.cut.clear();
    cluster.start(leader);
    assert!(cluster.run_until(all_agree), "they differ");
    assert_eq!(keys(&cluster, ahead), 2);
}
