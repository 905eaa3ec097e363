//! The loop that the node lives on.
//!
//! Each turn takes everything that waits, lets the node handle it, and carries out what the node
//! wants. It waits for nothing, except that a node that is alone writes its log by itself. A turn is
//! taken by whoever brings something (see [`Inbox`]); the loop's own thread sees to the clock, to
//! what others leave, and to the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::address_book::AddressBook;
use super::board::Board;
use super::edge::{self, Clock};
use super::error::Ended;
use super::inbox::{Happening, Inbox};
use super::log_writer::{self, Closing, LogWork, SharedLog};
use super::mail::{Delivery, Freshness, Mail};
use super::notice::{Notice, Observer};
use super::pile::Pile;
use super::reads::{Query, Reads};
use super::server::Server;
use crate::io::{Input, Output, ProposeError, RequestId};
use crate::node::Node;
use crate::snapshot_keeper::SnapshotTask;

/// How often the node is told that time goes by.
const TICK: Duration = Duration::from_millis(10);

/// So much is written sooner by whoever has it than by a thread that has to be woken for it. With more
/// of it there is more to come, which must not wait for the disk.
const LITTLE_BYTES: usize = 1 << 10;

/// How long a leader that stops waits for its successor.
const HANDOVER_PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct EventLoop {
    pub(super) node: Node,
    pub(super) clock: Clock,
    pub(super) inbox: Arc<Inbox>,
    pub(super) board: Arc<Board>,
    /// What the log's thread is given to do.
    pub(super) log: Arc<Pile<LogWork>>,
    /// The log itself.
    pub(super) shared_log: SharedLog,
    pub(super) snapshots: Arc<Pile<SnapshotTask>>,
    pub(super) book: AddressBook,
    pub(super) observers: Vec<Box<dyn Observer>>,
    pub(super) workers: Vec<JoinHandle<()>>,
    /// Dropped before the server, whose threads may wait for answers.
    pub(super) turn: Turn,
    pub(super) server: Server,
}

/// Lets nobody wait for a turn that has panicked. The loop's own thread finds out, and ends.
struct Unwinding(Arc<Inbox>);

impl Drop for Unwinding {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

/// Lets nobody wait for a loop whose thread panics: those who do hold what the loop would answer.
struct Abandon<'a>(&'a Inbox);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
            drop(self.0.unseat());
        }
    }
}

/// What a turn of the loop collects.
#[derive(Default)]
pub(super) struct Turn {
    happenings: Vec<Happening>,
    mail: Mail,
    next_tick: Option<Instant>,
    /// Queries that wait until the state is fresh enough.
    queries: BTreeMap<RequestId, Query>,
    /// Queries for which it is.
    reads: Reads,
    inputs: Vec<Input>,
    log_work: Vec<LogWork>,
    tasks: Vec<SnapshotTask>,
    notices: Vec<Notice>,
    /// By when to end, once the node was told to.
    stopping: Option<Instant>,
    ended: Option<Ended>,
    /// Whether it ends as if its process had died.
    is_killed: bool,
}

impl Turn {
    /// Drops what nobody may hear of.
    fn forget(&mut self) {
        self.mail = Mail::default();
        self.reads = Reads::default();
        self.notices.clear();
        self.tasks.clear();
        self.log_work.clear();
    }
}

/// Takes turns until the node ends, and then ends all that belongs to it.
pub(super) fn run(inbox: &Arc<Inbox>) -> (Ended, Vec<Box<dyn Observer>>) {
    let _abandon = Abandon(inbox);
    let ended = loop {
        let next_turn = inbox.with_loop(|event_loop| {
            event_loop.turn();
            event_loop.step_reads();
            event_loop.over(edge::now()).map_or_else(|| Ok(event_loop.next_turn()), Err)
        });
        match next_turn {
            Ok(next_turn) => inbox.wait(next_turn),
            Err(ended) => break ended,
        }
    };
    inbox.close();
    let event_loop = inbox.unseat().expect("it was there a moment ago");
    event_loop.end(ended)
}

