//! The network: streams that keep their order, break, stall, or swallow everything.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use fencepost_client::core::{Input, LinkId};
use fencepost_proto::v1 as pb;

use super::{Event, MILLI, Micros, World};

/// The members' addresses. Clients are told of the first two; the third they may only hear of.
pub(crate) const ADDRESSES: [&str; 3] = ["a", "b", "c"];

pub(crate) struct Network {
    /// The longest ordinary delay.
    delay: Micros,
    /// In how many of a thousand frames something happens.
    pub(crate) loss: u64,
    pub(crate) duplicates: u64,
    pub(crate) streams: BTreeMap<u64, Stream>,
    opened: u64,
    /// Whether clients can reach the member that they were not told of.
    hides_third: bool,
    /// Members, by their place, whose machines are gone: everything to and from them is swallowed.
    pub(crate) silent: BTreeSet<usize>,
}

pub(crate) struct Stream {
    pub(crate) client: usize,
    pub(crate) link: LinkId,
    member: usize,
    /// When the last frame in each direction arrives: order is kept.
    to_server: Micros,
    to_client: Micros,
    pub(crate) is_dead: bool,
}

impl Network {
    pub(crate) fn new(rng: &mut Rng, faults: bool) -> Network {
        let delay = *rng.choice(&[MILLI, 5 * MILLI, 20 * MILLI]).expect("there is one");
        let loss = if faults && rng.bool() { rng.u64(0..40) } else { 0 };
        let duplicates = if faults && rng.bool() { rng.u64(0..100) } else { 0 };
        let hides_third = rng.bool();
        let (streams, silent) = (BTreeMap::new(), BTreeSet::new());
        Network { delay, loss, duplicates, streams, opened: 0, hides_third, silent }
    }
}

impl World {
    pub(crate) fn delay(&mut self) -> Micros {
        let usual = self.rng.u64(50..=self.network.delay);
        if self.faults_on && self.rng.u64(0..200) == 0 {
            return usual + self.rng.u64(0..2_000 * MILLI);
        }
        usual
    }

    /// A client wants a stream.
    pub(crate) fn dial(&mut self, client: usize, link: LinkId, address: &str) {
        let member = ADDRESSES.iter().position(|one| *one == address).expect("it is a member");
        self.network.opened += 1;
        let stream = self.network.opened;
        let (to_server, to_client) = (self.now, self.now);
        let made = Stream { client, link, member, to_server, to_client, is_dead: false };
        self.network.streams.insert(stream, made);
        let works = !self.clients[client].is_cut_off && self.now >= self.frozen_until;
        // A partition swallows the attempt; a service that is away refuses it.
        let is_hidden = member == 2 && self.network.hides_third;
        if is_hidden || self.network.silent.contains(&member) {
            return;
        }
        if works || !self.clients[client].is_cut_off {
            let delay = self.delay();
            self.after(delay, Event::Opened(client, stream, works));
        }
    }

    pub(crate) fn opened(&mut self, client: usize, stream: u64, good: bool) {
        let Some((link, member)) =
            self.network.streams.get(&stream).map(|stream| (stream.link, stream.member))
        else {
            return;
        };
        if good {
            self.server.open_at(stream, member as u64 + 1);
            self.input(client, Input::LinkUp(link));
        } else {
            self.network.streams.remove(&stream);
            self.input(client, Input::LinkDown(link, "refused".to_owned()));
        }
    }

    pub(crate) fn hang_up(&mut self, client: usize, link: LinkId) {
        let stream = self.stream_of(client, link);
        if let Some(stream) = stream {
            self.network.streams.remove(&stream);
            self.server.close(stream);
        }
    }

    /// Whether nothing comes through on this stream.
    fn is_swallowed(&self, stream: u64) -> bool {
        self.network.streams.get(&stream).is_none_or(|one| {
            let is_cut_off = self.clients[one.client].is_cut_off;
            is_cut_off || one.is_dead || self.network.silent.contains(&one.member)
        })
    }

    /// Counts how often a session leaves a connection that works for a better one.
    pub(crate) fn check_moved(&mut self, client: usize, link: LinkId) {
        let others = self.network.streams.iter().filter(|(stream, one)| {
            one.client == client && one.link < link && !self.is_swallowed(**stream)
        });
        self.check.moves += u64::from(others.count() > 0);
    }

    fn stream_of(&self, client: usize, link: LinkId) -> Option<u64> {
        let mut streams = self.network.streams.iter();
        streams.find(|(_, one)| one.client == client && one.link == link).map(|(&id, _)| id)
    }

    pub(crate) fn send_to_server(
        &mut self,
        client: usize,
        link: LinkId,
        frame: pb::SessionRequest,
    ) {
        let Some(stream) = self.stream_of(client, link) else { return };
        if self.is_swallowed(stream) {
            return;
        }
        let arrival = self.now + self.delay();
        let one = self.network.streams.get_mut(&stream).expect("it was just found");
        one.to_server = one.to_server.max(arrival);
        let at = one.to_server;
        let is_hello = matches!(frame.request, Some(pb::session_request::Request::Hello(_)));
        if !is_hello && self.faults_on && self.rng.u64(0..1_000) < self.network.duplicates {
            // A member that forwards may do so twice, and the copy may come late.
            let late = at + self.rng.u64(0..3_000 * MILLI);
            self.at(late, Event::ToServer(stream, frame.clone()));
        }
        if !is_hello && self.faults_on && self.rng.u64(0..1_000) < self.network.loss {
            return;
        }
        self.at(at, Event::ToServer(stream, frame));
    }

    pub(crate) fn serve(&mut self, stream: u64, frame: pb::SessionRequest) {
        if self.now < self.frozen_until {
            let at = self.frozen_until;
            self.at(at, Event::ToServer(stream, frame));
            return;
        }
        self.server.receive(stream, frame);
    }

    /// Puts what the service has said on its way.
    pub(crate) fn send_frames(&mut self) {
        for (stream, frame) in self.server.take_frames() {
            if self.is_swallowed(stream) {
                continue;
            }
            let is_welcome =
                matches!(frame.response, Some(pb::session_response::Response::Welcome(_)));
            if !is_welcome && self.faults_on && self.rng.u64(0..1_000) < self.network.loss {
                continue;
            }
            let arrival = self.now + self.delay();
            let one = self.network.streams.get_mut(&stream).expect("it was just found");
            one.to_client = one.to_client.max(arrival);
            let at = one.to_client;
            self.at(at, Event::ToClient(stream, Box::new(frame)));
        }
    }

    pub(crate) fn deliver(&mut self, stream: u64, frame: Box<pb::SessionResponse>) {
        let Some(one) = self.network.streams.get(&stream) else { return };
        let (client, link) = (one.client, one.link);
        self.input(client, Input::Frame(link, frame));
    }

    /// Breaks a stream: the service forgets it at once, the client hears of it later.
    pub(crate) fn break_stream(&mut self, stream: u64) {
        if let Some(one) = self.network.streams.get_mut(&stream) {
            one.is_dead = true;
            self.server.close(stream);
            let delay = self.delay();
            self.after(delay, Event::Ended(stream));
        }
    }

    pub(crate) fn stream_ended(&mut self, stream: u64) {
        if let Some(one) = self.network.streams.remove(&stream) {
            let why = "the stream has ended".to_owned();
            self.input(one.client, Input::LinkDown(one.link, why));
        }
    }
}
