//! The connection: which endpoint, when to give up on it, when to try the next.
//!
//! One connection at a time. Endpoints are tried in turn, with pauses that grow and vary; the
//! leader's address, which answers tell, is preferred, a bounded number of times. A connection on
//! which nothing is heard although something should be counts as dead: TCP alone may take minutes
//! to notice.

use std::collections::BTreeMap;
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use super::Session;
use super::io::{LinkId, Output};
use super::requests::{doubled, jittered};
use super::time::Moment;
use super::timers::Timer;

/// The version of the session protocol.
const VERSION: u32 = 1;
/// The pause after every endpoint has failed once. It doubles.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest pause while leases are to be kept alive, and otherwise.
const PAUSE_MAX_LEASED: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Bounds of the silence after which a connection counts as dead.
const SILENCE_MIN: Duration = Duration::from_millis(60);
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// How often in a while a hint to the leader is followed, and how long that while is.
const HINTS_MAX: u32 = 3;
const HINTS_SPAN: Duration = Duration::from_secs(10);
/// How long a hinted address that could not be reached is left alone.
const SHUNNED_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Link {
    state: State,
    made: u64,
    /// The next endpoint to try.
    cursor: usize,
    failures: u32,
    heard_at: Moment,
    /// Since when an answer is due and nothing was heard.
    expecting: Option<Moment>,
    requests_max: usize,
    /// Where to go next, and whether the present endpoint came from a hint.
    hint: Option<String>,
    is_hinted: bool,
    hints_left: u32,
    hints_refill_at: Moment,
    shunned: BTreeMap<String, Moment>,
    trouble: String,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    New,
    /// Pauses until then.
    Down(Moment),
    /// The stream is being opened, or the greeting is on its way.
    Dialing(LinkId, String, Moment),
    Up(LinkId, String),
}

impl Link {
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(..))
    }

    pub(super) fn up_id(&self) -> Option<LinkId> {
        match self.state {
            State::Up(id, _) => Some(id),
            _ => None,
        }
    }

    pub(super) fn is(&self, link: LinkId) -> bool {
        matches!(self.state, State::Dialing(id, ..) | State::Up(id, _) if id == link)
    }

    /// How many requests may be open.
    pub(super) fn requests_max(&self) -> usize {
        self.requests_max
    }

    /// What went wrong last.
    pub(super) fn trouble(&self) -> String {
        match self.trouble.as_str() {
            "" if self.is_up() => "no answer came in time".to_owned(),
            "" => "no connection yet".to_owned(),
            trouble => trouble.to_owned(),
        }
    }
}

impl Session {
    /// The first input begins to connect.
    pub(super) fn start_link(&mut self) {
        if matches!(self.link.state, State::New) {
            self.link.hints_left = HINTS_MAX;
            self.dial();
        }
    }

    fn dial(&mut self) {
        let hint = self.link.hint.take();
        self.link.is_hinted = hint.is_some();
        let count = self.config.endpoints.len().max(1);
        let endpoint = hint.unwrap_or_else(|| {
            let at = self.link.cursor % count;
            self.link.cursor = at + 1;
            self.config.endpoints.get(at).cloned().unwrap_or_default()
        });
        self.link.made += 1;
        let id = LinkId(self.link.made);
        let until = self.now.after(self.config.dial_timeout);
        self.link.state = State::Dialing(id, endpoint.clone(), until);
        self.link.expecting = None;
        self.timers.arm(Timer::Link, until);
        self.push(Output::Connect(id, endpoint));
    }

    /// The stream is open: the greeting goes first.
    pub(super) fn greet(&mut self, link: LinkId) {
        let State::Dialing(id, ..) = self.link.state else { return };
        if id != link {
            return;
        }
        let hello = pb::SessionHello {
            client_id: self.config.client_id.clone(),
            version_min: VERSION,
            version_max: VERSION,
        };
        let request_id = self.requests.next_request(None);
        let request = Some(Request::Hello(hello));
        let frame = pb::SessionRequest { request_id, once: None, request };
        self.push(Output::Send(link, Box::new(frame)));
    }

    pub(super) fn hear_welcome(&mut self, frame: pb::SessionResponse) {
        let State::Dialing(id, endpoint, _) = &self.link.state else { return };
        let (id, endpoint) = (*id, endpoint.clone());
        match (frame.failure, frame.response) {
            (None, Some(Response::Welcome(welcome))) if welcome.version == VERSION => {
                self.link.state = State::Up(id, endpoint.clone());
                self.link.trouble.clear();
                self.link.requests_max = match welcome.requests_max {
                    0 => usize::MAX,
                    max => usize::try_from(max).unwrap_or(usize::MAX),
                };
                if frame.header.as_ref().is_some_and(|header| self.follow_leader(header)) {
                    return;
                }
                self.link.failures = 0;
                self.link_is_up(id, endpoint);
            }
            (Some(failure), _) => {
                self.break_link(&format!("{}: {}", failure.code, failure.message));
            }
            _ => self.break_link("the service did not greet back"),
        }
    }

    fn link_is_up(&mut self, id: LinkId, endpoint: String) {
        self.push(Output::Connected(id, endpoint));
        self.timers.arm(Timer::Link, self.now.after(self.config.ping_every));
        self.renew_after_reconnect();
        self.renew_for_users();
        self.tell_ready();
        self.watches_again();
    }

