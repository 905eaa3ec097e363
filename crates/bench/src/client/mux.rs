//! Many logical clients of Fencepost on one session stream, without the SDK: leases in bulk, locks
//! in bulk, renewals of many in one message.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use fencepost_proto::v1;
use fencepost_proto::v1::session_acquired::State;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::stream::{Answers, Carrier, Requests, Stream};

/// Requests that may be open on one stream: below what the service asks for.
const OPEN_MAX: usize = 256;
/// Requests that may wait to be written.
const REQUESTS_MAX: usize = 4_096;

type Open = Arc<Mutex<HashMap<u64, oneshot::Sender<v1::SessionResponse>>>>;

/// One stream, shared by clones.
#[derive(Clone)]
pub struct Mux {
    requests: mpsc::Sender<v1::SessionRequest>,
    open: Open,
    numbers: Arc<AtomicU64>,
    grants: Arc<AtomicU64>,
    _reader: Arc<Reader>,
}

/// Ends with the last clone. The writer then has nothing more to write.
struct Reader(JoinHandle<()>);

impl Drop for Reader {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A lease on a shared stream, and with it a place that can hold locks.
pub struct Place {
    mux: Mux,
    pub lease: (i64, u64),
    seq: u64,
}

impl Mux {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Mux> {
        let (writer, answers) = Stream::open(address, Carrier::Best).await?.split();
        let open = Open::default();
        let (requests, waiting) = mpsc::channel(REQUESTS_MAX);
        tokio::spawn(write(writer, waiting));
        let reader = Reader(tokio::spawn(read(answers, Arc::clone(&open))));
        Ok(Mux {
            requests,
            open,
            numbers: Arc::new(AtomicU64::new(1)),
            grants: Arc::default(),
            _reader: Arc::new(reader),
        })
    }

    /// Sends a request and waits for its last answer.
    pub async fn ask(&self, once: Option<v1::Once>, request: Request) -> anyhow::Result<Response> {
        let request_id = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        lock(&self.open).insert(request_id, sender);
        let frame = v1::SessionRequest { request_id, once, request: Some(request) };
        self.requests.send(frame).await?;
        let heard = receiver.await.context("the stream has ended")?;
        if let Some(failure) = heard.failure {
            bail!("{}: {}", failure.code, failure.message);
        }
        heard.response.context("an answer without content")
    }

    /// Makes a lease. Without a number: a repeat would make another, and there are no repeats here.
    pub async fn lease(&self, ttl_ms: i64) -> anyhow::Result<Place> {
        let grant = v1::LeaseGrantRequest { ttl_ms, ..Default::default() };
        let seq = self.grants.fetch_add(1, Ordering::Relaxed) + 1;
        // Few are open at once, so all that are further back have their answers.
        let ack_upto = seq.saturating_sub(OPEN_MAX as u64).max(1);
        let once = v1::Once { seq, ack_upto };
        match self.ask(Some(once), Request::LeaseGrant(grant)).await? {
            Response::LeaseGranted(granted) => {
                let lease = (granted.id, granted.epoch);
                Ok(Place { mux: self.clone(), lease, seq: 0 })
            }
            other => bail!("{other:?} is no lease"),
        }
    }

    /// Renews these leases in one message, and says how many are alive.
    pub async fn renew(&self, leases: &[(i64, u64)], number: u64) -> anyhow::Result<usize> {
        let one = |&(id, epoch): &(i64, u64)| v1::LeaseKeepAliveRequest { id, epoch, number };
        let renewals = leases.iter().map(one).collect();
        match self.ask(None, Request::Renew(v1::RenewMany { renewals })).await? {
            Response::Renewed(told) => {
                Ok(told.renewed.iter().filter(|renewed| renewed.ttl_ms > 0).count())
            }
            other => bail!("{other:?} is no renewal"),
        }
    }
}

impl Place {
    /// Takes locks under this lease one after the other, each acknowledged by the next.
    pub async fn acquire(&mut self, name: String) -> anyhow::Result<i64> {
        self.seq += 1;
        let once = v1::Once { seq: self.seq, ack_upto: self.seq };
        let (lease_id, lease_epoch) = self.lease;
        let locks = vec![v1::LockWanted { name, ..Default::default() }];
        let acquire = v1::SessionAcquire {
            locks,
            lease_id,
            lease_epoch,
            timeout_ms: -1,
            ..Default::default()
        };
        match self.mux.ask(Some(once), Request::Acquire(acquire)).await? {
            Response::Acquired(told) if told.state() == State::Acquired => Ok(told.fencing_token),
            other => bail!("{other:?} is no grant"),
        }
    }

    pub async fn release(&mut self, name: String, fencing_token: i64) -> anyhow::Result<()> {
        self.seq += 1;
        let once = v1::Once { seq: self.seq, ack_upto: self.seq };
        let (lease_id, lease_epoch) = self.lease;
        let names = vec![name];
        let release = v1::SessionRelease { names, lease_id, lease_epoch, fencing_token };
        match self.mux.ask(Some(once), Request::Release(release)).await? {
            Response::Released(told) if told.released => Ok(()),
            other => bail!("{other:?} is no release"),
        }
    }
}

/// Writes all that waits at once, until nobody is left who could want something.
async fn write(mut writer: Requests, mut waiting: mpsc::Receiver<v1::SessionRequest>) {
    let mut requests = Vec::new();
    while waiting.recv_many(&mut requests, REQUESTS_MAX).await > 0 {
        if writer.send(requests.drain(..)).await.is_err() {
            // Those who wait for answers learn it from the reader.
            return;
        }
    }
}

/// Hands every last answer to whoever waits for it.
async fn read(mut answers: Answers, open: Open) {
    while let Ok(heard) = answers.next().await {
        if let Some(Response::Acquired(told)) = &heard.response
            && told.state() == State::Queued
        {
            continue;
        }
        let waiting = lock(&open).remove(&heard.request_id);
        if let Some(waiting) = waiting {
            // Whoever has gone does not need it.
            let _ = waiting.send(heard);
        }
    }
    // Those who still wait learn that nothing comes.
    lock(&open).clear();
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
