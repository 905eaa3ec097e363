//! A disk that is set back to an older copy, and a log that loses its end.
//!
//! The members that could elect a leader without the lost entries are the one with the older disk
//! and one that lags behind. What prevents it is the third, which has seen the first confirm them.
//! If that one is away for longer than a restarted member waits, nothing can: so here it is not.

use fencepost_node::disk::{Crash, Disk as _, DiskFile as _, MemoryDisk, NamesKept, WritesKept};
use fencepost_node::io::{Introduction, MemberId, PeerMessage};
use fencepost_node::log_end::LogEnd;
use fencepost_node::wal::{Wal, WalConfig};

use super::World;
use crate::fault::FaultKind;
use crate::plan::{LAST_LOSS_AT, MS, SECOND};
use crate::world::happening::Happening;
use crate::world::member::Member;
use crate::world::network::{End, Link};
use crate::world::stop::Ending;

/// How long a leader is cut off, so that it notices that it leads no more.
const STEP_DOWN: u64 = 2 * SECOND;
/// By then a member with an older disk has met the witness.
const MEETING: u64 = 1_500 * MS;
/// How long after the older disk the witness starts: less than a restarted member waits for it.
const WITNESS_LATE: u64 = 700 * MS;
/// What a segment begins with. Without it, it is no segment.
const SEGMENT_HEAD: usize = 256;
/// How much of the end of a log is lost at most.
const LOST_BYTES_MAX: u64 = 2_048;

/// How the older disk meets the witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Both restart at the same time.
    Together,
    /// The witness goes on, but leads no more.
    SteppedDown,
    /// The witness restarts later, while the lagging member campaigns.
    WitnessLate,
}

/// A disk that is to be set back, or was.
pub(in crate::world) struct Stale {
    way: Way,
    /// The leader, which sees the victim confirm entries.
    witness: MemberId,
    victim: MemberId,
    lagging: MemberId,
    /// The older copy, its boot counter, and its last entry.
    copy: (MemoryDisk, u64, u64),
    /// What the witness had seen before it led no more.
    noted: u64,
    /// What the witness has seen, once the disk is set back.
    seen: Option<u64>,
}

/// A step of such a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum StaleStep {
    /// Entries were confirmed since the copy was made.
    Stop,
    /// The leader leads no more.
    SetBack,
    /// The member has met the witness.
    Over,
}

fn both_ways(a: MemberId, b: MemberId) -> [Link; 2] {
    let (a, b) = (End::Member(a), End::Member(b));
    [(a, b), (b, a)]
}

impl World {
    pub(super) fn set_a_disk_back(&mut self) -> bool {
        let Some((witness, victim, lagging)) = self.a_trio() else { return false };
        let way = *self.dice.faults.pick(&[Way::Together, Way::SteppedDown, Way::WitnessLate]);
        let member = &self.members[&victim];
        let durable = Crash { writes: WritesKept::None, names: NamesKept::None };
        let disk = member.disk.crash(durable);
        let Some(last) = self.last_index_on(&disk) else { return false };
        let copy = (disk, self.members[&victim].boot, last);
        self.a_voter_is_doomed = false;
        self.network.calm();
        self.network.cut(&both_ways(lagging, witness), true);
        self.network.cut(&both_ways(lagging, victim), true);
        self.stale = Some(Stale { way, witness, victim, lagging, copy, noted: 0, seen: None });
        let wait = self.dice.faults.between(SECOND, 3 * SECOND);
        self.plan_in(wait, Happening::Stale(StaleStep::Stop));
        true
    }