    /// Something was sent that is answered soon.
    pub(super) fn expect_frame(&mut self) {
        if self.link.expecting.is_none() {
            self.link.expecting = Some(self.now);
            self.timers.arm(Timer::Link, self.now.after(self.silence_max()));
        }
    }

    pub(super) fn heard_frame(&mut self) {
        self.link.heard_at = self.now;
        self.link.expecting = None;
    }

    /// How long a connection may be silent although something should be heard.
    fn silence_max(&self) -> Duration {
        let ttl = self.leases.ttl_min().unwrap_or(Duration::MAX);
        (ttl / 8).clamp(SILENCE_MIN, SILENCE_MAX)
    }

    pub(super) fn look_after_link(&mut self) {
        let now = self.now;
        match &self.link.state {
            State::New => {}
            State::Down(until) if now >= *until => self.dial(),
            State::Down(until) => self.timers.arm(Timer::Link, *until),
            State::Dialing(_, endpoint, until) if now >= *until => {
                let why = format!("{endpoint} did not answer in time");
                self.break_link(&why);
            }
            State::Dialing(_, _, until) => self.timers.arm(Timer::Link, *until),
            State::Up(id, endpoint) => {
                let dead_at = self.link.expecting.map(|since| since.after(self.silence_max()));
                let ping_at = self.link.heard_at.after(self.config.ping_every);
                match dead_at {
                    Some(at) if now >= at => {
                        let why = format!("{endpoint} fell silent");
                        self.break_link(&why);
                    }
                    Some(at) => self.timers.arm(Timer::Link, at),
                    None if now >= ping_at => {
                        let id = *id;
                        self.ping(id);
                    }
                    None => self.timers.arm(Timer::Link, ping_at),
                }
            }
        }
    }

    fn ping(&mut self, link: LinkId) {
        let request_id = self.requests.next_request(None);
        let request = Some(Request::Ping(pb::Ping {}));
        self.send_frame(link, pb::SessionRequest { request_id, once: None, request });
    }

    /// The stream has ended by itself.
    pub(super) fn link_is_down(&mut self, link: LinkId, why: &str) {
        if self.link.is(link) {
            self.lose_link(why);
        }
    }

    /// The session gives up on its connection.
    fn break_link(&mut self, why: &str) {
        if let State::Dialing(id, ..) | State::Up(id, _) = self.link.state {
            self.push(Output::Disconnect(id));
        }
        self.lose_link(why);
    }

    fn lose_link(&mut self, why: &str) {
        self.link.trouble = why.to_owned();
        let was_up = self.link.is_up();
        if let State::Dialing(_, endpoint, _) = &self.link.state
            && self.link.is_hinted
        {
            let until = self.now.after(SHUNNED_FOR);
            self.link.shunned.insert(endpoint.clone(), until);
        }
        self.link.failures = self.link.failures.saturating_add(1);
        let pause = self.pause();
        let until = self.now.after(pause);
        self.link.state = State::Down(until);
        self.link.expecting = None;
        self.timers.arm(Timer::Link, until);
        if was_up {
            self.requests_lost_link();
            self.watches_lost_link();
        }
    }

    /// Every endpoint is tried once without delay; then pauses double.
    fn pause(&mut self) -> Duration {
        let tried = u32::try_from(self.config.endpoints.len()).unwrap_or(u32::MAX);
        let rounds = self.link.failures.saturating_sub(tried);
        if rounds == 0 {
            return Duration::from_micros(self.rng.u64(0..5_000));
        }
        let is_leased = self.leases.ttl_min().is_some();
        let max = if is_leased { PAUSE_MAX_LEASED } else { PAUSE_MAX };
        let pause = doubled(PAUSE, rounds.min(10)).min(max);
        jittered(&mut self.rng, pause)
    }

    /// An answer tells who leads.
    pub(super) fn consider_leader(&mut self, header: &pb::Header) {
        if self.link.is_up() {
            self.follow_leader(header);
        }
    }

    /// Goes to the leader if this is another member, and it is worth trying.
    fn follow_leader(&mut self, header: &pb::Header) -> bool {
        let is_elsewhere = header.leader_id != 0
            && header.leader_id != header.member_id
            && !header.leader_address.is_empty();
        let State::Up(id, endpoint) = &self.link.state else { return false };
        if !is_elsewhere {
            return false;
        }
        let address = with_scheme(&header.leader_address, endpoint);
        if self.now >= self.link.hints_refill_at {
            self.link.hints_left = HINTS_MAX;
            self.link.hints_refill_at = self.now.after(HINTS_SPAN);
        }
        self.link.shunned.retain(|_, until| *until > self.now);
        if address == *endpoint
            || self.link.hints_left == 0
            || self.link.shunned.contains_key(&address)
        {
            return false;
        }
        let id = *id;
        self.link.hints_left -= 1;
        self.push(Output::Disconnect(id));
        self.requests_lost_link();
        self.watches_lost_link();
        self.link.hint = Some(address);
        self.dial();
        true
    }
}

/// An address as an endpoint, with the scheme of the one that told of it.
fn with_scheme(address: &str, like: &str) -> String {
    if address.contains("://") {
        return address.to_owned();
    }
    match like.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://{address}"),
        None => address.to_owned(),
    }
}
