//! The loop of the session's thread: inputs in, outputs carried out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::dialer::{Dialer, Road};
use super::handout::Handouts;
use super::hold_state::HoldState;
use super::inbox::Inbox;
use super::link::{self, LinkEvent};
use super::lookout::{Lookout, look_out};
use super::outgoing::Outgoing;
use super::porter::Post;
use super::reply::{Granted, LeaseState, Order, Reply};
use super::turn::{Turn, let_others_run};
use super::watch_queue::{News, WatchQueue};
use crate::boot_time::BootTime;
use crate::core::{
    ByNumber, HoldId, Input, LeaseNo, LinkId, Loss, OpId, Output, Session, WatchId, WatchNews,
};
use crate::error::Error;

/// Readings that may wait for the session.
const READINGS_MAX: usize = 1_024;
/// The timers of the runtime stand still while the machine sleeps. So it is woken at least this
/// often, to see what the clock says.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// How long the thread stays for what was given back to be confirmed.
const LINGER: Duration = Duration::from_secs(1);
/// How long one attempt to connect may take. The session gives up earlier.
const CONNECT_MAX: Duration = Duration::from_secs(10);

pub(super) struct Driver {
    session: Session,
    inbox: Arc<Inbox>,
    road: Arc<Mutex<Option<Road>>>,
    dialer: Arc<Dialer>,
    replies: ByNumber<OpId, Reply>,
    holds: ByNumber<HoldId, Arc<HoldState>>,
    leases: ByNumber<LeaseNo, Arc<LeaseState>>,
    watches: ByNumber<WatchId, Arc<WatchQueue>>,
    /// The one that carries the session, one that is tried, and one that is left: the session opens
    /// no more.
    links: BTreeMap<LinkId, Link>,
    /// Which of them other calls use as well.
    shared: Option<LinkId>,
    link_events: mpsc::Sender<LinkEvent>,
    /// Since when the client is being closed, and who wants to know when it is done.
    closing_since: Option<BootTime>,
    finished: Vec<oneshot::Sender<()>>,
    from_link: mpsc::Receiver<LinkEvent>,
    /// What the session wants done, and what it is told because of that. Empty between inputs.
    outputs: Vec<Output>,
    follow_up: Vec<Input>,
    handouts: Handouts,
    post: Arc<Post>,
    turn: Turn,
    lookout: Lookout,
}

struct Link {
    road: Option<Road>,
    outgoing: Outgoing,
    task: AbortHandle,
}

impl Driver {
    pub(super) fn new(
        session: Session,
        inbox: Arc<Inbox>,
        road: Arc<Mutex<Option<Road>>>,
        dialer: Dialer,
        post: Arc<Post>,
    ) -> Driver {
        let (link_events, from_link) = mpsc::channel(READINGS_MAX);
        Driver {
            session,
            inbox,
            road,
            dialer: Arc::new(dialer),
            replies: ByNumber::default(),
            holds: ByNumber::default(),
            leases: ByNumber::default(),
            watches: ByNumber::default(),
            links: BTreeMap::new(),
            shared: None,
            link_events,
            closing_since: None,
            finished: Vec::new(),
            from_link,
            outputs: Vec::new(),
            follow_up: Vec::new(),
            handouts: Handouts::new(Arc::clone(&post)),
            post,
            turn: Turn::of(0),
            lookout: Lookout::default(),
        }
    }

    /// Runs until the client is closed and everything that was given back is confirmed.
    pub(super) async fn run(mut self) {
        let inbox = Arc::clone(&self.inbox);
        let (mut orders, mut events) = (Vec::new(), Vec::with_capacity(READINGS_MAX));
        loop {
            self.input(Input::Tick);
            inbox.swap(&mut orders);
            self.turn = Turn::of(orders.len() + events.iter().map(LinkEvent::len).sum::<usize>());
            for order in orders.drain(..) {
                self.take(order);
                self.give_way().await;
            }
            for event in events.drain(..) {
                self.link_event(event).await;
            }
            self.handouts.hand_out();
            if self.is_done() {
                return;
            }
            let since = BootTime::now();
            let awake = self.lookout.awake(self.replies.len());
            let is_there = || inbox.has_orders() || !self.from_link.is_empty();
            look_out(BootTime::now, (since, awake), is_there).await;
            let pause = self.pause();
            tokio::select! {
                () = inbox.wait() => {}
                count = self.from_link.recv_many(&mut events, READINGS_MAX) => {
                    debug_assert!(count > 0, "the driver holds a sender itself");
                }
                () = tokio::time::sleep(pause) => {}
            }
            self.lookout.learn(BootTime::now().since(since));
        }
    }

