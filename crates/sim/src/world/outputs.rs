//! What a node wants done is done, in order.

use fencepost_node::io::{Input, MemberId, Output, PeerMessage, Role};

use fencepost_node::peer::lowest_version;

use super::World;
use super::happening::{Happening, ToMember};
use super::member::Write;
use super::network::{End, Route};
use super::shown::{Shown, is_vote};
use crate::bug::Bug;
use crate::seen::Seen;

impl World {
    /// Hands an input to a member that is awake, tells the checkers what came of it, and does
    /// what it wants done.
    pub(super) fn input(&mut self, id: MemberId, input: Input) {
        let now = self.now;
        let Some(member) = self.members.get_mut(&id) else { return };
        let Some(process) = &mut member.process else { return };
        if let Some(ahead) = &mut process.ahead {
            ahead.backlog.push(input);
            return;
        }
        if matches!(self.bug, Some(Bug::Node(_))) {
            process.node.set_wall_clock(member.wall_ahead + now / 1_000);
        }
        let before = process.node.machine().applied();
        let outputs = process.node.rush(member.clock.local(now), [input]);
        let writes = outputs.iter().any(|output| matches!(output, Output::Persist(_)));
        self.come_of(id, before, outputs);
        if !(writes && self.plan.catches_up_late) {
            self.catch_up(id);
        }
    }

    /// Lets a member apply what it has left.
    fn catch_up(&mut self, id: MemberId) {
        // Nobody hears of what follows from something that is not durable.
        let Some(process) = self.process(id).filter(|process| !process.is_ahead()) else { return };
        let before = process.node.machine().applied();
        let outputs = process.node.catch_up();
        self.come_of(id, before, outputs);
    }

    /// Tells the checkers what came of an input, and does what the member wants done.
    pub(super) fn come_of(&mut self, id: MemberId, before: u64, outputs: Vec<Output>) {
        let member = &self.members[&id];
        let Some(process) = &member.process else { return };
        self.watch.tell_progress(self.now, id, &process.node, before, &outputs);
        let life = member.life;
        if process.node.feature_level() > 1 && self.raised_at.is_none() {
            self.raised_at = Some(self.now);
        }
        if let Some(term) = process.node.raise_term() {
            self.raises.entry(term).or_insert(self.now);
        }
        for output in outputs {
            self.carry_out(id, output);
            if self.members[&id].life != life {
                return;
            }
        }
        self.wake_workers(id);
    }

    fn carry_out(&mut self, id: MemberId, output: Output) {
        let now = self.now;
        match output {
            Output::Send(to, message) => self.send(id, to, message),
            // One process of a member is reached at a time here, and by its address.
            Output::SendBack(..) => {}
            Output::Persist(persist) => {
                let last = persist.entries.last().map_or(0, |entry| entry.index);
                let (number, term) = (persist.number, persist.hard_state.term);
                let what = format_args!("n{id} persists {number}: up to {last}, term {term}");
                self.trace.note(now, 20, &[id, number, term, last], what);
                self.write(id, Write::Persist(persist));
            }
            Output::Purge(start) => {
                let what = format_args!("n{id} purges up to {}", start.index);
                self.trace.note(now, 21, &[id, start.index], what);
                self.write(id, Write::Purge(start));
            }
            Output::Snapshot(task) => {
                let tasks = &mut self.process(id).expect("it just spoke").tasks;
                tasks.push_back(*task);
                let waiting = tasks.len() as u64;
                self.trace.note(
                    now,
                    22,
                    &[id, waiting],
                    format_args!("n{id} has {waiting} snapshot tasks"),
                );
            }
            Output::Reply(request, answer) => self.replied(id, request, answer),
            Output::ReadReady(request) => self.read_ready(id, request),
            Output::ReadFailed(request, why) => self.replied(id, request, Err(why)),
            Output::Applied(index, events) => {
                let count = events.len() as u64;
                self.trace.note(
                    now,
                    23,
                    &[id, index, count],
                    format_args!("n{id} applied {index}: {count} events"),
                );
                self.spread_news(id, events);
            }
            Output::Role(role) => self.note_role(id, role),
            Output::Installed(snapshot) => {
                let index = snapshot.index;
                self.trace.note(now, 24, &[id, index], format_args!("n{id} installed {index}"));
            }
            Output::Members(membership) => self.members_changed(id, *membership),
            Output::PeerLevels(_) => {}
            Output::Changed(request, result) => self.changed(request, result),
            Output::Saved(request, result) => self.saved(id, request, result),
            Output::Removed => {
                self.trace.note(now, 25, &[id], format_args!("n{id} was removed"));
                self.retire(id);
            }
            Output::Halt(why) => self.halted(id, &why),
        }
    }

    fn write(&mut self, id: MemberId, write: Write) {
        self.process(id).expect("it just spoke").writes.push_back(write);
    }

    fn send(&mut self, from: MemberId, to: MemberId, message: PeerMessage) {
        // As a connection does with what its version does not have.
        if lowest_version(&message) > self.version_between(from, to) {
            return;
        }
        self.check_sent(from, to, &message);
        self.note_told(to, &message);
        let kind = match &message {
            PeerMessage::Raft(_) => 0,
            PeerMessage::Forward(_) => 1,
            PeerMessage::Forwarded(..) => 2,
            PeerMessage::SnapshotWanted { .. } => 3,
            PeerMessage::SnapshotPiece(_) => 4,
            PeerMessage::SnapshotGone(_) => 5,
            PeerMessage::YouWereRemoved => 6,
            PeerMessage::AmIAMember => 7,
            PeerMessage::Introduction(_) => 8,
            PeerMessage::CopiedDirectory { .. } => 9,
        };
        let Route { first, copy } =
            self.network.route(self.now, (End::Member(from), End::Member(to)));
        let arrives = first.unwrap_or(0);
        let what = format_args!("n{from} to n{to}: {}, arrives {arrives}", Shown(&message));
        self.trace.note(self.now, 26, &[from, to, kind, arrives], what);
        let votes = match &message {
            PeerMessage::Raft(bytes) => {
                self.trace.bytes(bytes);
                is_vote(bytes)
            }
            _ => false,
        };
        if let Some(at) = copy {
            let hears = ToMember::Hears(from, message.clone());
            self.agenda.plan(at, Happening::Member(to, hears));
        }
        if let Some(at) = first {
            self.agenda.plan(at, Happening::Member(to, ToMember::Hears(from, message)));
        }
        if votes {
            self.voted(from, to);
        }
    }

    fn note_role(&mut self, id: MemberId, role: Role) {
        let Role { term, leader, leads } = role;
        let numbers = [id, term, leader.unwrap_or(0), u64::from(leads)];
        self.trace.note(
            self.now,
            27,
            &numbers,
            format_args!("n{id} in term {term}: leader {leader:?}"),
        );
        let Some(member) = self.members.get_mut(&id) else { return };
        if leads && member.led_in != term {
            member.led_in = term;
            let node = member.node().expect("it just spoke");
            self.watch.tell(self.now, &Seen::Leads { member: id, term, node });
        }
    }

    /// A node that stops by itself has found a log that it cannot follow. Its disk may be to
    /// blame; nothing else may.
    fn halted(&mut self, id: MemberId, why: &str) {
        self.trace.note(self.now, 28, &[id], format_args!("n{id} halts: {why}"));
        if self.upgrade_if_too_old(id, why) {
            return;
        }
        if self.first_has_halted(id) {
            return;
        }
        if self.members[&id].is_damaged {
            self.lose(id);
        } else {
            self.watch.broken("halt", format!("member {id} halts: {why}"));
        }
    }
}
