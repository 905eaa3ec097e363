//! Moving to a better member: make before break.
//!
//! An answer may name a leader elsewhere, or know of none. Then a second connection is opened beside
//! the one that carries the session, and the session moves when the other member has greeted back,
//! not before: an address that cannot be reached from here costs nothing. What may be sent twice is
//! sent again over the new connection; what may not is left to the old one, which is kept until it
//! has answered.
//!
//! Guarantees: a connection that works is never given up for one that may not; at most three
//! connections at once, each bounded in time while it does not carry the session.

use std::net::Ipv6Addr;
use std::time::Duration;

use fencepost_proto::v1 as pb;

use super::Session;
use super::io::{LinkId, Output};
use super::link::State;
use super::requests::{doubled, jittered};
use super::time::Moment;
use super::timers::Timer;
use crate::error::Error;

/// How often in a while a hint to the leader is followed, and how long that while is.
const HINTS_MAX: u32 = 3;
const HINTS_SPAN: Duration = Duration::from_secs(10);
/// How long an address is left alone that could not be reached, or that leads to another cluster.
const SHUNNED_FOR: Duration = Duration::from_secs(30);
/// How long a member that is tried beside the present one has to greet back. One that takes longer
/// would not be better.
const TRIAL_MAX: Duration = Duration::from_secs(1);
/// Bounds of the time after which another member is asked, if the present one knows of no leader.
const SEEK_MIN: Duration = Duration::from_millis(60);
const SEEK_MAX: Duration = Duration::from_secs(2);

/// A member that is being tried.
#[derive(Debug)]
pub(super) struct Court {
    id: LinkId,
    pub(super) endpoint: String,
    until: Moment,
}

/// The connection that was replaced, and still has something to answer.
#[derive(Debug)]
pub(super) struct Leaving {
    id: LinkId,
    until: Moment,
}

/// What answers have told about the leader.
#[derive(Debug, Default)]
pub(super) struct Hints {
    followed: u32,
    refill_at: Moment,
    /// When to look for a member that knows the leader, if the present one does not by then; and
    /// how often that was done in vain.
    seek_at: Option<Moment>,
    seeks: u32,
}

impl Session {
    pub(super) fn is_courting(&self, link: LinkId) -> bool {
        self.link.court.as_ref().is_some_and(|court| court.id == link)
    }

    pub(super) fn is_leaving(&self, link: LinkId) -> bool {
        self.link.leaving.as_ref().is_some_and(|leaving| leaving.id == link)
    }

    /// An answer tells who leads. A brief one comes from a leader who has said so before.
    pub(super) fn consider_leader(&mut self, header: &pb::Header) {
        if header.member_id == 0 {
            return;
        }
        if header.leader_id == 0 {
            self.seek_leader();
            return;
        }
        self.link.hints.seek_at = None;
        self.link.hints.seeks = 0;
        if header.leader_id != header.member_id {
            self.follow_leader(&header.leader_address);
        }
    }

    /// Goes to the leader, if it is worth trying.
    fn follow_leader(&mut self, address: &str) {
        let State::Up(_, endpoint) = &self.link.state else { return };
        if !is_usable(address) {
            return;
        }
        let address = with_scheme(address, endpoint);
        let hints = &mut self.link.hints;
        if self.now >= hints.refill_at {
            hints.followed = 0;
            hints.refill_at = self.now.after(HINTS_SPAN);
        }
        let is_spent = hints.followed >= HINTS_MAX;
        if address == *endpoint || is_spent || self.link.is_shunned(&address, self.now) {
            return;
        }
        if self.court(address) {
            self.link.hints.followed += 1;
        }
    }

    /// The present member knows of no leader. It may be cut off from the others: one of them is
    /// asked, early enough for the leases that are to be kept.
    fn seek_leader(&mut self) {
        if self.link.hints.seek_at.is_none() {
            let span = (self.silence_max() / 2).clamp(SEEK_MIN, SEEK_MAX);
            // It may as well be an election. Then all clients look around at once, and often.
            let span = doubled(span, self.link.hints.seeks.min(6)).min(SEEK_MAX);
            let at = self.now.after(jittered(&mut self.rng, span));
            self.link.hints.seek_at = Some(at);
            self.timers.arm(Timer::Link, at);
        }
    }

    /// A new connection: what the old one did not know means nothing.
    pub(super) fn stop_seeking(&mut self) {
        self.link.hints.seek_at = None;
    }

    fn court_another(&mut self) {
        let State::Up(_, present) = &self.link.state else { return };
        let present = present.clone();
        let endpoint = self.next_endpoint();
        if endpoint != present && !self.link.is_shunned(&endpoint, self.now) {
            self.court(endpoint);
        }
    }

    /// Opens a connection beside the present one. Says whether it was begun: one at a time.
    fn court(&mut self, endpoint: String) -> bool {
        if self.link.court.is_some() || self.link.leaving.is_some() {
            return false;
        }
        let id = self.next_link();
        let until = self.now.after(self.config.dial_timeout.min(TRIAL_MAX));
        self.timers.arm(Timer::Link, until);
        self.link.court = Some(Court { id, endpoint: endpoint.clone(), until });
        self.push(Output::Connect(id, endpoint));
        true
    }

