//! How answers come back: once per turn of the loop to everyone who has some.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

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
    number: u32,
    next: AtomicU32,
    inbox: Arc<Inbox>,
}

impl Line {
    pub(super) fn open(number: u32, inbox: Arc<Inbox>, mailbox: Box<dyn Mailbox>) -> Line {
        // If the node has ended, the mailbox is dropped, and every request will be refused.
        inbox.push_waiting(Lane::Control, Happening::Register(number, mailbox));
        Line { number, next: AtomicU32::new(0), inbox }
    }

    /// The name of the next request. It is drawn before the request is made, so that whoever waits
    /// can be ready when the answer comes.
    pub fn draw(&self) -> RequestId {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        RequestId(u64::from(self.number) << 32 | u64::from(count))
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
    fn drop(&mut self) {
        self.inbox.push_waiting(Lane::Control, Happening::Unregister(self.number));
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The line that a request came on.
pub(super) fn line_of(request: RequestId) -> u32 {
    u32::try_from(request.0 >> 32).expect("half of the bits")
}

/// Sorts answers by mailbox, as long as a turn lasts.
#[derive(Default)]
pub(super) struct Mail {
    boxes: HashMap<u32, Slot, foldhash::fast::RandomState>,
    /// The mailboxes that have something.
    busy: Vec<u32>,
}

struct Slot {
    mailbox: Box<dyn Mailbox>,
    waiting: Vec<(RequestId, Delivery)>,
}

impl Mail {
    pub(super) fn register(&mut self, number: u32, mailbox: Box<dyn Mailbox>) {
        self.boxes.insert(number, Slot { mailbox, waiting: Vec::new() });
    }

    pub(super) fn unregister(&mut self, number: u32) {
        self.boxes.remove(&number);
    }

    pub(super) fn put(&mut self, request: RequestId, delivery: Delivery) {
        let number = line_of(request);
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
