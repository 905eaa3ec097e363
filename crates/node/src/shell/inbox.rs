//! Everything that waits for the loop, in one queue with room for each kind.
//!
//! Whoever brings something may carry it through by itself, if nobody is at it: waking another
//! thread takes longer than most turns of the loop. If somebody is, it is left to them. So under
//! load there is one thread that works off what others bring, and otherwise no thread waits for
//! another.
//!
//! A flood of one kind must not keep out another: renewals have room of their own beside ordinary
//! commands, and what other members say, beside both. Clients are refused at once when there is no
//! room; members wait, which slows their connection down. What the node's own threads report always
//! has room, because it is bounded by what they were given to do; so do connections that come and go.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::edge;
use super::event_loop::EventLoop;
use super::log_writer::LogWork;
use super::mail::{Freshness, Mailbox};
use super::notice::{Notice, Observer};
use super::reads::Query;
use crate::io::{Class, Input, MemberId, ProposeError, RequestId};

/// Commands and queries that may wait.
const ORDINARY_MAX: usize = 16_384;
/// Renewals that may wait.
const RENEWALS_MAX: usize = 16_384;
/// Requests of operators, and greetings of members, that may wait.
const CONTROL_MAX: usize = 4_096;
/// Bytes that other members may have waiting.
const PEER_BYTES_MAX: usize = 32 << 20;

/// If somebody had to wake the loop's thread for a turn that it would have slept through, it sleeps
/// lightly for this long...
const LIGHT_SLEEP: Duration = Duration::from_millis(20);
/// ...which means for so long at a time: as long as whatever waits for company does.
const NAP: Duration = Duration::from_millis(1);

/// Something that happens to the loop.
pub(super) enum Happening {
    Input(Input),
    Query(RequestId, Freshness, Query),
    Register(u64, Box<dyn Mailbox>),
    Unregister(u64),
    Observe(Box<dyn Observer>),
    /// A member has greeted this one, and says where it is reached.
    Met(MemberId, String),
    /// The connection from a member has ended.
    Lost(MemberId),
    /// Something that those who observe the node should hear.
    Tell(Notice),
    /// End, after handing leadership over.
    Stop,
    /// End at once.
    Kill,
    /// A thread of this node cannot go on.
    Failed(String),
}

/// How many kinds of room there are.
const LANES: usize = 5;

/// What kind of room a happening takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Ordinary,
    Renewal,
    Control,
    /// Connections that come and go. Always has room, because a thread that lets a connection go must
    /// not wait; bounded by the number of connections.
    Lines,
    /// The node's own threads.
    Own,
}

impl Lane {
    pub(super) fn of(class: Class) -> Lane {
        match class {
            Class::Ordinary => Lane::Ordinary,
            Class::Renewal => Lane::Renewal,
        }
    }

    fn max(self) -> usize {
        match self {
            Lane::Ordinary => ORDINARY_MAX,
            Lane::Renewal => RENEWALS_MAX,
            Lane::Control => CONTROL_MAX,
            Lane::Lines | Lane::Own => usize::MAX,
        }
    }
}

#[derive(Default)]
struct State {
    queue: Vec<Happening>,
    counts: [usize; LANES],
    peer_bytes: usize,
    closed: bool,
    /// Whether the loop's thread sleeps. A wake-up is a system call, so it is only made for a
    /// sleeper.
    sleeps: bool,
    /// Until when it does.
    sleeps_until: Option<Instant>,
    /// How long it is to look often whether there is something to do.
    sleeps_lightly_until: Option<Instant>,
    /// When the loop wants a turn, as of the last one that somebody else has taken.
    next_turn: Option<Instant>,
    /// The loop's thread is to look, although nothing waits.
    look: bool,
    waiting_for_room: usize,
}

impl State {
    fn has_room(&self, lane: Lane) -> bool {
        self.counts[lane as usize] < lane.max()
    }

    /// Whether the loop's thread sleeps longer than until then. From now on it sleeps lightly for a while,
    /// so that whoever wants the next turn soon need not wake it.
    fn oversleeps(&mut self, next_turn: Instant) -> bool {
        let late = if self.sleeps_lightly_until.is_some() { NAP } else { Duration::ZERO };
        let oversleeps = self.sleeps_until.is_some_and(|until| next_turn + late < until);
        if oversleeps {
            self.sleeps_lightly_until = Some(edge::now() + LIGHT_SLEEP);
        }
        oversleeps
    }

    /// How long the loop's thread sleeps, if it has nothing to do for so long.
    fn nap(&self, left: Duration) -> Duration {
        if self.sleeps_lightly_until.is_some() { left.min(NAP) } else { left }
    }

    fn put(&mut self, lane: Lane, happening: Happening) {
        self.counts[lane as usize] += 1;
        self.queue.push(happening);
    }
}

/// Everything that waits for the loop.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    some: Condvar,
    room: Condvar,
    /// The loop, for whoever takes a turn. Nothing before it begins and after it has ended.
    seat: Mutex<Option<Box<EventLoop>>>,
}

