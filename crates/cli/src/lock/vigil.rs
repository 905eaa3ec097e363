//! What a watchdog decides, without a clock and without processes.
//!
//! Guarantees: as long as the supervisor says nothing new, the group is asked to end at the stop and
//! killed at the kill that it named last. If the supervisor is gone, the group is asked at once, and
//! killed after the grace or at that moment, whichever comes first. It is killed again and again for
//! a while: those outside the group may make others that are not seen at first.

use std::time::Duration;

use super::timeline::Moment;
use super::words::Word;

/// How often to look whether a group that was asked to end has done so.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long to go on killing those who are not seen to be gone.
const KILL_FOR: Duration = Duration::from_secs(2);

/// Something to be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Say that the group and its deadline are known.
    SayWatching,
    /// Ask the group to end.
    Ask,
    /// End it.
    Kill,
    /// There is nothing left to do.
    Leave,
}

/// A watch over one process group.
#[derive(Debug)]
pub(crate) struct Vigil {
    grace: Duration,
    has_group: bool,
    until: Option<(Moment, Moment)>,
    /// Since the group was asked to end: when it will be killed.
    kill_at: Option<Moment>,
    /// Since it was killed: there is no way back.
    killed_at: Option<Moment>,
    is_alone: bool,
}

impl Vigil {
    pub(crate) fn new(grace: Duration) -> Vigil {
        Vigil {
            grace,
            has_group: false,
            until: None,
            kill_at: None,
            killed_at: None,
            is_alone: false,
        }
    }

    /// When to look next. Nothing before the supervisor has named a moment.
    pub(crate) fn next_look(&self, now: Moment) -> Option<Moment> {
        match (self.kill_at, self.until) {
            (Some(kill), _) if now < kill => Some(kill.min(now.after(LOOK_EVERY))),
            (Some(_), _) => Some(now.after(LOOK_EVERY)),
            (None, Some((stop, _))) if self.has_group => Some(stop),
            (None, _) => None,
        }
    }

    /// The supervisor says something.
    pub(crate) fn hear(&mut self, word: Word, now: Moment) -> Option<Action> {
        let was_watching = self.is_watching();
        match word {
            Word::Group(_) => self.has_group = true,
            Word::Until { stop, kill } => {
                self.until = Some((stop, kill));
                // It is there after all, and has renewed: it decides again.
                if stop > now && self.killed_at.is_none() {
                    self.kill_at = None;
                }
            }
            Word::Finished => return Some(Action::Leave),
        }
        (self.is_watching() && !was_watching).then_some(Action::SayWatching)
    }

    /// The supervisor is gone without a last word.
    pub(crate) fn is_left_alone(&mut self, now: Moment) -> Action {
        if !self.has_group {
            // The command has not begun, and dies with its supervisor.
            return Action::Leave;
        }
        self.is_alone = true;
        let kill = now.after(self.grace);
        self.kill_at = Some(self.until.map_or(kill, |(_, latest)| kill.min(latest)));
        Action::Ask
    }

    /// Time went by. `is_gone` says whether nobody is left in the group.
    pub(crate) fn look(&mut self, now: Moment, is_gone: bool) -> Option<Action> {
        match self.kill_at {
            Some(_) if is_gone && self.is_alone && self.killed_at.is_none() => Some(Action::Leave),
            Some(kill) if now >= kill => Some(self.kill(now)),
            Some(_) => None,
            None => {
                let (stop, kill) = self.until.filter(|_| self.has_group)?;
                if now < stop {
                    return None;
                }
                self.kill_at = Some(kill);
                Some(if now < kill { Action::Ask } else { self.kill(now) })
            }
        }
    }

    fn kill(&mut self, now: Moment) -> Action {
        let killed_at = *self.killed_at.get_or_insert(now);
        if now < killed_at.after(KILL_FOR) { Action::Kill } else { Action::Leave }
    }

