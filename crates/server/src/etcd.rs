//! etcd's door: clients of etcd's API, version 3, work unmodified.
//!
//! Owns: the translation of etcd's messages into commands and questions, and of answers back, with
//! the very codes and texts that its clients compare. Guarantees: a lock taken through this door is
//! the same lock as one taken natively, because both are keys in the same queue; any member serves
//! every request. Refuses: rules about keys and locks, which are the state's.

mod accounts;
mod alarms;
mod bolt;
mod cluster;
mod elections;
mod keep_alive;
mod keys;
mod leases;
mod locks;
mod maintenance;
mod parse;
mod refuse;
mod show;
mod snapshot;
mod unary_calls;
mod watch;
mod watching;

use std::sync::Arc;

use fencepost_core::Revision;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::auth_server::AuthServer;
use fencepost_proto::etcd::etcdserverpb::cluster_server::ClusterServer;
use fencepost_proto::etcd::etcdserverpb::kv_server::KvServer;
use fencepost_proto::etcd::etcdserverpb::lease_server::LeaseServer;
use fencepost_proto::etcd::etcdserverpb::maintenance_server::MaintenanceServer;
use fencepost_proto::etcd::etcdserverpb::watch_server::WatchServer;
use fencepost_proto::etcd::v3electionpb::election_server::ElectionServer;
use fencepost_proto::etcd::v3lockpb::lock_server::LockServer;
use fencepost_proto::v1;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::answer_room::AnswerRoom;
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::limits;

pub(crate) use unary_calls::{Asked, UnaryCall};

/// What a call is answered with.
type Answer<T> = Result<Response<T>, Status>;

/// All of etcd's services.
#[derive(Clone)]
pub(crate) struct EtcdDoor(Arc<House>);

/// Adds etcd's services.
pub(crate) fn add_to(routes: Routes, house: &Arc<House>) -> Routes {
    let door = || EtcdDoor::new(house);
    let max = limits::MESSAGE_BYTES_MAX;
    routes
        .add_service(KvServer::new(door()).max_decoding_message_size(max))
        .add_service(WatchServer::new(door()).max_decoding_message_size(max))
        .add_service(LeaseServer::new(door()).max_decoding_message_size(max))
        .add_service(ClusterServer::new(door()).max_decoding_message_size(max))
        .add_service(MaintenanceServer::new(door()).max_decoding_message_size(max))
        .add_service(AuthServer::new(door()).max_decoding_message_size(max))
        .add_service(LockServer::new(door()).max_decoding_message_size(max))
        .add_service(ElectionServer::new(door()).max_decoding_message_size(max))
}

impl EtcdDoor {
    pub(crate) fn new(house: &Arc<House>) -> EtcdDoor {
        EtcdDoor(Arc::clone(house))
    }

    /// Lets a request in, and hands over what it asks for. One that wants to be refused by a member
    /// without a leader says so.
    fn admit<T>(&self, request: Request<T>) -> Result<T, Status> {
        self.check_leader(&request)?;
        Ok(request.into_inner())
    }

    fn check_leader<T>(&self, request: &Request<T>) -> Result<(), Status> {
        if wants_leader(request) && self.0.head.leader().is_none() {
            return Err(refuse::no_leader());
        }
        Ok(())
    }

    /// Counts a call, and gives a failure the form that etcd has for it.
    fn answer<T>(&self, kind: &'static str, result: Result<T, Failure>) -> Answer<T> {
        let code = result.as_ref().map_or_else(|failure| failure.code, |_| "ok");
        self.0.metrics.request(kind, code);
        result.map(Response::new).map_err(|failure| refuse::status(&failure))
    }

    /// The same, for an answer that may be large.
    fn answer_in_room<T>(
        &self,
        kind: &'static str,
        result: Result<(T, AnswerRoom), Failure>,
    ) -> Answer<T> {
        let (result, room) = match result {
            Ok((answer, room)) => (Ok(answer), room),
            Err(failure) => (Err(failure), AnswerRoom::default()),
        };
        let mut answered = self.answer(kind, result)?;
        room.attach(answered.extensions_mut());
        Ok(answered)
    }

    fn header_at(&self, revision: Revision) -> pb::ResponseHeader {
        header(self.0.head.at(revision))
    }

    fn header_now(&self) -> pb::ResponseHeader {
        header(self.0.head.now())
    }
}

fn header(header: v1::Header) -> pb::ResponseHeader {
    let v1::Header { cluster_id, member_id, revision, raft_term, .. } = header;
    pb::ResponseHeader { cluster_id, member_id, revision, raft_term }
}

/// Whether a request is worth nothing without a leader.
fn wants_leader<T>(request: &Request<T>) -> bool {
    request.metadata().get("hasleader").is_some_and(|value| value == "true")
}

/// An answer that the request cannot have.
fn unexpected() -> Failure {
    Wrong::Unexpected.into()
}
