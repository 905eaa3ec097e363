//! The connection: which endpoint, when to give up on it, when to try the next.
//!
//! One connection carries the session. Endpoints are tried in turn, with pauses that grow and vary.
//! A connection on which nothing that was asked is answered counts as dead: TCP alone may take
//! minutes to notice, and events that come by themselves prove nothing. How the session moves to a
//! better member without giving up the one it has is in `court.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use super::Session;
use super::court::{Court, Hints, Leaving};
use super::incarnation::Incarnation;
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
/// A connection that was up for less than this counts as one more failure: something about it, or
/// about what is sent over it, ends it again and again.
const STEADY: Duration = Duration::from_secs(1);
/// Bounds of the silence after which a connection counts as dead.
const SILENCE_MIN: Duration = Duration::from_millis(60);
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Bounds of the time that one endpoint has to greet back before the next one is tried, if there is
/// one. It doubles with each round, up to the configured time.
const GREETING_MIN: Duration = Duration::from_millis(100);
const GREETING_MAX: Duration = Duration::from_millis(500);
/// How long an endpoint is left alone that fell silent. The others may name it as the leader until
/// they have elected another one.
const SILENT_SHUNNED_FOR: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) state: State,
    made: u64,
    /// The next endpoint to try.
    cursor: usize,
    failures: u32,
    up_since: Moment,
    /// When something that was asked was last answered.
    answered_at: Moment,
    /// Since when an answer is due and none has come.
    expecting: Option<Moment>,
    /// The last request that was sent, and the last one that was answered, by their numbers.
    asked: u64,
    answered: u64,
    requests_max: usize,
    /// A better member that is being tried, and the connection that it replaced.
    pub(super) court: Option<Court>,
    pub(super) leaving: Option<Leaving>,
    pub(super) hints: Hints,
    /// Endpoints that are left alone, and until when. Bounded: what is over is forgotten, and each
    /// hint that is followed costs a part of a budget.
    shunned: BTreeMap<String, Moment>,
    /// The cluster that this session belongs to: the first one that it has met.
    cluster: Option<u64>,
    /// The incarnation of that cluster which leases were made in.
    pub(super) incarnation: Option<Incarnation>,
    /// Which of the configured endpoints were found to belong to another one.
    pub(super) foreign: BTreeSet<String>,
    pub(super) trouble: String,
}

#[derive(Debug, Default)]
pub(super) enum State {
    #[default]
    New,
    /// Pauses until then.
    Down(Moment),
    /// The stream is being opened, or the greeting is on its way.
    Dialing(LinkId, String, Moment),
    Up(LinkId, String),
}

/// What a member has agreed to.
pub(super) struct Welcome {
    pub(super) requests_max: usize,
    pub(super) header: Option<pb::Header>,
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