    fn is_watching(&self) -> bool {
        self.has_group && self.until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::Pid;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1_000)
    }

    fn until(stop: u64, kill: u64) -> Word {
        Word::Until { stop: at(stop), kill: at(kill) }
    }

    fn watching() -> Vigil {
        let mut vigil = Vigil::new(Duration::from_millis(500));
        let group = Pid::from_raw(99).expect("not zero");
        assert_eq!(vigil.hear(Word::Group(group), at(0)), None);
        assert_eq!(vigil.next_look(at(0)), None);
        assert_eq!(vigil.hear(until(2_000, 2_500), at(0)), Some(Action::SayWatching));
        vigil
    }

    #[test]
    fn a_silent_supervisor_costs_the_command_its_life_in_two_steps() {
        let mut vigil = watching();
        assert_eq!(vigil.next_look(at(0)), Some(at(2_000)));
        assert_eq!(vigil.look(at(1_999), false), None);
        assert_eq!(vigil.look(at(2_000), false), Some(Action::Ask));
        assert_eq!(vigil.next_look(at(2_000)), Some(at(2_020)));
        assert_eq!(vigil.look(at(2_499), false), None);
        assert_eq!(vigil.look(at(2_500), false), Some(Action::Kill));
        // Once killed, it is not spared, and not given up at the first look.
        assert_eq!(vigil.hear(until(9_000, 9_500), at(2_510)), None);
        assert_eq!(vigil.next_look(at(2_510)), Some(at(2_530)));
        assert_eq!(vigil.look(at(2_530), false), Some(Action::Kill));
        assert_eq!(vigil.look(at(4_500), false), Some(Action::Leave));
    }

    #[test]
    fn renewals_put_it_off() {
        let mut vigil = watching();
        assert_eq!(vigil.hear(until(3_000, 3_500), at(1_900)), None);
        assert_eq!(vigil.look(at(2_900), false), None);
        assert_eq!(vigil.look(at(3_000), false), Some(Action::Ask));
    }

    #[test]
    fn a_supervisor_that_comes_back_in_time_decides_again() {
        let mut vigil = watching();
        assert_eq!(vigil.look(at(2_000), false), Some(Action::Ask));
        assert_eq!(vigil.hear(until(3_000, 3_500), at(2_100)), None);
        assert_eq!(vigil.look(at(2_600), false), None);
        // One that only repeats what is past does not.
        assert_eq!(vigil.look(at(3_000), false), Some(Action::Ask));
        assert_eq!(vigil.hear(until(3_000, 3_500), at(3_100)), None);
        assert_eq!(vigil.look(at(3_500), false), Some(Action::Kill));
    }

    #[test]
    fn after_a_long_sleep_there_is_no_grace() {
        let mut vigil = watching();
        assert_eq!(vigil.look(at(60_000), false), Some(Action::Kill));
    }

    #[test]
    fn a_dead_supervisor_is_acted_on_at_once() {
        let mut vigil = watching();
        assert_eq!(vigil.is_left_alone(at(100)), Action::Ask);
        assert_eq!(vigil.look(at(599), false), None);
        assert_eq!(vigil.look(at(600), false), Some(Action::Kill));
        let mut vigil = watching();
        assert_eq!(vigil.is_left_alone(at(2_300)), Action::Ask);
        assert_eq!(vigil.look(at(2_500), false), Some(Action::Kill), "the deadline comes first");
    }

    #[test]
    fn nobody_is_killed_who_has_gone_already() {
        let mut vigil = watching();
        assert_eq!(vigil.is_left_alone(at(100)), Action::Ask);
        assert_eq!(vigil.look(at(120), true), Some(Action::Leave));
    }

    #[test]
    fn a_last_word_or_no_command_ends_it() {
        let mut vigil = watching();
        assert_eq!(vigil.hear(Word::Finished, at(5)), Some(Action::Leave));
        assert_eq!(Vigil::new(Duration::ZERO).is_left_alone(at(5)), Action::Leave);
    }
}
