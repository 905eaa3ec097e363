//! Faults of the network.

use fencepost_node::io::MemberId;

use super::World;
use crate::plan::{MS, SECOND};
use crate::world::happening::{Cut, Happening};
use crate::world::network::{End, Link};

/// How often a link flaps in one fault.
const FLAPS: u64 = 6;

impl World {
    /// How long a fault lasts.
    fn lasts(&mut self) -> u64 {
        let most = *self.dice.faults.pick(&[300 * MS, 2 * SECOND, 8 * SECOND]);
        self.dice.faults.between(100 * MS, most)
    }

    /// Cuts links after a while, for a while.
    fn cut_for(&mut self, after: u64, length: u64, links: Vec<Link>) {
        let generation = self.network.generation;
        let ends = Cut { generation, links: links.clone(), begins: false };
        self.plan_in(after, Happening::Cut(Box::new(Cut { generation, links, begins: true })));
        self.plan_in(after + length, Happening::Cut(Box::new(ends)));
    }

    /// Cuts begin or end.
    pub(in crate::world) fn cut(&mut self, cut: &Cut) {
        if cut.generation == self.network.generation {
            let numbers = [cut.links.len() as u64, u64::from(cut.begins)];
            let word = if cut.begins { "cut" } else { "mended" };
            let what = format_args!("{word}: {:?}", cut.links);
            self.trace.note(self.now, 101, &numbers, what);
            self.network.cut(&cut.links, cut.begins);
        }
    }

    fn ends(&self) -> Vec<End> {
        let members = self.membership.1.members.keys().map(|&id| End::Member(id));
        let clients = (0..self.plan.workload.clients).map(End::Client);
        members.chain(clients).collect()
    }

    pub(super) fn partition(&mut self) -> bool {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        // Clients are either all with both parts, or each with one of them.
        let splits_clients = self.dice.faults.roll(2) == 0;
        for end in self.ends() {
            let side = if self.dice.faults.roll(2) == 0 { &mut left } else { &mut right };
            if splits_clients || matches!(end, End::Member(_)) {
                side.push(end);
            }
        }
        let is_member = |end: &End| matches!(end, End::Member(_));
        if !left.iter().any(is_member) || !right.iter().any(is_member) {
            return false;
        }
        let pairs = left.iter().flat_map(|&a| right.iter().map(move |&b| (a, b)));
        let links = pairs.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let length = self.lasts();
        self.cut_for(0, length, links);
        true
    }

    pub(super) fn one_way(&mut self) -> bool {
        let Some(from) = self.a_running() else { return false };
        let others: Vec<End> =
            self.ends().into_iter().filter(|&end| end != End::Member(from)).collect();
        let everyone = self.dice.faults.roll(2) == 0;
        let incoming = self.dice.faults.roll(2) == 0;
        let chosen = if everyone { others } else { vec![*self.dice.faults.pick(&others)] };
        let link = |other| match incoming {
            true => (other, End::Member(from)),
            false => (End::Member(from), other),
        };
        let length = self.lasts();
        self.cut_for(0, length, chosen.into_iter().map(link).collect());
        true
    }

    /// Cuts a member off from the others. Its clients still reach it.
    pub(super) fn isolate(&mut self, victim: Option<MemberId>) -> bool {
        let Some(victim) = victim else { return false };
        let others = self.membership.1.members.keys().copied().filter(|&id| id != victim);
        let links: Vec<Link> = others.flat_map(|other| both_ways(victim, other)).collect();
        let length = self.lasts();
        let any = !links.is_empty();
        self.cut_for(0, length, links);
        any
    }

    pub(super) fn bridge(&mut self) -> bool {
        let mut members: Vec<MemberId> = self.membership.1.members.keys().copied().collect();
        if members.len() < 3 {
            return false;
        }
        let middle = *self.dice.faults.pick(&members);
        members.retain(|&id| id != middle);
        let at = usize::try_from(self.dice.faults.between(1, members.len() as u64 - 1));
        let (left, right) = members.split_at(at.unwrap_or(1));
        let pairs = left.iter().flat_map(|&a| right.iter().flat_map(move |&b| both_ways(a, b)));
        let links = pairs.collect();
        let length = self.lasts();
        self.cut_for(0, length, links);
        true
    }

    fn a_pair(&mut self) -> Option<(MemberId, MemberId)> {
        let mut members: Vec<MemberId> = self.membership.1.members.keys().copied().collect();
        if members.len() < 2 {
            return None;
        }
        let one = *self.dice.faults.pick(&members);
        members.retain(|&id| id != one);
        Some((one, *self.dice.faults.pick(&members)))
    }

    pub(super) fn flap(&mut self) -> bool {
        let Some((one, other)) = self.a_pair() else { return false };
        let period = self.dice.faults.between(200 * MS, SECOND);
        for flap in 0..FLAPS {
            self.cut_for(flap * period, period / 2, both_ways(one, other).to_vec());
        }
        true
    }

    pub(super) fn slow_link(&mut self) -> bool {
        let Some((one, other)) = self.a_pair() else { return false };
        let until = self.now + self.lasts();
        let extra = *self.dice.faults.pick(&[50 * MS, 300 * MS, SECOND]);
        for link in both_ways(one, other) {
            self.network.slow_down(link, extra, until);
        }
        true
    }

    pub(super) fn swizzle(&mut self) -> bool {
        let Some((one, _)) = self.a_pair() else { return false };
        let others: Vec<MemberId> =
            self.membership.1.members.keys().copied().filter(|&id| id != one).collect();
        let total = self.lasts();
        for other in others {
            let begins = self.dice.faults.roll(total);
            let length = self.dice.faults.between(1, total);
            self.cut_for(begins, length, both_ways(one, other).to_vec());
        }
        true
    }
}

fn both_ways(one: MemberId, other: MemberId) -> [Link; 2] {
    let (one, other) = (End::Member(one), End::Member(other));
    [(one, other), (other, one)]
}
