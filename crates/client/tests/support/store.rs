//! The state of the model: leases, windows of answers, and what ends by itself.

use std::collections::BTreeMap;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_response::Response;

use super::claims::Claim;
use super::keys::Keys;

/// A planted mistake, to see that the checks bite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mistake {
    #[default]
    None,
    /// Leases end a tenth of their TTL early.
    EndsEarly,
    /// The first waiter is granted although somebody holds.
    GrantsTwice,
}

#[derive(Default)]
pub(crate) struct Store {
    pub(crate) mistake: Mistake,
    /// Microseconds of log time.
    pub(crate) now: u64,
    pub(crate) revision: i64,
    pub(crate) leases: BTreeMap<i64, Lease>,
    pub(crate) claims: BTreeMap<u64, Claim>,
    pub(crate) claims_made: u64,
    pub(crate) queues: BTreeMap<String, Vec<u64>>,
    pub(crate) clients: BTreeMap<String, Window>,
    pub(crate) keys: Keys,
    /// Open streams, and the client that greeted on each.
    pub(crate) streams: BTreeMap<u64, Option<String>>,
    pub(crate) frames: Vec<(u64, pb::SessionResponse)>,
    pub(crate) cluster_id: u64,
    pub(crate) member_id: u64,
    pub(crate) leader: Option<(u64, String)>,
    /// The members that streams lead to, if that is not `member_id`.
    pub(crate) members: BTreeMap<u64, u64>,
    pub(crate) requests_max: u32,
    /// How many streams were ever opened.
    pub(crate) streams_seen: u64,
    /// So many watches are refused because too much is going on.
    pub(crate) refuses_watches: u32,
    /// Requests are refused as if there were no leader.
    pub(crate) is_leaderless: bool,
    /// How many leases were renewed.
    pub(crate) renewals: u64,
    pub(crate) incarnation: u64,
    last_lease: i64,
    last_epoch: u64,
    /// Every grant that was made, for the checks: lock, token, lease.
    pub(crate) grants: Vec<(String, i64, i64)>,
}

pub(crate) struct Lease {
    pub(crate) ttl: u64,
    pub(crate) deadline: u64,
    pub(crate) epoch: u64,
    pub(crate) client: String,
    pub(crate) changes: u64,
    pub(crate) window: Window,
}

/// Answers that are kept so that repeats act once.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) floor: u64,
    pub(crate) answers: BTreeMap<u64, Kept>,
}

#[derive(Clone)]
pub(crate) enum Kept {
    Final(Response),
    /// An acquire that waits: its claim.
    Waits(u64),
    /// An acquire that was granted.
    Granted(u64, Response),
}

impl Window {
    /// Whether a number may be used. Forgets what was acknowledged.
    pub(crate) fn admit(&mut self, once: &pb::Once) -> Result<(), pb::Failure> {
        let floor = self.floor.max(once.ack_upto);
        if once.seq == 0 || once.seq < floor {
            return Err(refusal("seq_too_old"));
        }
        if once.seq >= floor.max(1) + 1_024 {
            return Err(refusal("seq_too_far"));
        }
        self.floor = floor;
        self.answers.retain(|&seq, _| seq >= floor);
        Ok(())
    }
}

/// Microseconds of so many milliseconds on the wire.
pub(crate) fn micros(ms: i64) -> u64 {
    u64::try_from(ms).expect("spans on the wire are not negative") * 1_000
}

/// Milliseconds for the wire.
pub(crate) fn millis(micros: u64) -> i64 {
    i64::try_from(micros / 1_000).expect("tests are short")
}

pub(crate) fn refusal(code: &str) -> pb::Failure {
    pb::Failure {
        code: code.to_owned(),
        message: code.replace('_', " "),
        indeterminate: false,
        retryable: false,
    }
}

impl Store {
    pub(crate) fn new() -> Store {
        Store::of_cluster(7)
    }

    pub(crate) fn of_cluster(cluster_id: u64) -> Store {
        Store { revision: 1, cluster_id, member_id: 1, requests_max: 10_000, ..Store::default() }
    }

    /// A stream to one of several members.
    pub(crate) fn open_at(&mut self, stream: u64, member: u64) {
        self.members.insert(stream, member);
        self.open(stream);
    }

    pub(crate) fn open(&mut self, stream: u64) {
        self.streams.insert(stream, None);
        self.streams_seen += 1;
    }

    pub(crate) fn close(&mut self, stream: u64) {
        self.streams.remove(&stream);
        self.members.remove(&stream);
        self.keys.watches.retain(|&(of, _), _| of != stream);
        for claim in self.claims.values_mut() {
            claim.attached.retain(|&(of, _)| of != stream);
        }
    }

    pub(crate) fn take_frames(&mut self) -> Vec<(u64, pb::SessionResponse)> {
        std::mem::take(&mut self.frames)
    }

    pub(crate) fn header(&self) -> pb::Header {
        let (leader_id, leader_address) =
            self.leader.clone().unwrap_or((self.member_id, String::new()));
        let leader_id = if self.is_leaderless { 0 } else { leader_id };
        pb::Header {
            cluster_id: self.cluster_id,
            member_id: self.member_id,
            revision: self.revision,
            raft_term: 1,
            leader_id,
            leader_address,
            incarnation: self.incarnation,
        }
    }

    fn header_on(&self, stream: u64) -> pb::Header {
        let member_id = self.members.get(&stream).copied().unwrap_or(self.member_id);
        pb::Header { member_id, ..self.header() }
    }