    /// The leader and the two others, of a cluster of three in which nothing else is wrong.
    fn a_trio(&mut self) -> Option<(MemberId, MemberId, MemberId)> {
        let leader = self.leader()?;
        let mut others = self.voters();
        let is_well = |id: &MemberId| {
            let member = &self.members[id];
            let level = member.node().map_or(0, |node| node.feature_level());
            member.is_awake() && member.is_whole() && member.trap.is_none() && level == 2
        };
        let is_time = self.now < LAST_LOSS_AT && self.stale.is_none();
        if !is_time || others.len() != 3 || !others.iter().all(is_well) {
            return None;
        }
        others.retain(|&id| id != leader);
        let [a, b] = others[..] else { return None };
        let (victim, lagging) = if self.dice.faults.roll(2) == 0 { (a, b) } else { (b, a) };
        self.can_lose(victim).then_some((leader, victim, lagging))
    }

    fn wal_config(&self) -> WalConfig {
        WalConfig { segment_bytes: self.plan.disk.segment_bytes, salt: self.plan.seed }
    }

    fn last_index_on(&self, disk: &MemoryDisk) -> Option<u64> {
        let (wal, _) = Wal::open(disk.fork(), self.wal_config()).ok()?;
        Some(wal.last_index())
    }

    /// What a member that does not run has on its disk about another one.
    fn witness_on_disk(&self, witness: MemberId, of: MemberId) -> u64 {
        let disk = self.members[&witness].disk.fork();
        let log = Wal::open(disk, self.wal_config()).map(|(_, log)| log.witnesses);
        log.unwrap_or_default().get(&of).map_or(0, |witness| witness.index)
    }

    /// Goes on with a disk that is set back.
    pub(in crate::world) fn go_on_with_stale(&mut self, step: StaleStep) {
        let Some(stale) = &self.stale else { return };
        let Stale { way, witness, victim, lagging, .. } = *stale;
        let (copied, copied_boot) = (stale.copy.2, stale.copy.1);
        match step {
            StaleStep::Stop => {
                let seen = self.members[&witness].node().map_or(0, |node| node.witness(victim));
                let runs = |id: &MemberId| self.members[id].is_awake();
                let is_usable = self.leader() == Some(witness)
                    && self.members[&victim].boot == copied_boot
                    && [witness, victim, lagging].iter().all(runs);
                if !is_usable || seen <= copied {
                    return self.end_stale();
                }
                self.end_process(victim, Ending::Killed);
                if way == Way::SteppedDown {
                    if let Some(stale) = &mut self.stale {
                        stale.noted = seen;
                    }
                    self.network.cut(&both_ways(witness, victim), true);
                    self.plan_in(STEP_DOWN, Happening::Stale(StaleStep::SetBack));
                    return;
                }
                let kills = self.dice.faults.roll(2) == 0;
                self.end_process(witness, if kills { Ending::Killed } else { Ending::PowerCut });
                self.set_back(way);
            }
            StaleStep::SetBack => self.set_back(way),
            StaleStep::Over => {
                let stale = self.stale.as_ref().is_some_and(|stale| stale.seen.is_some());
                if stale && self.members[&victim].process.is_some() {
                    let what = format!("member {victim} goes on with an older disk");
                    self.watch.broken("stale-disk", what);
                }
                self.end_stale();
            }
        }
    }

    /// Sets the disk back, if the witness can know it, and starts what was stopped.
    fn set_back(&mut self, way: Way) {
        let Some(stale) = &self.stale else { return };
        let Stale { witness, victim, lagging, noted, .. } = *stale;
        let (disk, boot, last) = (stale.copy.0.fork(), stale.copy.1, stale.copy.2);
        let seen = match self.members[&witness].node() {
            Some(node) => node.witness(victim),
            None => self.witness_on_disk(witness, victim),
        };
        let seen = seen.max(noted);
        self.plan_in(0, Happening::Start(victim));
        let late = if way == Way::WitnessLate { WITNESS_LATE } else { 0 };
        self.plan_in(late, Happening::Start(witness));
        if seen > last {
            self.count(FaultKind::OlderDisk);
            let what = format_args!("n{victim} is set back to {last}, n{witness} has seen {seen}");
            self.trace.note(self.now, 104, &[victim, last, seen], what);
            let member = self.members.get_mut(&victim).expect("it was just stopped");
            (member.disk, member.boot) = (disk, boot);
            member.is_damaged = true;
            if let Some(stale) = &mut self.stale {
                stale.seen = Some(seen);
            }
        }
        if way != Way::Together {
            self.network.cut(&both_ways(lagging, victim), false);
        }
        if way == Way::SteppedDown {
            self.network.cut(&both_ways(witness, victim), false);
        }
        self.plan_in(MEETING, Happening::Stale(StaleStep::Over));
    }