/// When the node is told again that time goes by, if it was to be told at `due` and is told `now`.
///
/// A tick that is late is not made up for: a machine that stood still must not take its own sleep for
/// the leader's death.
fn tick_after(due: Instant, now: Instant) -> Instant {
    (due + TICK).max(now)
}

impl EventLoop {
    /// Takes a turn, on whatever thread this is.
    pub(super) fn turn(&mut self) {
        drop(self.take_turn(|_| false));
    }

    /// The same, on a thread that may wait for the disk. If there is a little to write and the log's
    /// thread sleeps, that is given back to be written in its place.
    pub(super) fn turn_of_a_writer(&mut self) -> Vec<LogWork> {
        self.take_turn(|event_loop| {
            let bytes: usize = event_loop.turn.log_work.iter().map(LogWork::bytes).sum();
            bytes <= LITTLE_BYTES && event_loop.turn.ended.is_none() && event_loop.log.claim()
        })
    }

    /// Takes a turn. What is to be written is given back if it is `claimed`, and is otherwise for the log's
    /// thread.
    fn take_turn(&mut self, claimed: impl FnOnce(&mut EventLoop) -> bool) -> Vec<LogWork> {
        let _unwinding = Unwinding(Arc::clone(&self.inbox));
        self.work();
        // The others' disks are what takes longest.
        self.book.flush();
        let mut own = Vec::new();
        if !self.turn.log_work.is_empty() && claimed(self) {
            own.append(&mut self.turn.log_work);
        } else {
            self.hand_over_log();
            self.catch_up();
            self.hand_over_log();
        }
        self.flush();
        own
    }

    /// Takes a step of a query that needs many, when everything else is done. Only the loop's own
    /// thread does: the others have connections to serve.
    fn step_reads(&mut self) {
        let turn = &mut self.turn;
        if turn.ended.is_none() && turn.reads.step(self.node.machine(), &mut turn.mail) {
            turn.mail.flush();
        }
    }

    fn hand_over_log(&mut self) {
        if !self.turn.log_work.is_empty() {
            self.log.push_all(&mut self.turn.log_work);
        }
    }

    /// Handles what has come.
    fn work(&mut self) {
        let mut happenings = std::mem::take(&mut self.turn.happenings);
        self.inbox.take(&mut happenings);
        let now = edge::now();
        self.turn.reads.begin(self.node.machine(), &mut self.turn.mail);
        self.sort(now, happenings.drain(..));
        self.turn.happenings = happenings;
        if now >= *self.turn.next_tick.get_or_insert(now) {
            self.turn.inputs.push(Input::Tick);
            self.turn.next_tick = self.turn.next_tick.map(|tick| tick_after(tick, now));
            self.server.relieve(now);
        }
        self.handle(now);
        while self.writes_itself() {
            self.flush();
            if self.may_go_ahead() {
                self.go_ahead();
            } else {
                self.write();
                self.handle(edge::now());
                self.catch_up();
            }
        }
    }

    /// When the loop wants a turn although nothing has come.
    pub(super) fn next_turn(&self) -> Instant {
        if self.turn.reads.are_open() {
            return edge::now();
        }
        let next_tick = self.turn.next_tick.unwrap_or_else(edge::now);
        let wanted = self.node.next_turn().map(|moment| self.clock.moment(moment));
        wanted.map_or(next_tick, |wanted| wanted.min(next_tick))
    }

    /// Whether the loop's thread has to look: the node has ended, or is about to.
    pub(super) fn is_over(&self) -> bool {
        self.turn.ended.is_some() || self.turn.stopping.is_some()
    }

    /// Whether there is something to write that nothing else can go on without: the node is alone,
    /// and the log's thread has nothing to do.
    fn writes_itself(&self) -> bool {
        let turn = &self.turn;
        !turn.log_work.is_empty()
            && turn.ended.is_none()
            && self.node.is_alone()
            && self.log.is_idle()
    }

    fn write(&mut self) {
        match log_writer::write(&self.shared_log, &mut self.turn.log_work) {
            Ok(persisted) => self.turn.inputs.extend(persisted.map(Input::Persisted)),
            Err(fatal) => self.turn.ended = Some(Ended::Failed(fatal.to_string())),
        }
    }

