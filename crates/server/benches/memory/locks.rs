//! A session that holds many locks.

use std::error::Error;
use std::ops::Range;

use fencepost_proto::v1;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use fencepost_proto::v1::session_acquired::State as Stage;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// Locks of one lease.
const PER_LEASE: u64 = 100;
/// Requests that are open at once.
const OPEN: u64 = 1_000;

/// A session that holds many locks.
pub(crate) struct Session {
    sender: mpsc::Sender<v1::SessionRequest>,
    answers: Streaming<v1::SessionResponse>,
    lease: (i64, u64),
    requests: u64,
    leases: u64,
}

impl Session {
    pub(crate) async fn open(address: &str) -> Result<Session, Box<dyn Error>> {
        let mut client = LockServiceClient::connect(format!("http://{address}")).await?;
        let (sender, frames) = mpsc::channel(4_096);
        let hello = v1::SessionHello {
            client_id: "holder".into(),
            version_min: 1,
            version_max: 1,
            ..Default::default()
        };
        let request = Some(Request::Hello(hello));
        sender.send(v1::SessionRequest { request_id: 1, once: None, request }).await?;
        let answers = client.session(ReceiverStream::new(frames)).await?.into_inner();
        let mut session = Session { sender, answers, lease: (0, 0), requests: 1, leases: 0 };
        session.hear().await?;
        Ok(session)
    }

    async fn say(&mut self, once: Option<u64>, request: Request) -> Result<(), Box<dyn Error>> {
        self.requests += 1;
        // All earlier answers have arrived, or will, and none is asked for again.
        let once = once.map(|seq| v1::Once { seq, ack_upto: seq });
        let (request_id, request) = (self.requests, Some(request));
        Ok(self.sender.send(v1::SessionRequest { request_id, once, request }).await?)
    }

    async fn hear(&mut self) -> Result<Response, Box<dyn Error>> {
        let heard = self.answers.message().await?.ok_or("the stream has ended")?;
        heard.response.ok_or_else(|| format!("{:?}", heard.failure).into())
    }

    /// Takes the locks with these numbers, each under a lease that has a hundred of them.
    pub(crate) async fn hold(&mut self, numbers: Range<u64>) -> Result<(), Box<dyn Error>> {
        let mut open = 0;
        for number in numbers {
            if self.lease.0 == 0 || number % PER_LEASE == 0 {
                self.all_held(&mut open).await?;
                self.next_lease().await?;
            }
            let name = format!("orders/{number:08}");
            let locks = vec![v1::LockWanted { name, ..Default::default() }];
            let (lease_id, lease_epoch) = self.lease;
            let acquire = v1::SessionAcquire { locks, lease_id, lease_epoch, ..Default::default() };
            self.say(Some(number % PER_LEASE + 1), Request::Acquire(acquire)).await?;
            open += 1;
            if open == OPEN {
                self.all_held(&mut open).await?;
            }
        }
        self.all_held(&mut open).await
    }

    async fn all_held(&mut self, open: &mut u64) -> Result<(), Box<dyn Error>> {
        while *open > 0 {
            match self.hear().await? {
                Response::Acquired(told) if told.state() == Stage::Acquired => *open -= 1,
                other => return Err(format!("{other:?} is no grant").into()),
            }
        }
        Ok(())
    }

    async fn next_lease(&mut self) -> Result<(), Box<dyn Error>> {
        self.leases += 1;
        let grant = v1::LeaseGrantRequest { ttl: 3_600, ..Default::default() };
        self.say(Some(self.leases), Request::LeaseGrant(grant)).await?;
        match self.hear().await? {
            Response::LeaseGranted(granted) => self.lease = (granted.id, granted.epoch),
            other => return Err(format!("{other:?} is no lease").into()),
        }
        Ok(())
    }
}