    /// Lets everything else go wrong again.
    pub(in crate::world) fn end_stale(&mut self) {
        if self.stale.take().is_some() {
            self.network.storm();
        }
    }

    /// A member introduces itself. The witness must remember what it has seen.
    pub(in crate::world) fn check_sent(
        &mut self,
        from: MemberId,
        to: MemberId,
        sent: &PeerMessage,
    ) {
        let (Some(stale), PeerMessage::Introduction(sent)) = (&self.stale, sent) else { return };
        if (from, to) == (stale.witness, stale.victim) && stale.seen > Some(sent.witnessed) {
            let what = format!("member {from} has forgotten what it has seen of member {to}");
            self.watch.broken("stale-disk", what);
        }
    }

    /// The victim meets the witness. Entries that were still on their way can have given back what
    /// the older disk had lost: then the victim may go on.
    pub(in crate::world) fn note_meeting(
        &mut self,
        id: MemberId,
        from: MemberId,
        message: &PeerMessage,
    ) {
        let has_all = !self.must_stop(id, message);
        let (Some(stale), PeerMessage::Introduction(sent)) = (&mut self.stale, message) else {
            return;
        };
        let knows = stale.seen.is_some_and(|seen| sent.witnessed >= seen);
        if (from, id) == (stale.witness, stale.victim) && knows && has_all {
            stale.seen = None;
        }
    }

    /// Whether a member must stop when it reads this.
    pub(in crate::world) fn must_stop(&self, id: MemberId, message: &PeerMessage) -> bool {
        let PeerMessage::Introduction(introduction) = message else { return false };
        let Introduction { witnessed, .. } = **introduction;
        let last = self.members[&id].node().map_or(u64::MAX, |node| node.last_index());
        witnessed > last
    }

    /// Stops a member in good order, and takes the end of its log away. A log that could not be
    /// closed, because the disk is full or fails, stays whole: its next process could not notice, and
    /// the members that could may be away.
    pub(super) fn cut_a_log(&mut self) -> bool {
        let Some(victim) = self.a_voter_to_lose() else { return false };
        let process = self.members[&victim].process.as_ref().expect("it runs");
        let last = process.wal.last_index();
        self.end_process(victim, Ending::Stopped);
        let Member { disk, boot, .. } = &self.members[&victim];
        let (disk, boot) = (disk.clone(), *boot);
        let end = LogEnd::load(&disk).ok().flatten();
        if end.is_none_or(|end| end.boot != boot) {
            self.start_later(victim);
            return true;
        }
        let names = disk.list().unwrap_or_default();
        let Some(name) = names.iter().filter(|name| name.ends_with(".wal")).max() else {
            return false;
        };
        let bytes = disk.contents(name).unwrap_or_default();
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let lost = usize::try_from(self.dice.disk.between(16, LOST_BYTES_MAX)).unwrap_or(0);
        let from = end.saturating_sub(lost).max(SEGMENT_HEAD);
        if from < end
            && let Ok(mut file) = disk.open(name)
        {
            let (from, lost) = (from as u64, (end - from + 1) as u64);
            drop(file.write_zeros(from, lost).and_then(|()| file.sync_data()));
        }
        let member = self.members.get_mut(&victim).expect("it was just stopped");
        member.is_damaged = true;
        member.closed_at = last;
        self.start_later(victim);
        true
    }
}
