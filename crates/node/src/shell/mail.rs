//! How answers come back: once per turn of the loop to everyone who has some.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::inbox::{Happening, Inbox, Lane};
use super::reads::{Found, Query};
use crate::io::{Answer, Change, ChangeError, Class, Input, Proposal, ProposeError, RequestId};
use crate::machine::Order;
use crate::snapshot_store::SnapshotId;

/// With so many mailboxes that have something, waking those who pass it on takes longer than doing so.
const FEW: usize = 2;

/// How fresh the state must be that a query is put to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// It holds all that was answered before the query was asked, by whatever member.
    Linearizable,
    /// It is whatever this member has applied.
    Stale,
}

/// What comes back for a request.
pub enum Delivery {
    /// For a command.
    Answer(Answer),
    /// For a query.
    Found(Result<Found, ProposeError>),
    /// For a change of members.
    Changed(Result<(), ChangeError>),
    /// For a backup: the snapshot that was made.
    Saved(Result<SnapshotId, String>),
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Delivery::Answer(answer) => f.debug_tuple("Answer").field(answer).finish(),
            Delivery::Found(Ok(_)) => f.write_str("Found"),
            Delivery::Found(Err(why)) => f.debug_tuple("NotFound").field(why).finish(),
            Delivery::Changed(result) => f.debug_tuple("Changed").field(result).finish(),
            Delivery::Saved(result) => f.debug_tuple("Saved").field(result).finish(),
        }
    }
}

/// Takes the answers of one connection.
///
/// It is dropped when its [`Line`] is, or when the node ends; what was not answered by then has an
/// unknown outcome.
pub trait Mailbox: Send {
    /// Takes all that one turn of the loop has for this mailbox. Must not wait: the whole node
    /// would.
    fn deliver(&self, deliveries: Vec<(RequestId, Delivery)>);

    /// As [`Mailbox::deliver`], in a turn that has answers for hardly anybody else: there is time to
    /// pass them on at once, on this thread, instead of waking another.
    fn deliver_at_once(&self, deliveries: Vec<(RequestId, Delivery)>) {
        self.deliver(deliveries);
    }
}

/// The way in for one connection: requests go in here, answers come out of its mailbox.
pub struct Line {
    number: u64,
    next: AtomicU64,
    inbox: Arc<Inbox>,
}

impl Line {
    pub(super) fn open(number: u64, inbox: Arc<Inbox>, mailbox: Box<dyn Mailbox>) -> Line {
        // If the node has ended, the mailbox is dropped, and every request will be refused.
        inbox.push_waiting(Lane::Lines, Happening::Register(number, mailbox));
        Line { number, next: AtomicU64::new(0), inbox }
    }

    /// The name of the next request. It is drawn before the request is made, so that whoever waits
    /// can be ready when the answer comes.
    pub fn draw(&self) -> RequestId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        RequestId { line: self.number, number }
    }

    /// Wants a command done.
    ///
    /// # Errors
    ///
    /// It was not done: [`ProposeError::Overloaded`], or [`ProposeError::NoLeader`] if the node
    /// has ended.
    pub fn propose(
        &self,
        request: RequestId,
        class: Class,
        command: impl Into<Order>,
    ) -> Result<(), ProposeError> {
        self.bring(request, class, command)?;
        self.work();
        Ok(())
    }

    /// As [`Line::propose`], but what was brought is left until [`Line::work`], so that others can
    /// bring something meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Line::propose`].
    pub fn bring(
        &self,
        request: RequestId,
        class: Class,
        command: impl Into<Order>,
    ) -> Result<(), ProposeError> {
        let (lane, command) = (Lane::of(class), command.into());
        let input = Input::Propose(Proposal { request, class, command });
        self.inbox.leave(lane, Happening::Input(input))
    }

    /// Has what was brought worked off, unless somebody has done so.
    pub fn work(&self) {
        self.inbox.work();
    }

    /// Wants many commands done together. Those that come back were not done, because there was no
    /// room.
    ///
    /// # Errors
    ///
    /// [`ProposeError::NoLeader`] if the node has ended. Nothing was done.
    pub fn propose_all(
        &self,
        class: Class,
        commands: Vec<(RequestId, impl Into<Order>)>,
    ) -> Result<Vec<RequestId>, ProposeError> {
        let refused = self.bring_all(class, commands)?;
        self.work();
        Ok(refused)
    }

    /// As [`Line::propose_all`], but what was brought is left until [`Line::work`].
    ///
    /// # Errors
    ///
    /// As [`Line::propose_all`].
    pub fn bring_all(
        &self,
        class: Class,
        commands: Vec<(RequestId, impl Into<Order>)>,
    ) -> Result<Vec<RequestId>, ProposeError> {
        let proposals = commands.into_iter().map(|(request, command)| {
            let proposal = Proposal { request, class, command: command.into() };
            (request, Happening::Input(Input::Propose(proposal)))
        });
        self.inbox.leave_many(Lane::of(class), proposals)
    }

    /// Puts a question to the state.
    ///
    /// # Errors
    ///
    /// As [`Line::propose`].
    pub fn read(
        &self,
        request: RequestId,
        freshness: Freshness,
        query: Query,
    ) -> Result<(), ProposeError> {
        self.bring_query(request, freshness, query)?;
        self.work();
        Ok(())
    }

    /// As [`Line::read`], but the question is left until [`Line::work`].
    ///
    /// # Errors
    ///
    /// As [`Line::propose`].
    pub fn bring_query(
        &self,
        request: RequestId,
        freshness: Freshness,
        query: Query,
    ) -> Result<(), ProposeError> {
        self.inbox.leave(Lane::Ordinary, Happening::Query(request, freshness, query))
    }

    /// Wants the members changed. Only the leader can.
    pub fn change(&self, request: RequestId, change: Change) {
        let input = Input::Change(request, change);
        self.inbox.push_waiting(Lane::Control, Happening::Input(input));
    }

    /// Wants a snapshot of the state as it is now.
    pub fn save(&self, request: RequestId) {
        self.inbox.push_waiting(Lane::Control, Happening::Input(Input::Save(request)));
    }
}

