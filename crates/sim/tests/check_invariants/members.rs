//! What members apply, what they have become, and who leads them.

use fencepost_core::State;
use fencepost_core::codec::encode_entry;
use fencepost_core::command::Entry;
use fencepost_node::boot;
use fencepost_node::config::NodeConfig;
use fencepost_node::disk::MemoryDisk;
use fencepost_node::io::{Input, Micros, Output};
use fencepost_node::membership::{Member, Membership};
use fencepost_node::node::Node;
use fencepost_node::wal::WalConfig;
use fencepost_sim::seen::{Seen, Time};

use crate::rig::{Rig, Told, breaks};

fn bytes(stamp: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let entry = Entry { at: fencepost_core::LogTime(stamp), commands: vec![] };
    encode_entry(&entry, &mut bytes);
    bytes
}

#[test]
fn all_apply_the_same_entry() {
    let mut rig = Rig::new(None);
    rig.ms = 100;
    rig.tell_applied(1, 2, 1, &bytes(10)).expect("sound");
    rig.tell_applied(2, 2, 1, &bytes(10)).expect("sound");
    breaks("I1", rig.tell_applied(3, 2, 1, &bytes(11)));
    breaks("I1", rig.tell_applied(3, 2, 2, &bytes(10)));
    breaks("I1", rig.tell_applied(3, 4, 1, &bytes(12)));
}

fn stands(rig: &mut Rig, member: u64, index: u64, state: &State) -> Told {
    stands_with(rig, member, index, state, &Membership::default())
}

fn stands_with(
    rig: &mut Rig,
    member: u64,
    index: u64,
    state: &State,
    membership: &Membership,
) -> Told {
    rig.see(&Seen::Stands { member, index, state, membership })
}

#[test]
fn a_state_from_elsewhere_is_compared() {
    let mut rig = Rig::new(None);
    rig.lease(1, 1_000).expect("sound");
    let (index, state) = (rig.index, rig.state.clone());
    rig.lease(2, 1_000).expect("sound");
    let other = rig.state.clone();
    rig.see(&Seen::Installed { member: 2, index }).expect("sound");
    stands(&mut rig, 2, index, &state).expect("the same as it was there");
    rig.see(&Seen::Started { member: 2, index }).expect("sound");
    breaks("I2", stands(&mut rig, 2, index, &other));
    rig.see(&Seen::Started { member: 3, index: 0 }).expect("sound");
    stands(&mut rig, 3, 0, &State::new()).expect("a new member has nothing");
    rig.see(&Seen::Started { member: 3, index: 99 }).expect("sound");
    breaks("I2", stands(&mut rig, 3, 99, &state));
}

#[test]
fn all_know_the_same_members() {
    let mut rig = Rig::new(None);
    rig.lease(1, 1_000).expect("sound");
    let (index, state) = (rig.index, rig.state.clone());
    let of = |ids: &[u64]| {
        Membership::founding(7, ids.iter().map(|&id| Member { id, ..Member::default() }))
    };
    let mut tell = |member, membership: &Membership| {
        rig.see(&Seen::Started { member, index })?;
        stands_with(&mut rig, member, index, &state, membership)
    };
    tell(1, &of(&[1, 2])).expect("the first");
    tell(2, &of(&[2, 1])).expect("the same, in another order");
    breaks("I2", tell(3, &of(&[1, 2, 3])));
}

#[test]
fn a_state_that_went_astray_is_found_by_applying() {
    let mut rig = Rig::new(None);
    rig.lease(1, 60_000).expect("sound");
    let astray = State::new();
    // Sooner or later an index comes at which all are looked at.
    let found = (0..300).find_map(|_| {
        rig.entry(1, vec![]).expect("sound");
        let (index, state) = (rig.index, rig.state.clone());
        stands(&mut rig, 1, index, &state).expect("the same");
        stands(&mut rig, 2, index, &astray).err()
    });
    assert_eq!(found.expect("never looked at").invariant, "I2");
}