    /// The member that is being tried has answered the greeting.
    pub(super) fn hear_court(&mut self, frame: pb::SessionResponse) {
        let Some(court) = self.link.court.take() else { return };
        let welcome = match self.read_welcome(&court.endpoint, frame) {
            Ok(welcome) => welcome,
            Err(_) => {
                self.push(Output::Disconnect(court.id));
                self.shun(&court.endpoint, SHUNNED_FOR);
                return;
            }
        };
        let knows_none = welcome.header.as_ref().is_some_and(|header| header.leader_id == 0);
        if knows_none && self.link.is_up() {
            // It is no better than the one that is there.
            self.push(Output::Disconnect(court.id));
            return;
        }
        let is_restored = self.is_restored(welcome.header.as_ref());
        match std::mem::take(&mut self.link.state) {
            State::Up(old, _) if is_restored => {
                // What the old member answers is of no use any more.
                self.push(Output::Disconnect(old));
                self.requests_lost_link();
                self.watches_lost_link();
            }
            State::Up(old, _) => {
                let until = self.now.after(self.config.request_timeout);
                self.timers.arm(Timer::Link, until);
                self.link.leaving = Some(Leaving { id: old, until });
                self.requests_move_over();
                self.watches_lost_link();
            }
            State::Dialing(old, ..) => self.push(Output::Disconnect(old)),
            State::New | State::Down(_) => {}
        }
        self.link_is_up(court.id, court.endpoint, &welcome);
    }

    /// The session has come to `endpoint`: it needs not be tried any more.
    pub(super) fn stop_courting(&mut self, endpoint: &str) {
        if let Some(court) = self.link.court.take_if(|court| court.endpoint == endpoint) {
            self.push(Output::Disconnect(court.id));
        }
    }

    /// A connection beside the present one has ended.
    pub(super) fn court_is_down(&mut self, link: LinkId) {
        if let Some(court) = self.link.court.take_if(|court| court.id == link) {
            self.shun(&court.endpoint, SHUNNED_FOR);
        }
        if self.link.leaving.take_if(|leaving| leaving.id == link).is_some() {
            self.left_behind_is_lost();
        }
    }

    /// Bounds the time that connections beside the present one take.
    pub(super) fn look_after_court(&mut self) {
        let now = self.now;
        if let Some(court) = self.link.court.take_if(|court| now >= court.until) {
            self.push(Output::Disconnect(court.id));
            self.shun(&court.endpoint, SHUNNED_FOR);
        }
        if let Some(leaving) = self.link.leaving.take_if(|leaving| now >= leaving.until) {
            self.push(Output::Disconnect(leaving.id));
            self.left_behind_is_lost();
        }
        if self.link.hints.seek_at.take_if(|at| now >= *at).is_some() && self.link.is_up() {
            self.link.hints.seeks = self.link.hints.seeks.saturating_add(1);
            self.court_another();
            self.seek_leader();
        }
        let court = self.link.court.as_ref().map(|court| court.until);
        let leaving = self.link.leaving.as_ref().map(|leaving| leaving.until);
        for until in court.into_iter().chain(leaving).chain(self.link.hints.seek_at) {
            self.timers.arm(Timer::Link, until);
        }
    }

    /// Ends the old connection once it has nothing left to answer.
    pub(super) fn see_off(&mut self) {
        if self.requests.left_behind_nothing()
            && let Some(leaving) = self.link.leaving.take()
        {
            self.push(Output::Disconnect(leaving.id));
        }
    }

    /// An endpoint belongs to another cluster.
    pub(super) fn found_foreign(&mut self, endpoint: &str) {
        self.shun(endpoint, SHUNNED_FOR);
        if self.config.endpoints.iter().any(|one| one == endpoint) {
            self.link.foreign.insert(endpoint.to_owned());
        }
    }

    /// If every endpoint belongs to another cluster, waiting helps nobody.
    pub(super) fn fail_without_cluster(&mut self, why: &str) {
        let is_left = |one: &String| !self.link.foreign.contains(one);
        if self.config.endpoints.iter().any(is_left) {
            return;
        }
        let error = Error::WrongCluster { message: why.to_owned() };
        for op in self.attempts.keys() {
            self.fail_attempt(op, error.clone());
        }
        self.fail_calls(&error);
        self.end_watches(&error);
    }
}

/// Whether an address can lead anywhere. A member that listens on every address of its machine may
/// tell the address that stands for all of them, and that is everybody's own machine.
fn is_usable(address: &str) -> bool {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let Some((host, port)) = address.rsplit_once(':') else { return !address.is_empty() };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_unspecified = bare.parse::<Ipv6Addr>().map_or(bare == "0.0.0.0", |ip| {
        ip.is_unspecified() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_unspecified())
    });
    !host.is_empty() && !is_unspecified && port.parse() != Ok(0_u16)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_lead_somewhere_are_usable() {
        for address in ["10.0.0.1:7420", "[::1]:7420", "http://db.example:1", "b", "localhost:1"] {
            assert!(is_usable(address), "{address}");
        }
        for address in [
            "",
            ":7420",
            "0.0.0.0:7420",
            "https://0.0.0.0:1",
            "[::]:7420",
            "[::ffff:0.0.0.0]:1",
            "a:0",
        ] {
            assert!(!is_usable(address), "{address}");
        }
    }
}
