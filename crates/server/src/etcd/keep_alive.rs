//! LeaseKeepAlive: renewals of many leases on one stream.
//!
//! They go to the log side by side, because each waits a little for the company of others. Answers
//! name their lease, so their order does not matter. A lease that is gone is answered, not refused.
//! A stream without requests for as long as a connection may be idle is ended.

use std::sync::Arc;

use fencepost_core::command::{Action, Command, LeaseRenew, Renewal};
use fencepost_core::outcome::RenewResult;
use fencepost_core::{LeaseId, Outcome};
use fencepost_node::io::Class;
use fencepost_proto::etcd::etcdserverpb as pb;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::leases::secs;
use super::{EtcdDoor, header, refuse, unexpected};
use crate::error::Failure;
use crate::grpc::Answers;

/// Renewals of one stream that may be under way.
const RENEWALS_MAX: usize = 1_024;
/// Answers that may wait for the client to read them.
const ANSWERS_MAX: usize = 64;

type Answered = Result<pb::LeaseKeepAliveResponse, Status>;

pub(super) fn serve(
    door: &EtcdDoor,
    requests: Streaming<pb::LeaseKeepAliveRequest>,
    wants_leader: bool,
) -> Answers<pb::LeaseKeepAliveResponse> {
    let (answers, answered) = mpsc::channel(ANSWERS_MAX);
    tokio::spawn(listen(door.clone(), requests, answers, wants_leader));
    Box::pin(ReceiverStream::new(answered))
}

async fn listen(
    door: EtcdDoor,
    mut requests: Streaming<pb::LeaseKeepAliveRequest>,
    answers: Sender<Answered>,
    wants_leader: bool,
) {
    let room = Arc::new(Semaphore::new(RENEWALS_MAX));
    loop {
        let request = tokio::select! {
            request = requests.next() => request,
            () = door.0.closed() => Some(Err(Status::unavailable("etcdserver: server stopped"))),
            () = door.leaderless(), if wants_leader => Some(Err(refuse::no_leader())),
            () = answers.closed() => return,
            // A stream that renews nothing must not keep its connection from counting as idle.
            () = tokio::time::sleep(door.0.idle_patience) => Some(Err(refuse::idle())),
        };
        let request = match request {
            Some(Ok(request)) => request,
            Some(Err(status)) => {
                // The client may be gone.
                drop(answers.send(Err(status)).await);
                return;
            }
            None => return,
        };
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let (door, answers) = (door.clone(), answers.clone());
        tokio::spawn(async move {
            let renewed = door.renew(LeaseId(request.id)).await;
            let renewed = renewed.map_err(|failure| refuse::status(&failure));
            drop(answers.send(renewed).await);
            drop(place);
        });
    }
}

impl EtcdDoor {
    async fn renew(&self, id: LeaseId) -> Result<pb::LeaseKeepAliveResponse, Failure> {
        let renewals = vec![Renewal { lease: id.into(), number: 0 }];
        let command = Command::from(Action::LeaseRenew(LeaseRenew { renewals }));
        let renewed = self.0.act_as(Class::Renewal, &command).await;
        let code = renewed.as_ref().map_or_else(|failure| failure.code, |_| "ok");
        self.0.metrics.request("etcd_lease_keep_alive", code);
        let (head, outcome) = renewed?;
        let Outcome::LeasesRenewed(renewed) = outcome else { return Err(unexpected()) };
        let result = renewed.first().ok_or_else(unexpected)?.result;
        let ttl = match result {
            RenewResult::Alive { ttl, .. } => secs(ttl),
            RenewResult::Gone | RenewResult::HeldTooLong => 0,
        };
        Ok(pb::LeaseKeepAliveResponse { header: Some(header(head)), id: id.0, ttl })
    }

    /// Waits until no leader is known.
    pub(super) async fn leaderless(&self) {
        let mut changes = self.0.head.changes();
        while self.0.head.leader().is_some() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