    /// After each thing that was done. At the end of a turn, hands out what is answered, and lets the
    /// connection write what is to be sent.
    async fn give_way(&mut self) {
        if self.turn.is_over() {
            self.handouts.hand_out();
            let_others_run().await;
        }
    }

    fn pause(&self) -> Duration {
        let now = BootTime::now();
        let next = self.session.next_wakeup().map(|next| next.since(now.moment()));
        let look = self.post.look_after(now);
        [next, look].into_iter().flatten().fold(SLEEP_MAX, Duration::min)
    }

    fn is_done(&self) -> bool {
        let now = BootTime::now();
        self.closing_since
            .is_some_and(|since| self.session.is_quiet() || now.since(since) >= LINGER)
    }

    fn take(&mut self, order: Order) {
        match order {
            Order::Ask(op, reply, input) => {
                self.replies.insert(op, reply);
                self.input(input);
            }
            Order::Tell(Input::Close) => self.close(),
            Order::Tell(Input::Abandon(op)) => {
                self.replies.remove(&op);
                self.input(Input::Abandon(op));
            }
            Order::Tell(input) => {
                if let Input::Unwatch(id) = &input {
                    self.watches.remove(id);
                }
                if let Input::ForgetLease(no) = &input {
                    self.leases.remove(no);
                }
                self.input(input);
            }
            Order::Watch(id, spec, queue) => {
                self.watches.insert(id, queue);
                self.input(Input::Watch(id, spec));
            }
            Order::Finish(to) => {
                self.finished.push(to);
                self.close();
            }
        }
    }

    fn close(&mut self) {
        if self.closing_since.is_none() {
            self.closing_since = Some(BootTime::now());
            self.input(Input::Close);
        }
    }

