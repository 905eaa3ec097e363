//! One session and several members, to the millisecond: each member answers at once, or fails in
//! one certain way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fencepost_client::Error;
use fencepost_client::core::{
    Call, Config, Held, HoldId, Input, LinkId, LockSpec, Loss, Moment, OpId, Output, Session,
    WatchId, WatchNews,
};
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;

use crate::support::store::{Store, refusal};

/// How a member fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Good,
    /// Everything to and from it is swallowed.
    Swallowed,
    /// It does not read any more, and goes on to tell what happens.
    Deaf,
    /// It reads, and its answers stay on their way.
    Slow,
    /// It has lost the others: it knows of no leader, and refuses everything.
    Isolated,
    /// It greets, and ends the stream with the first request.
    Ending,
}

struct Member {
    id: u64,
    store: usize,
    state: State,
}

pub(crate) struct Town {
    pub(crate) session: Session,
    /// One for each cluster.
    pub(crate) stores: Vec<Store>,
    members: BTreeMap<String, Member>,
    /// Whom single members name as the leader, instead of the one that all name.
    hints: BTreeMap<String, (u64, String)>,
    /// Where each connection leads.
    links: BTreeMap<u64, String>,
    on_its_way: Vec<(u64, pb::SessionResponse)>,
    /// Milliseconds.
    pub(crate) now: u64,
    pub(crate) dialed: Vec<String>,
    pub(crate) sent: Vec<(String, pb::SessionRequest)>,
    pub(crate) held: BTreeMap<OpId, Held>,
    pub(crate) failed: BTreeMap<OpId, Error>,
    pub(crate) answered: BTreeMap<OpId, pb::SessionResponse>,
    pub(crate) lost: BTreeMap<HoldId, (u64, Loss)>,
    pub(crate) watched: Vec<(WatchId, WatchNews)>,
    /// Requests that every member loses.
    pub(crate) swallowed: Option<fn(&Request) -> bool>,
}

impl Town {
    /// A session that is told of these endpoints.
    pub(crate) fn new(endpoints: &[&str]) -> Town {
        let config = Config {
            client_id: "town".to_owned(),
            endpoints: endpoints.iter().map(|&one| one.to_owned()).collect(),
            ..Config::default()
        };
        Town {
            session: Session::new(config),
            stores: vec![Store::new()],
            members: BTreeMap::new(),
            hints: BTreeMap::new(),
            links: BTreeMap::new(),
            on_its_way: Vec::new(),
            now: 0,
            dialed: Vec::new(),
            sent: Vec::new(),
            held: BTreeMap::new(),
            failed: BTreeMap::new(),
            answered: BTreeMap::new(),
            lost: BTreeMap::new(),
            watched: Vec::new(),
            swallowed: None,
        }
    }

    /// A member of the first cluster.
    pub(crate) fn member(&mut self, address: &str, id: u64) {
        self.member_of(0, address, id);
    }

    pub(crate) fn member_of(&mut self, store: usize, address: &str, id: u64) {
        self.members.insert(address.to_owned(), Member { id, store, state: State::Good });
    }

    /// Every member names this one as the leader.
    pub(crate) fn lead(&mut self, address: &str, id: u64) {
        self.stores[0].leader = Some((id, address.to_owned()));
    }

    /// This member alone names that one as the leader.
    pub(crate) fn lead_by_word_of(&mut self, member: &str, address: &str, id: u64) {
        self.hints.insert(member.to_owned(), (id, address.to_owned()));
    }

    pub(crate) fn set(&mut self, address: &str, state: State) {
        self.members.get_mut(address).expect("there is such a member").state = state;
    }

    /// The member's process is gone: its connections end, and there are no others.
    pub(crate) fn kill(&mut self, address: &str) {
        self.members.remove(address).expect("there is such a member");
        let ended = |(link, to): (&u64, &String)| (to == address).then_some(*link);
        for link in self.links.iter().filter_map(ended).collect::<Vec<_>>() {
            self.links.remove(&link);
            self.stores.iter_mut().for_each(|store| store.close(link));
            self.input(Input::LinkDown(LinkId(link), "killed".to_owned()));
        }
    }

    /// What was on its way from a slow member arrives, the last one first.
    pub(crate) fn hurry_backwards(&mut self, address: &str) {
        self.on_its_way.reverse();
        self.hurry(address);
    }

    /// What was on its way from a slow member arrives.
    pub(crate) fn hurry(&mut self, address: &str) {
        self.set(address, State::Good);
        for (stream, frame) in std::mem::take(&mut self.on_its_way) {
            if self.links.contains_key(&stream) {
                self.input(Input::Frame(LinkId(stream), Box::new(frame)));
            }
        }
    }