impl Inbox {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so it is never left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let sleeps = std::mem::take(&mut state.sleeps);
        drop(state);
        if sleeps {
            self.some.notify_one();
        }
    }

    /// Works off what waits, if nobody else does.
    pub(super) fn work(&self) {
        if !self.state().queue.is_empty() {
            self.work_here();
        }
    }

    /// Puts something in if there is room. Whoever does has to [`work`](Inbox::work) soon.
    pub(super) fn leave(&self, lane: Lane, happening: Happening) -> Result<(), ProposeError> {
        let mut state = self.state();
        if state.closed {
            return Err(ProposeError::NoLeader);
        }
        if !state.has_room(lane) {
            return Err(ProposeError::Overloaded);
        }
        state.put(lane, happening);
        Ok(())
    }

    /// Puts in as many as there is room for, and gives the names of the others back. Whoever does has to
    /// [`work`](Inbox::work) soon.
    pub(super) fn leave_many(
        &self,
        lane: Lane,
        happenings: impl Iterator<Item = (RequestId, Happening)>,
    ) -> Result<Vec<RequestId>, ProposeError> {
        let mut refused = Vec::new();
        let mut state = self.state();
        if state.closed {
            return Err(ProposeError::NoLeader);
        }
        for (request, happening) in happenings {
            if state.has_room(lane) {
                state.put(lane, happening);
            } else {
                refused.push(request);
            }
        }
        Ok(refused)
    }

    /// Puts something in, and waits for room. It is dropped if the node has ended.
    pub(super) fn push_waiting(&self, lane: Lane, happening: Happening) {
        let mut state = self.state();
        while !state.has_room(lane) && !state.closed {
            state = self.wait_for_room(state);
        }
        if !state.closed {
            state.put(lane, happening);
            self.wake(state);
        }
    }

    /// Puts in what the loop was promised, and works it off if nobody else does.
    pub(super) fn push_own(&self, happening: Happening) {
        let mut state = self.state();
        if !state.closed {
            state.put(Lane::Own, happening);
            drop(state);
            self.work_here();
        }
    }

    /// Puts in what another member says, and works it off if nobody else does. Waits for room. Gives
    /// back what the caller is to [write](super::log_writer::LogWriter::write_claimed), or nothing if the
    /// node has ended.
    pub(super) fn push_from_peer(
        &self,
        inputs: &mut Vec<Input>,
        bytes: usize,
    ) -> Option<Vec<LogWork>> {
        let mut state = self.state();
        while state.peer_bytes >= PEER_BYTES_MAX && !state.closed {
            state = self.wait_for_room(state);
        }
        if state.closed {
            return None;
        }
        state.peer_bytes += bytes;
        state.queue.extend(inputs.drain(..).map(Happening::Input));
        drop(state);
        Some(self.take_turn(EventLoop::turn_of_a_writer))
    }

    /// Whether a thread waits for room.
    #[cfg(test)]
    pub(super) fn has_waiters(&self) -> bool {
        self.state().waiting_for_room > 0
    }

    fn wait_for_room<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting_for_room += 1;
        let mut state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.waiting_for_room -= 1;
        state
    }

    /// Waits for something that nobody else works off, until `until`.
    pub(super) fn wait(&self, mut until: Instant) {
        let mut state = self.state();
        while state.queue.is_empty() && !std::mem::take(&mut state.look) {
            until = state.next_turn.take().unwrap_or(until);
            let now = edge::now();
            let left = until.saturating_duration_since(now);
            if left.is_zero() {
                return;
            }
            state.sleeps_lightly_until.take_if(|until| *until <= now);
            let nap = state.nap(left);
            state.sleeps = true;
            state.sleeps_until = Some(now + nap);
            let waited = self.some.wait_timeout(state, nap);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.sleeps = false;
            state.sleeps_until = None;
        }
    }

    /// Lets the loop begin.
    pub(super) fn seat(&self, event_loop: EventLoop) {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(event_loop));
    }

    /// Lets the loop's own thread do something with the loop, when nobody else has a turn.
    ///
    /// # Panics
    ///
    /// If somebody's turn has panicked: nobody knows what the loop is at.
    pub(super) fn with_loop<T>(&self, act: impl FnOnce(&mut EventLoop) -> T) -> T {
        let mut seat = self.seat.lock().expect("no turn has panicked");
        let done = act(seat.as_mut().expect("the loop is there until its own thread ends it"));
        // What others wanted before this turn is known to it.
        self.state().next_turn = None;
        done
    }

    /// Takes the loop out of everyone's reach.
    pub(super) fn unseat(&self) -> Option<Box<EventLoop>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes a turn on this thread, unless somebody has one.
    fn work_here(&self) {
        self.take_turn(EventLoop::turn);
    }

    /// Takes this turn, unless somebody has one.
    ///
    /// What is put in while somebody has a turn is left to them: whoever has had one looks again
    /// after the seat is free, and lets the loop's thread go on if there is more. So nobody but that
    /// thread is kept for longer than one turn.
    fn take_turn<T: Default>(&self, turn: impl FnOnce(&mut EventLoop) -> T) -> T {
        let Ok(mut seat) = self.seat.try_lock() else { return T::default() };
        let Some(event_loop) = seat.as_mut() else { return T::default() };
        let outcome = turn(event_loop);
        let (is_over, next_turn) = (event_loop.is_over(), event_loop.next_turn());
        // Before the seat is free, so that the latest turn has the last word.
        self.state().next_turn = Some(next_turn);
        drop(seat);
        let mut state = self.state();
        let oversleeps = state.oversleeps(next_turn);
        if is_over || oversleeps || !state.queue.is_empty() {
            state.look |= is_over;
            self.wake(state);
        }
        outcome
    }

    /// Takes everything into `into`, which should be empty.
    pub(super) fn take(&self, into: &mut Vec<Happening>) {
        let mut state = self.state();
        std::mem::swap(&mut state.queue, into);
        state.counts = [0; LANES];
        state.peer_bytes = 0;
        if state.waiting_for_room > 0 {
            self.room.notify_all();
        }
    }

    /// Lets nothing more in, and drops what is there.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.look = true;
        let dropped = std::mem::take(&mut state.queue);
        self.room.notify_all();
        self.some.notify_all();
        // What is dropped may push something itself.
        drop(state);
        drop(dropped);
    }
}