    pub(super) fn is_shunned(&self, endpoint: &str, now: Moment) -> bool {
        self.shunned.get(endpoint).is_some_and(|&until| until > now)
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
            self.dial();
        }
    }

    fn dial(&mut self) {
        let endpoint = self.next_endpoint();
        let id = self.next_link();
        let until = self.now.after(self.greeting_max());
        self.link.state = State::Dialing(id, endpoint.clone(), until);
        self.timers.arm(Timer::Link, until);
        self.push(Output::Connect(id, endpoint));
    }

    /// How long the next endpoint has to greet back. An endpoint may take connections and answer
    /// nothing, because it is flooded or stands still: the others must have their turn while leases
    /// live and requests wait. On a slow network a later round gives enough time.
    fn greeting_max(&self) -> Duration {
        let count = u32::try_from(self.config.endpoints.len()).unwrap_or(u32::MAX);
        if count <= 1 {
            return self.config.dial_timeout;
        }
        let first = (self.silence_max() / 4).clamp(GREETING_MIN, GREETING_MAX);
        doubled(first, self.link.failures / count).min(self.config.dial_timeout)
    }

    pub(super) fn next_link(&mut self) -> LinkId {
        self.link.made += 1;
        LinkId(self.link.made)
    }

    /// The endpoint whose turn it is. Those that are left alone are passed over while there is
    /// another one. If that one is gone too, they have their turn after a round of failures: a member that
    /// was restarted would be passed over while leases run out.
    pub(super) fn next_endpoint(&mut self) -> String {
        let endpoints = &self.config.endpoints;
        let count = endpoints.len().max(1);
        let tried = usize::try_from(self.link.failures).unwrap_or(usize::MAX);
        let is_any_good = !self.link.is_up() && tried >= count;
        let is_tried = |endpoint: &String| {
            self.link.court.as_ref().is_some_and(|court| court.endpoint == *endpoint)
        };
        let is_good = |at: &usize| {
            let endpoint = endpoints.get(*at);
            let is_shunned = |one| !is_any_good && self.link.is_shunned(one, self.now);
            endpoint.is_some_and(|one| !is_shunned(one) && !is_tried(one))
        };
        let first = self.link.cursor % count;
        let at = (0..count).map(|step| (first + step) % count).find(is_good).unwrap_or(first);
        self.link.cursor = at + 1;
        endpoints.get(at).cloned().unwrap_or_default()
    }

    /// A stream is open: the greeting goes first.
    pub(super) fn greet(&mut self, link: LinkId) {
        let is_dialed = matches!(self.link.state, State::Dialing(id, ..) if id == link);
        if !is_dialed && !self.is_courting(link) {
            return;
        }
        let (incarnation, seen_revision) = self.seen();
        let hello = pb::SessionHello {
            client_id: self.config.client_id.clone(),
            version_min: VERSION,
            version_max: VERSION,
            seen_revision,
            incarnation,
        };
        let request_id = self.requests.next_request();
        let request = Some(Request::Hello(hello));
        let frame = pb::SessionRequest { request_id, once: None, request };
        self.push(Output::Send(link, Box::new(frame)));
    }

    pub(super) fn hear_welcome(&mut self, frame: pb::SessionResponse) {
        let State::Dialing(id, endpoint, _) = &self.link.state else { return };
        let (id, endpoint) = (*id, endpoint.clone());
        match self.read_welcome(&endpoint, frame) {
            Ok(welcome) => self.link_is_up(id, endpoint, &welcome),
            Err(why) => {
                self.break_link(&why);
                self.fail_without_cluster(&why);
            }
        }
    }

    /// What a member answers to the greeting. One of another cluster is left alone: leases and
    /// tokens of the one mean nothing to the other.
    pub(super) fn read_welcome(
        &mut self,
        endpoint: &str,
        frame: pb::SessionResponse,
    ) -> Result<Welcome, String> {
        if let Some(failure) = frame.failure {
            return Err(format!("{}: {}", failure.code, failure.message));
        }
        let Some(Response::Welcome(welcome)) = frame.response else {
            return Err(format!("{endpoint} did not greet back"));
        };
        if welcome.version != VERSION {
            return Err(format!("{endpoint} speaks version {} of sessions", welcome.version));
        }
        let told = frame.header.as_ref().map(|header| header.cluster_id).filter(|&id| id != 0);
        if let (Some(told), Some(own)) = (told, self.link.cluster)
            && told != own
        {
            self.found_foreign(endpoint);
            return Err(format!(
                "{endpoint} belongs to cluster {told:016x}, and this client to cluster {own:016x}"
            ));
        }
        if let Some(header) = &frame.header {
            self.check_incarnation(endpoint, header)?;
        }
        self.link.cluster = self.link.cluster.or(told);
        let requests_max = match welcome.requests_max {
            0 => usize::MAX,
            max => usize::try_from(max).unwrap_or(usize::MAX),
        };
        Ok(Welcome { requests_max, header: frame.header })
    }

    /// This connection carries the session from now on.
    pub(super) fn link_is_up(&mut self, id: LinkId, endpoint: String, welcome: &Welcome) {
        self.enter_incarnation(welcome.header.as_ref());
        self.link.state = State::Up(id, endpoint.clone());
        self.link.trouble.clear();
        self.link.foreign.clear();
        self.link.requests_max = welcome.requests_max;
        self.link.up_since = self.now;
        self.link.answered_at = self.now;
        self.link.expecting = None;
        self.stop_courting(&endpoint);
        self.stop_seeking();
        self.push(Output::Connected(id, endpoint));
        self.timers.arm(Timer::Link, self.now.after(self.config.ping_every));
        self.renew_after_reconnect();
        self.renew_for_users();
        self.tell_ready();
        self.watches_again();
        if let Some(header) = &welcome.header {
            self.consider_leader(header);
        }
    }

    /// A request goes out that is answered soon.
    pub(super) fn expect_answer(&mut self, request_id: u64) {
        self.link.asked = request_id;
        if self.link.expecting.is_none() {
            self.link.expecting = Some(self.now);
            self.timers.arm(Timer::Link, self.now.after(self.silence_max()));
        }
    }

    /// A frame has come over the present connection. It counts if it answers something that was
    /// asked after everything that was answered before: events, and further answers to one request,
    /// come from a member that may not read what it is sent.
    pub(super) fn heard_answer(&mut self, request_id: u64) {
        let link = &mut self.link;
        if request_id > link.answered && request_id <= link.asked {
            link.answered = request_id;
            link.answered_at = self.now;
            link.expecting = (link.answered < link.asked).then_some(self.now);
        }
    }

    /// How long a connection may be silent although something should be heard.
    pub(super) fn silence_max(&self) -> Duration {
        let ttl = self.leases.ttl_min().unwrap_or(Duration::MAX);
        let max = match self.config.endpoints.len() {
            0 | 1 => SILENCE_MAX,
            // Time must be left for the others to answer what this one does not.
            _ => SILENCE_MAX.min(self.config.request_timeout / 3).max(SILENCE_MIN),
        };
        (ttl / 8).clamp(SILENCE_MIN, max)
    }

    pub(super) fn look_after_link(&mut self) {
        self.look_after_court();
        let now = self.now;
        match &self.link.state {
            State::New => {}
            State::Down(until) if now >= *until => self.dial(),
            State::Down(until) => self.timers.arm(Timer::Link, *until),
            State::Dialing(_, endpoint, until) if now >= *until => {
                let (endpoint, why) =
                    (endpoint.clone(), format!("{endpoint} did not answer in time"));
                self.shun(&endpoint, SILENT_SHUNNED_FOR);
                self.break_link(&why);
            }
            State::Dialing(_, _, until) => self.timers.arm(Timer::Link, *until),
            State::Up(id, endpoint) => {
                let dead_at = self.link.expecting.map(|since| since.after(self.silence_max()));
                let ping_at = self.link.answered_at.after(self.config.ping_every);
                match dead_at {
                    Some(at) if now >= at => {
                        let why = format!("{endpoint} fell silent");
                        self.leave_member(&why);
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
        let request_id = self.requests.next_request();
        let request = Some(Request::Ping(pb::Ping {}));
        self.send_frame(link, pb::SessionRequest { request_id, once: None, request });
    }

    /// A stream has ended by itself.
    pub(super) fn link_is_down(&mut self, link: LinkId, why: &str) {
        if self.link.is(link) {
            self.lose_link(why);
        } else {
            self.court_is_down(link);
        }
    }

    /// Leaves the present member, and leaves it alone for a while.
    pub(super) fn leave_member(&mut self, why: &str) {
        if let State::Up(_, endpoint) = &self.link.state {
            let endpoint = endpoint.clone();
            self.shun(&endpoint, SILENT_SHUNNED_FOR);
            self.break_link(why);
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
        if was_up && self.now.since(self.link.up_since) >= STEADY {
            self.link.failures = 0;
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

    /// Leaves an endpoint alone for a while.
    pub(super) fn shun(&mut self, endpoint: &str, span: Duration) {
        let now = self.now;
        self.link.shunned.retain(|_, until| *until > now);
        self.link.shunned.insert(endpoint.to_owned(), now.after(span));
    }
}