    pub(crate) fn send(&mut self, stream: u64, request_id: u64, response: Response) {
        if self.streams.contains_key(&stream) {
            let header = Some(self.header_on(stream));
            let response = Some(response);
            let frame = pb::SessionResponse { request_id, header, failure: None, response };
            self.frames.push((stream, frame));
        }
    }

    pub(crate) fn fail(&mut self, stream: u64, request_id: u64, failure: pb::Failure) {
        let header = Some(self.header_on(stream));
        let failure = Some(failure);
        let frame = pb::SessionResponse { request_id, header, failure, response: None };
        self.frames.push((stream, frame));
    }

    /// Tells every stream of a lease's client.
    pub(crate) fn tell_holder(&mut self, lease: i64, told: pb::HoldLost) {
        let Some(client) = self.leases.get(&lease).map(|lease| lease.client.clone()) else {
            return;
        };
        let of_client = |(_, name): &(&u64, &Option<String>)| name.as_ref() == Some(&client);
        let streams: Vec<u64> =
            self.streams.iter().filter(of_client).map(|(&stream, _)| stream).collect();
        for stream in streams {
            self.send(stream, 0, Response::HoldLost(told.clone()));
        }
    }

    /// The next moment at which something ends by itself.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let leases = self.leases.values().map(|lease| self.end_of(lease));
        let waits = self.claims.values().map(|claim| claim.ends_at());
        leases.chain(waits).filter(|&at| at != u64::MAX).min()
    }

    /// When a lease ends, in log time.
    pub(crate) fn end_of(&self, lease: &Lease) -> u64 {
        match self.mistake {
            Mistake::EndsEarly => lease.deadline - lease.ttl / 10,
            _ => lease.deadline,
        }
    }

    /// Moves log time on, and ends what is due.
    pub(crate) fn advance(&mut self, to: u64) {
        self.now = self.now.max(to);
        let due = |lease: &Lease| self.end_of(lease) <= self.now;
        let dead: Vec<i64> =
            self.leases.iter().filter(|(_, lease)| due(lease)).map(|(&id, _)| id).collect();
        for id in dead {
            self.end_lease(id, "expired");
        }
        let over: Vec<u64> = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.ends_at() <= self.now)
            .map(|(&id, _)| id)
            .collect();
        for id in over {
            let cause = if self.claims[&id].is_granted { "forced" } else { "timed_out" };
            self.remove_claim(id, cause);
        }
        self.settle();
    }

    pub(crate) fn grant_lease(
        &mut self,
        asked: i64,
        ttl_ms: i64,
        client: &str,
    ) -> Result<Response, pb::Failure> {
        if ttl_ms < 500 {
            return Err(refusal("ttl_too_short"));
        }
        if asked != 0 && self.leases.contains_key(&asked) {
            return Err(refusal("lease_exists"));
        }
        self.last_lease += 1;
        let id = if asked == 0 { self.last_lease } else { asked };
        self.last_epoch += 1;
        let ttl = micros(ttl_ms);
        let lease = Lease {
            ttl,
            deadline: self.now + ttl,
            epoch: self.last_epoch,
            client: client.to_owned(),
            changes: 0,
            window: Window::default(),
        };
        self.leases.insert(id, lease);
        let header = Some(self.header());
        let epoch = self.last_epoch;
        let ttl = ttl_ms / 1_000;
        Ok(Response::LeaseGranted(pb::LeaseGrantResponse { header, id, ttl, ttl_ms, epoch }))
    }

    /// The lease that is meant, if it is alive.
    pub(crate) fn live(&mut self, id: i64, epoch: u64) -> Result<&mut Lease, pb::Failure> {
        let lease = self.leases.get_mut(&id).ok_or_else(|| refusal("lease_not_found"))?;
        if epoch != 0 && lease.epoch != epoch {
            return Err(refusal("lease_epoch_stale"));
        }
        Ok(lease)
    }

    pub(crate) fn renew(&mut self, one: &pb::LeaseKeepAliveRequest) -> pb::LeaseKeepAliveResponse {
        self.renewals += 1;
        let now = self.now;
        let (ttl_ms, changes) = match self.live(one.id, one.epoch) {
            Err(_) => (0, 0),
            Ok(lease) => {
                lease.deadline = lease.deadline.max(now + lease.ttl);
                (millis(lease.deadline - now), lease.changes)
            }
        };
        pb::LeaseKeepAliveResponse {
            header: None,
            id: one.id,
            ttl: ttl_ms / 1_000,
            ttl_ms,
            number: one.number,
            changes,
            held_too_long: false,
        }
    }

    pub(crate) fn revoke(&mut self, id: i64, epoch: u64) -> Result<Response, pb::Failure> {
        self.live(id, epoch)?;
        let keys = self.end_lease(id, "revoked");
        self.settle();
        Ok(Response::LeaseRevoked(pb::LeaseRevokeResponse { header: None, keys }))
    }

    pub(crate) fn end_lease(&mut self, id: i64, cause: &str) -> u64 {
        let claims: Vec<u64> = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.lease == id)
            .map(|(&claim, _)| claim)
            .collect();
        let mut keys = 0;
        for claim in claims {
            keys += self.claims[&claim].names.len() as u64;
            self.remove_claim(claim, cause);
        }
        keys += self.remove_keys_of(id);
        self.leases.remove(&id);
        keys
    }
}
