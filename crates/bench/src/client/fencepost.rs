//! A session of Fencepost on a connection of its own, without the SDK's thread.
//!
//! It goes to the leader by itself, as the SDK does, and says the same things over the wire. What it
//! leaves out is what a benchmark cannot use: renewals, reconnecting, validity.

use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use fencepost_proto::v1;
use fencepost_proto::v1::session_acquired::State;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use super::stream::{Carrier, Stream};

/// Longer than any run, so that nobody has to renew it.
const TTL_MS: i64 = 3_600_000;

/// One client, with a connection and a lease.
pub struct Fencepost {
    stream: Stream,
    lease: (i64, u64),
    /// Of requests on the stream.
    request_id: u64,
    /// Of requests on locks, counted by the lease.
    seq: u64,
    held: Option<(String, i64)>,
}

impl Fencepost {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Fencepost> {
        Fencepost::with_ttl(address, TTL_MS).await
    }

    /// Over gRPC.
    pub async fn over_grpc(address: SocketAddr) -> anyhow::Result<Fencepost> {
        Fencepost::over(Stream::open(address, Carrier::Grpc).await?, TTL_MS).await
    }

    /// With a lease of so many milliseconds.
    pub async fn with_ttl(address: SocketAddr, ttl_ms: i64) -> anyhow::Result<Fencepost> {
        Fencepost::over(Stream::open(address, Carrier::Best).await?, ttl_ms).await
    }

    /// With the member that was named, whether it leads or not.
    pub async fn stay(address: SocketAddr) -> anyhow::Result<Fencepost> {
        let (stream, _) = Stream::greet(&address.to_string(), Carrier::Best).await?;
        Fencepost::over(stream, TTL_MS).await
    }

    /// Whether this member leads.
    pub async fn leads(address: SocketAddr) -> anyhow::Result<bool> {
        let (_, header) = Stream::greet(&address.to_string(), Carrier::Best).await?;
        Ok(header.leader_id == header.member_id)
    }

    async fn over(stream: Stream, ttl_ms: i64) -> anyhow::Result<Fencepost> {
        let mut client = Fencepost { stream, lease: (0, 0), request_id: 1, seq: 0, held: None };
        let grant = v1::LeaseGrantRequest { ttl_ms, ..Default::default() };
        let once = v1::Once { seq: 1, ack_upto: 1 };
        match client.ask(once, Request::LeaseGrant(grant)).await? {
            Response::LeaseGranted(granted) => client.lease = (granted.id, granted.epoch),
            other => bail!("{other:?} is no lease"),
        }
        Ok(client)
    }

    /// Sends a request and waits for its last answer.
    async fn ask(&mut self, once: v1::Once, request: Request) -> anyhow::Result<Response> {
        self.request_id += 1;
        let request_id = self.request_id;
        let frame = v1::SessionRequest { request_id, once: Some(once), request: Some(request) };
        self.stream.send(frame).await?;
        loop {
            let heard = self.stream.next().await?;
            if heard.request_id != request_id {
                continue;
            }
            if let Some(failure) = heard.failure {
                bail!("{}: {}", failure.code, failure.message);
            }
            match heard.response.context("an answer without content")? {
                Response::Acquired(told) if told.state() == State::Queued => {}
                last => return Ok(last),
            }
        }
    }

    /// All answers before this one have arrived.
    fn next_once(&mut self) -> v1::Once {
        self.seq += 1;
        v1::Once { seq: self.seq, ack_upto: self.seq }
    }

    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        let once = self.next_once();
        let (lease_id, lease_epoch) = self.lease;
        let locks = vec![v1::LockWanted { name: name.to_owned(), ..Default::default() }];
        let acquire = v1::SessionAcquire {
            locks,
            lease_id,
            lease_epoch,
            timeout_ms: -1,
            ..Default::default()
        };
        match self.ask(once, Request::Acquire(acquire)).await? {
            Response::Acquired(told) if told.state() == State::Acquired => {
                self.held = Some((name.to_owned(), told.fencing_token));
                Ok(())
            }
            other => bail!("{other:?} is no grant"),
        }
    }

    pub async fn release(&mut self) -> anyhow::Result<()> {
        let once = self.next_once();
        let (lease_id, lease_epoch) = self.lease;
        let (name, fencing_token) = self.held.take().context("nothing is held")?;
        let names = vec![name];
        let release = v1::SessionRelease { names, lease_id, lease_epoch, fencing_token };
        match self.ask(once, Request::Release(release)).await? {
            Response::Released(told) if told.released => Ok(()),
            other => bail!("{other:?} is no release"),
        }
    }
}