    /// Whether what follows from this may be worked out before it is durable.
    fn may_go_ahead(&self) -> bool {
        self.node.leads() && self.turn.log_work.iter().all(LogWork::is_plain)
    }

    /// Works out what follows from what is written while the disk is at it. Nobody hears of it before
    /// the sync.
    fn go_ahead(&mut self) {
        let finished =
            log_writer::begin(&self.shared_log, &mut self.turn.log_work).and_then(|begun| {
                self.turn.inputs.extend(begun.map(Input::Persisted));
                self.handle(edge::now());
                log_writer::finish(&self.shared_log)
            });
        if let Err(fatal) = finished {
            self.turn.forget();
            self.turn.ended = Some(Ended::Failed(fatal.to_string()));
        }
    }

    /// Sorts what has happened: what the node must know of, and what concerns only the loop.
    fn sort(&mut self, now: Instant, happenings: impl Iterator<Item = Happening>) {
        for happening in happenings {
            match happening {
                Happening::Input(input) => self.turn.inputs.push(input),
                Happening::Query(request, Freshness::Linearizable, query) => {
                    self.turn.queries.insert(request, query);
                    self.turn.inputs.push(Input::Read(request));
                }
                Happening::Query(request, Freshness::Stale, query) => {
                    let (machine, mail) = (self.node.machine(), &mut self.turn.mail);
                    self.turn.reads.ask(request, query, machine, mail);
                }
                Happening::Register(number, mailbox) => self.turn.mail.register(number, mailbox),
                Happening::Unregister(number) => {
                    self.turn.mail.unregister(number);
                    self.turn.reads.close_line(number);
                }
                Happening::Observe(observer) => self.observers.push(observer),
                Happening::Met(member, address) => self.book.met(member, address),
                Happening::Lost(member) => self.book.doubt(member),
                Happening::Tell(notice) => self.turn.notices.push(notice),
                Happening::Stop => self.stop(now),
                Happening::Kill => {
                    self.turn.is_killed = true;
                    self.turn.ended = Some(Ended::Stopped);
                }
                Happening::Failed(why) => self.turn.ended = Some(Ended::Failed(why)),
            }
        }
    }

    /// A leader hands over before it goes, so that nobody has to find out that it is gone.
    fn stop(&mut self, now: Instant) {
        if self.turn.stopping.is_some() {
            return;
        }
        let successor = self.node.leads().then(|| self.node.successor()).flatten();
        let patience = successor.map_or(Duration::ZERO, |_| HANDOVER_PATIENCE);
        self.turn.stopping = Some(now + patience);
        if let Some(successor) = successor {
            self.turn.inputs.push(Input::TransferTo(successor));
        }
    }

    /// Whether the node has ended, and why.
    fn over(&mut self, now: Instant) -> Option<Ended> {
        if self.turn.ended.is_some() {
            return self.turn.ended.take();
        }
        let until = self.turn.stopping?;
        (now >= until || !self.node.leads()).then_some(Ended::Stopped)
    }

    /// Lets the node handle what has come, and does what it wants done, in order.
    fn handle(&mut self, now: Instant) {
        let outputs = self.node.rush(self.clock.at(now), self.turn.inputs.drain(..));
        self.carry_out_all(outputs);
    }

    fn catch_up(&mut self) {
        let outputs = self.node.catch_up();
        self.carry_out_all(outputs);
    }