impl Drop for Line {
    /// Never waits for room: this may be the thread that runs the event loop, which alone makes
    /// room.
    fn drop(&mut self) {
        self.inbox.push_waiting(Lane::Lines, Happening::Unregister(self.number));
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Sorts answers by mailbox, as long as a turn lasts.
#[derive(Default)]
pub(super) struct Mail {
    boxes: HashMap<u64, Slot, foldhash::fast::RandomState>,
    /// The mailboxes that have something.
    busy: Vec<u64>,
}

struct Slot {
    mailbox: Box<dyn Mailbox>,
    waiting: Vec<(RequestId, Delivery)>,
}

impl Mail {
    pub(super) fn register(&mut self, number: u64, mailbox: Box<dyn Mailbox>) {
        self.boxes.insert(number, Slot { mailbox, waiting: Vec::new() });
    }

    pub(super) fn unregister(&mut self, number: u64) {
        self.boxes.remove(&number);
    }

    pub(super) fn put(&mut self, request: RequestId, delivery: Delivery) {
        let number = request.line;
        // Nobody may be there any more to hear it.
        let Some(slot) = self.boxes.get_mut(&number) else { return };
        if slot.waiting.is_empty() {
            self.busy.push(number);
        }
        slot.waiting.push((request, delivery));
    }

    /// Whether hardly anybody has answers, so that they are passed on at once.
    pub(super) fn is_for_few(&self) -> bool {
        self.busy.len() <= FEW
    }

    /// Delivers everything.
    pub(super) fn flush(&mut self) {
        let are_few = self.is_for_few();
        for number in self.busy.drain(..) {
            let Some(slot) = self.boxes.get_mut(&number) else { continue };
            let deliveries = std::mem::take(&mut slot.waiting);
            match are_few {
                true => slot.mailbox.deliver_at_once(deliveries),
                false => slot.mailbox.deliver(deliveries),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::thread;

    use super::super::board::{Board, Status};
    use super::super::edge::Clock;
    use super::super::handle::Handle;
    use super::*;

    type Delivered = Arc<Mutex<Vec<RequestId>>>;

    /// Keeps the names of the requests that were answered.
    struct Kept(Delivered);

    impl Mailbox for Kept {
        fn deliver(&self, deliveries: Vec<(RequestId, Delivery)>) {
            let mut kept = self.0.lock().expect("no test panics with it");
            kept.extend(deliveries.into_iter().map(|(request, _)| request));
        }
    }

    /// A way to a node that does not run, with so many lines before.
    fn handle(inbox: &Arc<Inbox>, lines: u64) -> Handle {
        let home: Option<Arc<PathBuf>> = None;
        let board = Arc::new(Board::new(Status::default(), Clock::start()));
        let inbox = Arc::clone(inbox);
        Handle { inbox, board, lines: Arc::new(AtomicU64::new(lines)), home }
    }

    /// Carries registrations out, as the event loop does.
    fn register(inbox: &Inbox, mail: &mut Mail) {
        let mut happenings = Vec::new();
        inbox.take(&mut happenings);
        for happening in happenings {
            match happening {
                Happening::Register(number, mailbox) => mail.register(number, mailbox),
                Happening::Unregister(number) => mail.unregister(number),
                _ => {}
            }
        }
    }

    #[test]
    fn line_of_a_long_lived_node_replaces_no_open_line() {
        let inbox = Arc::<Inbox>::default();
        let (first, last) = (Delivered::default(), Delivered::default());
        let mut mail = Mail::default();
        let oldest = handle(&inbox, 0).line(Box::new(Kept(Arc::clone(&first))));
        let old = oldest.draw();
        // As many lines have come and gone since as have numbers of 32 bits.
        let handle = handle(&inbox, 1 << 32);
        let newest = handle.line(Box::new(Kept(Arc::clone(&last))));
        let new = newest.draw();
        register(&inbox, &mut mail);
        for request in [old, new] {
            mail.put(request, Delivery::Saved(Err(String::new())));
        }
        mail.flush();
        assert_eq!(*first.lock().expect("no test panics with it"), [old]);
        assert_eq!(*last.lock().expect("no test panics with it"), [new]);
    }

    #[test]
    fn request_of_a_long_lived_line_has_a_name_of_its_own() {
        let inbox = Arc::<Inbox>::default();
        let line = handle(&inbox, 0).line(Box::new(Kept(Delivered::default())));
        let oldest = line.draw();
        line.next.store(1 << 32, Ordering::Relaxed);
        assert_ne!(line.draw(), oldest, "it may still be open");
    }

    #[test]
    fn dropped_line_does_not_wait_for_the_event_loop() {
        let inbox = Arc::<Inbox>::default();
        let line = handle(&inbox, 0).line(Box::new(Kept(Delivered::default())));
        let stop = || inbox.leave(Lane::Control, Happening::Stop);
        while stop().is_ok() {}
        // On a thread of its own, so that this one can find out that it waits.
        let drops = thread::spawn(move || drop(line));
        while !drops.is_finished() {
            assert!(!inbox.has_waiters(), "nothing makes room but the event loop");
            thread::yield_now();
        }
        assert_eq!(stop(), Err(ProposeError::Overloaded), "there is no room yet");
    }
}
