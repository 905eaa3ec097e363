//! The network: it loses, doubles, delays and reorders, and its links can be cut one way or both.

use std::collections::BTreeMap;

use fencepost_node::io::MemberId;

use crate::dice::Dice;
use crate::plan::NetworkPlan;

/// Where a link begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// At a member.
    Member(MemberId),
    /// At a client.
    Client(u32),
}

/// A link, in one direction.
pub(crate) type Link = (End, End);

/// When a message arrives, and its copy, if the network makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The message; nothing if it is lost.
    pub(crate) first: Option<u64>,
    /// Its copy.
    pub(crate) copy: Option<u64>,
}

/// The state of all links.
pub(crate) struct Network {
    plan: NetworkPlan,
    /// The weather that comes back after a calm.
    weather: NetworkPlan,
    dice: Dice,
    /// How many faults cut a link: it works again when the last of them has ended.
    cuts: BTreeMap<Link, u32>,
    /// How much longer a link takes, and until when.
    slow: BTreeMap<Link, (u64, u64)>,
    /// When the last message of a link arrives, if messages keep their order.
    last: BTreeMap<Link, u64>,
    /// Counts how often all was healed.
    pub(crate) generation: u64,
}

impl Network {
    pub(crate) fn new(plan: NetworkPlan, dice: Dice) -> Network {
        Network {
            plan,
            weather: plan,
            dice,
            cuts: BTreeMap::new(),
            slow: BTreeMap::new(),
            last: BTreeMap::new(),
            generation: 0,
        }
    }

    /// When what is sent now arrives.
    pub(crate) fn route(&mut self, now: u64, link: Link) -> Route {
        if self.is_cut(link) || self.dice.chance(self.plan.loss) {
            return Route { first: None, copy: None };
        }
        let copy = self.dice.chance(self.plan.duplicate).then(|| now + self.copy_delay(link, now));
        let mut at = now + self.delay(link, now);
        if self.plan.keeps_order {
            let last = self.last.entry(link).or_default();
            at = at.max(*last + 1);
            *last = at;
        }
        Route { first: Some(at), copy }
    }

    /// How long one message takes.
    fn delay(&mut self, link: Link, now: u64) -> u64 {
        let (low, high) = self.plan.latency;
        let mut delay = self.dice.between(low, high);
        if self.plan.tail > 0 && self.dice.chance(self.plan.tail) {
            delay += self.dice.roll(self.plan.tail_max);
        }
        if !self.slow.is_empty()
            && let Some(&(extra, until)) = self.slow.get(&link)
            && now < until
        {
            delay += self.dice.between(extra / 2, extra);
        }
        delay
    }

    /// A copy may come long after, when everything has changed.
    fn copy_delay(&mut self, link: Link, now: u64) -> u64 {
        let later = if self.dice.roll(8) == 0 { 5_000_000 } else { 50_000 };
        self.delay(link, now) + self.dice.roll(later)
    }

    pub(crate) fn is_cut(&self, link: Link) -> bool {
        !self.cuts.is_empty() && self.cuts.contains_key(&link)
    }

    /// Begins or ends a cut of these links.
    pub(crate) fn cut(&mut self, links: &[Link], begins: bool) {
        for &link in links {
            let count = self.cuts.entry(link).or_default();
            *count = if begins { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.cuts.remove(&link);
            }
        }
    }

    /// Makes a link take so much longer for a while.
    pub(crate) fn slow_down(&mut self, link: Link, extra: u64, until: u64) {
        self.slow.insert(link, (extra, until));
    }

    /// Ends all faults, for good.
    pub(crate) fn heal(&mut self) {
        self.weather = self.weather.healed();
        self.storm();
    }

    /// Ends all faults, until [`Network::storm`].
    pub(crate) fn calm(&mut self) {
        self.storm();
        self.plan = self.weather.healed();
    }

    /// Ends all cuts, and lets the weather be what it was.
    pub(crate) fn storm(&mut self) {
        self.generation += 1;
        self.cuts.clear();
        self.slow.clear();
        // Connections are new: nothing waits behind what is still on its way over an old one.
        self.last.clear();
        self.plan = self.weather;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: Link = (End::Member(1), End::Client(2));

    fn plan() -> NetworkPlan {
        NetworkPlan {
            latency: (10, 20),
            loss: 0,
            duplicate: 0,
            tail: 0,
            tail_max: 1,
            keeps_order: false,
        }
    }

    fn network(plan: NetworkPlan) -> Network {
        Network::new(plan, Dice::new(1, 1))
    }

    #[test]
    fn a_link_works_again_when_the_last_of_its_cuts_has_ended() {
        let mut network = network(plan());
        network.cut(&[LINK], true);
        network.cut(&[LINK], true);
        network.cut(&[LINK], false);
        assert_eq!(network.route(0, LINK).first, None);
        network.cut(&[LINK], false);
        assert!(network.route(0, LINK).first.is_some());
    }

    #[test]
    fn an_orderly_network_lets_nothing_overtake() {
        let mut network = network(NetworkPlan { keeps_order: true, latency: (1, 1_000), ..plan() });
        let arrivals: Vec<_> = (0..100).map(|now| network.route(now, LINK).first).collect();
        assert!(arrivals.is_sorted());
    }

    #[test]
    fn after_healing_nothing_waits_behind_what_is_late() {
        let mut network = network(plan());
        network.slow_down(LINK, 1_000_000, u64::MAX);
        assert!(network.route(0, LINK).first.is_some_and(|at| at > 20));
        network.heal();
        assert!(network.route(0, LINK).first.is_some_and(|at| at <= 20));
    }

    #[test]
    fn healing_ends_everything() {
        let mut network = network(NetworkPlan { loss: 1_000_000, duplicate: 1_000_000, ..plan() });
        network.cut(&[LINK], true);
        network.slow_down(LINK, 1_000_000, u64::MAX);
        network.heal();
        let Route { first, copy } = network.route(0, LINK);
        assert!(first.is_some_and(|at| at <= 20), "{first:?}");
        assert_eq!(copy, None);
    }
}