    fn carry_out_all(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        let turn = &mut self.turn;
        match output {
            Output::Persist(persist) => turn.log_work.push(LogWork::Persist(persist)),
            Output::Purge(start) => turn.log_work.push(LogWork::Purge(start)),
            Output::Send(to, message) => self.book.send(to, message),
            Output::SendBack(to, message) => self.server.send_back(to, &message),
            Output::Reply(request, answer) => turn.mail.put(request, Delivery::Answer(answer)),
            Output::ReadReady(request) => match turn.queries.remove(&request) {
                Some(query) => {
                    turn.reads.ask(request, query, self.node.machine(), &mut turn.mail);
                }
                None => {
                    turn.mail.put(request, Delivery::Found(Err(ProposeError::Malformed)));
                }
            },
            Output::ReadFailed(request, why) => {
                turn.queries.remove(&request);
                turn.mail.put(request, Delivery::Found(Err(why)));
            }
            Output::Applied(index, events) => turn.notices.push(Notice::Applied(index, events)),
            Output::Role(role) => {
                let now = self.clock.micros();
                self.board.update(|status| {
                    let before = (status.role.term, status.role.leader);
                    if (role.term, role.leader) != before {
                        status.role_since = now;
                    }
                    status.role = role;
                });
                turn.notices.push(Notice::Role(role));
            }
            Output::Snapshot(task) => turn.tasks.push(*task),
            Output::Installed(id) => turn.notices.push(Notice::Installed(id)),
            Output::Members(members) => {
                let members = Arc::new(*members);
                self.board.update(|status| status.members = Arc::clone(&members));
                self.book.forget_removed(&members);
                self.server.shut_out_removed(&members);
                turn.notices.push(Notice::Members(members));
            }
            Output::PeerLevels(levels) => {
                self.board.update(|status| status.peer_levels = levels);
            }
            Output::Changed(request, result) => turn.mail.put(request, Delivery::Changed(result)),
            Output::Saved(request, result) => turn.mail.put(request, Delivery::Saved(result)),
            Output::Removed => turn.ended = Some(Ended::Removed),
            Output::Halt(why) => turn.ended = Some(Ended::Failed(why)),
        }
    }

    /// Hands over what the turn has collected: to the other members first, because the clients'
    /// answers do not wait for them.
    fn flush(&mut self) {
        let turn = &mut self.turn;
        self.book.flush();
        if !turn.tasks.is_empty() {
            self.snapshots.push_all(&mut turn.tasks);
        }
        let node = &self.node;
        self.board.update(|status| {
            status.applied = node.machine().applied();
            status.commit = node.commit();
            status.feature_level = node.feature_level();
            status.snapshot = node.snapshot_id();
            status.clock_cuts = node.clock_cuts();
        });
        // Few answers are sent on this thread. Then whoever has waited for a lock hears of it before
        // whoever has let go of it: the one goes on with it, the other only wants to know.
        if turn.mail.is_for_few() {
            self.tell_observers();
        }
        self.turn.mail.flush();
        self.tell_observers();
    }

    fn tell_observers(&mut self) {
        let notices = std::mem::take(&mut self.turn.notices);
        if !notices.is_empty() {
            let machine = self.node.machine();
            self.observers.retain_mut(|observer| observer.observe_state(&notices, machine));
        }
    }

    /// Ends every thread of the node. What the log was given is written first, unless the node is
    /// killed.
    fn end(mut self: Box<Self>, ended: Ended) -> (Ended, Vec<Box<dyn Observer>>) {
        // Those who still wait for an answer learn that none will come. Threads of the server may
        // be among them.
        drop(std::mem::take(&mut self.turn.mail));
        if self.turn.is_killed {
            self.log.abandon();
        } else {
            let closing = Closing {
                boot: self.book.identity.boot,
                commit: self.node.commit(),
                lacking: self.node.lacking(),
                witnesses: self.node.last_witnesses(),
            };
            self.log.push(LogWork::Close(closing));
            self.log.close();
        }
        self.snapshots.abandon();
        log_writer::order_no_more(&self.shared_log);
        self.server.stop();
        self.book.close();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so.
            drop(worker.join());
        }
        (ended, self.observers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirements: S1-056.
    #[test]
    fn node_is_ticked_every_ten_milliseconds() {
        let millis = Duration::from_millis;
        let begun = edge::now();
        let mut due = begun;
        for number in 1..=100 {
            due = tick_after(due, due + millis(number % 10));
            assert_eq!(due - begun, millis(10 * number));
        }
        // Half a second in which the machine stood still counts as one tick.
        let late = due + millis(500);
        assert_eq!(tick_after(due, late), late);
        assert_eq!(tick_after(late, late), late + millis(10));
    }
}