    async fn link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(id, road) => {
                if let Some(link) = self.links.get_mut(&id) {
                    link.road = Some(road);
                    self.input(Input::LinkUp(id));
                }
            }
            LinkEvent::Frames(id, frames) => {
                for frame in frames {
                    self.input(Input::Frame(id, frame));
                    self.give_way().await;
                }
            }
            LinkEvent::Down(id, why) => {
                self.forget_link(id);
                self.input(Input::LinkDown(id, why));
            }
        }
    }

    /// Each input gets the time anew: a batch may take a while.
    fn input(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next {
            self.session.handle(BootTime::now().moment(), input);
            self.carry_out();
            next = self.follow_up.pop();
        }
    }

    fn carry_out(&mut self) {
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.extend(self.session.outputs());
        for output in outputs.drain(..) {
            self.output(output);
        }
        self.outputs = outputs;
    }

    fn output(&mut self, output: Output) {
        match output {
            Output::Connect(id, address) => self.connect(id, address),
            Output::Disconnect(id) => self.disconnect(id),
            Output::Send(id, frame) => {
                if let Some(link) = self.links.get(&id) {
                    link.outgoing.push(*frame);
                }
            }
            Output::Connected(id, _) => {
                self.shared = Some(id);
                let road = self.links.get(&id).and_then(|link| link.road.clone());
                self.share_road(road);
            }
            Output::Watched(id, news) => self.watched(id, news),
            Output::Extended(hold, validity) => {
                if let Some(state) = self.holds.get(&hold) {
                    state.extend(validity);
                }
            }
            Output::Lost(hold, loss) => {
                if let Some(state) = self.holds.remove(&hold) {
                    state.lose(loss);
                }
            }
            Output::Freed(hold) => {
                if let Some(state) = self.holds.remove(&hold) {
                    state.lose(Loss::Released);
                }
            }
            Output::LeaseGone(no) => {
                if let Some(state) = self.leases.remove(&no) {
                    state.end();
                }
            }
            answer => self.answer(answer),
        }
    }

    /// An answer to somebody who waits.
    fn answer(&mut self, answer: Output) {
        match answer {
            Output::Ready(op) => {
                if let Some(Reply::Ready(to)) = self.replies.remove(&op) {
                    let _ = to.send(Ok(()));
                }
            }
            Output::Failed(op, error) => {
                if let Some(reply) = self.replies.remove(&op) {
                    reply.fail(error);
                }
            }
            Output::Queued(op, place) => {
                if let Some(Reply::Acquired(_, Some(places))) = self.replies.get(&op) {
                    // Only the last one counts, so nothing waits for whoever is told.
                    places.send_replace(place);
                }
            }
            Output::Acquired(op, held) => {
                let hold = held.hold;
                let made = || Arc::new(HoldState::new(held.validity));
                let state = Arc::clone(self.holds.entry(hold).or_insert_with(made));
                let reply = self.replies.remove(&op);
                match reply {
                    Some(Reply::Acquired(to, _)) => {
                        self.handouts.acquired(to, Granted::new(held, state, &self.inbox));
                    }
                    _ => self.follow_up.push(Input::Release(hold, None)),
                }
            }
            Output::Released(op, released) => {
                if let Some(Reply::Released(to)) = self.replies.remove(&op) {
                    self.handouts.released(to, released);
                }
            }
            Output::LeaseMade(op, made) => {
                let state = Arc::new(LeaseState::new(made.no, made.until));
                self.leases.insert(made.no, Arc::clone(&state));
                let taken = match self.replies.remove(&op) {
                    Some(Reply::LeaseMade(to)) => to.send(Ok((made, state))).is_ok(),
                    _ => false,
                };
                if !taken {
                    self.leases.remove(&made.no);
                    self.follow_up.push(Input::ForgetLease(made.no));
                }
            }
            Output::LeaseExtended(no, until, op) => {
                if let Some(state) = self.leases.get(&no) {
                    state.extend(until);
                }
                if let Some(Reply::LeaseRenewed(to)) = op.and_then(|op| self.replies.remove(&op)) {
                    let _ = to.send(Ok(()));
                }
            }
            Output::LeaseRevoked(op, keys) => {
                if let Some(Reply::LeaseRevoked(to)) = self.replies.remove(&op) {
                    let _ = to.send(Ok(keys));
                }
            }
            Output::Answered(op, answer) => {
                if let Some(Reply::Answered(to)) = self.replies.remove(&op) {
                    let _ = to.send(Ok(answer));
                }
            }
            _ => {}
        }
    }

    fn watched(&mut self, id: WatchId, news: WatchNews) {
        let Some(queue) = self.watches.get(&id) else { return };
        let is_full = match news {
            WatchNews::Started(revision) => queue.push([News::Started(revision)]),
            WatchNews::Events(events) => {
                queue.push(events.into_iter().map(|event| News::Event(Box::new(event))))
            }
            WatchNews::Ended(error) => {
                queue.push([News::Ended(error)]);
                self.watches.remove(&id);
                return;
            }
        };
        if is_full {
            self.follow_up.push(Input::WatchFull(id));
        }
    }

    fn connect(&mut self, id: LinkId, address: String) {
        let outgoing = Outgoing::default();
        let (dialer, events) = (Arc::clone(&self.dialer), self.link_events.clone());
        let run = link::run(id, address, CONNECT_MAX, dialer, outgoing.clone(), events);
        let task = tokio::spawn(run).abort_handle();
        self.links.insert(id, Link { road: None, outgoing, task });
    }

    fn disconnect(&mut self, id: LinkId) {
        if let Some(link) = self.forget_link(id) {
            link.outgoing.finish();
            link.task.abort();
        }
    }

    fn forget_link(&mut self, id: LinkId) -> Option<Link> {
        if self.shared.take_if(|shared| *shared == id).is_some() {
            self.share_road(None);
        }
        self.links.remove(&id)
    }

    fn share_road(&self, road: Option<Road>) {
        *self.road.lock().unwrap_or_else(PoisonError::into_inner) = road;
    }
}

impl Drop for Driver {
    /// However the thread ends, nobody is left waiting, and nobody goes on believing.
    fn drop(&mut self) {
        self.inbox.close();
        for (_, state) in self.holds.drain() {
            state.lose(Loss::Unconfirmed);
        }
        self.post.close();
        for (_, state) in self.leases.drain() {
            state.end();
        }
        for (_, queue) in self.watches.drain() {
            queue.push([News::Ended(Error::Closed)]);
        }
        for (_, reply) in self.replies.drain() {
            reply.fail(Error::Closed);
        }
        for to in self.finished.drain(..) {
            let _ = to.send(());
        }
    }
}