    pub(crate) fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for store in &mut self.stores {
                store.advance(self.now * 1_000);
            }
            self.session.handle(Moment::from_micros(self.now * 1_000), input);
            let outputs: Vec<Output> = self.session.outputs().collect();
            for output in outputs {
                self.output(output, &mut inputs);
            }
            let frames: Vec<_> = self.stores.iter_mut().flat_map(Store::take_frames).collect();
            for (stream, frame) in frames {
                self.arrive(stream, frame, &mut inputs);
            }
        }
    }

    fn arrive(&mut self, stream: u64, frame: pb::SessionResponse, inputs: &mut VecDeque<Input>) {
        let Some(address) = self.links.get(&stream) else { return };
        match self.members[address].state {
            State::Good | State::Deaf | State::Isolated | State::Ending => {
                inputs.push_back(Input::Frame(LinkId(stream), Box::new(frame)));
            }
            State::Slow => self.on_its_way.push((stream, frame)),
            State::Swallowed => {}
        }
    }

    fn output(&mut self, output: Output, inputs: &mut VecDeque<Input>) {
        match output {
            Output::Connect(link, address) => {
                self.dialed.push(address.clone());
                let Some(member) = self.members.get(&address) else {
                    inputs.push_back(Input::LinkDown(link, "nobody is there".to_owned()));
                    return;
                };
                if member.state != State::Swallowed {
                    self.stores[member.store].open_at(link.0, member.id);
                    self.links.insert(link.0, address);
                    inputs.push_back(Input::LinkUp(link));
                }
            }
            Output::Disconnect(link) => {
                self.links.remove(&link.0);
                for store in &mut self.stores {
                    store.close(link.0);
                }
            }
            Output::Send(link, frame) => self.receive(link.0, *frame, inputs),
            Output::Acquired(op, held) => {
                self.held.insert(op, *held);
            }
            Output::Failed(op, error) => {
                self.failed.insert(op, error);
            }
            Output::Answered(op, answer) => {
                self.answered.insert(op, *answer);
            }
            Output::Lost(hold, loss) => {
                self.lost.insert(hold, (self.now, loss));
            }
            Output::Watched(id, news) => self.watched.push((id, news)),
            _ => {}
        }
    }

    fn receive(&mut self, stream: u64, frame: pb::SessionRequest, inputs: &mut VecDeque<Input>) {
        let Some(address) = self.links.get(&stream) else { return };
        self.sent.push((address.clone(), frame.clone()));
        let is_swallowed = |request: &Request| self.swallowed.is_some_and(|lost| lost(request));
        if frame.request.as_ref().is_some_and(is_swallowed) {
            return;
        }
        let member = &self.members[address];
        let store = &mut self.stores[member.store];
        if let Some(hint) = self.hints.get(address) {
            store.leader = Some(hint.clone());
        }
        let is_greeting = matches!(frame.request, Some(Request::Hello(_) | Request::Ping(_)));
        match member.state {
            State::Good | State::Slow => store.receive(stream, frame),
            State::Isolated if is_greeting => {
                store.is_leaderless = true;
                store.receive(stream, frame);
                for (stream, frame) in store.take_frames() {
                    inputs.push_back(Input::Frame(LinkId(stream), Box::new(frame)));
                }
                store.is_leaderless = false;
            }
            State::Isolated => {
                store.is_leaderless = true;
                let header = Some(store.header());
                store.is_leaderless = false;
                let failure = Some(pb::Failure { retryable: true, ..refusal("no_leader") });
                let request_id = frame.request_id;
                let told = pb::SessionResponse { request_id, header, failure, response: None };
                inputs.push_back(Input::Frame(LinkId(stream), Box::new(told)));
            }
            State::Ending if is_greeting => store.receive(stream, frame),
            State::Ending => {
                store.close(stream);
                self.links.remove(&stream);
                inputs.push_back(Input::LinkDown(LinkId(stream), "ended".to_owned()));
            }
            State::Swallowed | State::Deaf => {}
        }
    }

    pub(crate) fn acquire(&mut self, op: u64, spec: LockSpec) {
        self.input(Input::Acquire(OpId(op), Arc::new(spec)));
    }

    /// Takes a lock that must be free.
    pub(crate) fn hold(&mut self, op: u64, name: &str, ttl: Duration) -> HoldId {
        self.acquire(op, LockSpec { names: [name.to_owned()].into(), ttl, ..LockSpec::default() });
        self.held[&OpId(op)].hold
    }

    pub(crate) fn call(&mut self, op: u64, request: Request, repeatable: bool) {
        self.input(Input::Call(OpId(op), Box::new(Call { request, repeatable })));
    }

    /// Lets time go by, a millisecond at a time.
    pub(crate) fn run_until(&mut self, end: u64) {
        while self.now < end {
            self.now += 1;
            self.input(Input::Tick);
        }
    }

    /// How many requests of a kind went to a member.
    pub(crate) fn count(&self, address: &str, kind: impl Fn(&Request) -> bool) -> usize {
        let is_kind = |frame: &pb::SessionRequest| frame.request.as_ref().is_some_and(&kind);
        self.sent.iter().filter(|(to, frame)| to == address && is_kind(frame)).count()
    }
}