/// A cluster of one, which leads.
fn leader() -> (Node, u64) {
    let disk = MemoryDisk::new();
    let (name, peer, client) = ("n1".to_owned(), "p".to_owned(), "c".to_owned());
    let membership = Membership::founding(7, [Member { id: 1, name, peer, client }]);
    boot::found(&disk, membership).expect("the disk is sound");
    let config = WalConfig { segment_bytes: 64 << 10, salt: 7 };
    let booted = boot::open(disk, config, false).expect("it was just founded");
    let mut node = Node::new(NodeConfig::new(1), booted.store, booted.replica).expect("sound");
    let mut now = 0;
    while !(node.leads() && node.machine().applied() > 1) {
        now += 10_000;
        let mut inputs = vec![Input::Tick];
        while let Some(input) = inputs.pop() {
            for output in node.handle(Micros(now), input) {
                if let Output::Persist(persist) = output {
                    inputs.push(Input::Persisted(persist.number));
                }
            }
        }
        assert!(now < 60_000_000, "it never leads");
    }
    let term = node.role().term;
    (node, term)
}

/// Tells all that a node has applied.
fn tell_log(rig: &mut Rig, node: &Node, upto: u64) -> Told {
    for index in 2..=upto {
        let (term, kind, data) = node.entry(index).expect("it is in the log");
        rig.see(&Seen::Applied { member: 1, index, term, kind, data })?;
    }
    Ok(())
}

#[test]
fn two_do_not_lead_in_one_term() {
    let (node, term) = leader();
    let mut rig = Rig::new(None);
    rig.see(&Seen::Leads { member: 1, term, node: &node }).expect("sound");
    rig.see(&Seen::Leads { member: 2, term: term + 1, node: &node }).expect("sound");
    breaks("I3", rig.see(&Seen::Leads { member: 2, term, node: &node }));
}

#[test]
fn a_leader_has_what_was_committed_before_its_term() {
    let (node, term) = leader();
    let applied = node.machine().applied();
    let mut rig = Rig::new(None);
    tell_log(&mut rig, &node, applied).expect("sound");
    rig.see(&Seen::Leads { member: 1, term, node: &node }).expect("it has all");
    // Somebody applies more, while nobody leads in a later term.
    let next = applied + 1;
    rig.ms = 100;
    rig.tell_applied(2, next, term, &bytes(5)).expect("sound");
    let late = Seen::Leads { member: 1, term, node: &node };
    rig.see(&late).expect("it may hear late of its election");
    breaks("I4", rig.see(&Seen::Leads { member: 1, term: term + 1, node: &node }));
}

#[test]
fn a_leader_has_the_same_entries() {
    let (node, term) = leader();
    let applied = node.machine().applied();
    let mut rig = Rig::new(None);
    rig.ms = 100;
    for index in 2..=applied {
        rig.tell_applied(2, index, term + 3, &bytes(5)).expect("sound");
    }
    breaks("I4", rig.see(&Seen::Leads { member: 1, term: term + 1, node: &node }));
}

#[test]
fn in_the_end_all_are_the_same() {
    let (node, _) = leader();
    let applied = node.machine().applied();
    let mut rig = Rig::new(None);
    tell_log(&mut rig, &node, applied).expect("sound");
    let nodes = [(1, &node)];
    rig.see(&Seen::Over { nodes: &nodes }).expect("there is but one");
    // Others have come further, long ago.
    rig.tell_applied(2, applied + 1, 9, &[]).expect("sound");
    rig.see(&Seen::Over { nodes: &nodes }).expect("a moment is allowed");
    let late = Time(5_000_000);
    breaks("I30", rig.checks.see(late, &Seen::Over { nodes: &nodes }));
}

#[test]
fn in_the_end_states_are_compared() {
    let (node, term) = leader();
    let applied = node.machine().applied();
    let mut rig = Rig::new(None);
    rig.ms = 100;
    for index in 2..=applied {
        rig.tell_applied(2, index, term, &bytes(5)).expect("sound");
    }
    // The reference has seen log time move; this node's state has not.
    breaks("I30", rig.see(&Seen::Over { nodes: &[(1, &node)] }));
}
