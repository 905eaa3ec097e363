//! What the tests of the doors share.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_node::shell::RunningNode;
use fencepost_node::shell::cluster::Cluster;
use fencepost_proto::v1;
use fencepost_proto::v1::cluster_service_client::ClusterServiceClient;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use fencepost_server::{Listeners, Server, Tuning};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use tonic_types::StatusExt;

/// Longer than anything here takes on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) type Locks = LockServiceClient<Channel>;

/// A cluster with a server for every node.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) servers: Vec<Server>,
    pub(crate) dirs: Vec<PathBuf>,
    _folder: TempDir,
}

pub(crate) async fn world(nodes: usize) -> World {
    world_with(nodes, &NodeConfig::new(0), Tuning::default()).await
}

pub(crate) async fn world_with(nodes: usize, config: &NodeConfig, tuning: Tuning) -> World {
    let folder = TempDir::new().expect("there is room for a folder");
    let dirs: Vec<_> = (1..=nodes).map(|number| folder.path().join(format!("n{number}"))).collect();
    let cluster = Cluster::start(&dirs, config).expect("the directories are new");
    cluster.leader(PATIENCE).expect("a leader is elected");
    let mut servers = Vec::new();
    for node in cluster.nodes() {
        servers.push(serve_with(node, tuning.clone()).await);
    }
    World { cluster, servers, dirs, _folder: folder }
}

pub(crate) async fn serve(node: &RunningNode) -> Server {
    serve_with(node, Tuning::default()).await
}

pub(crate) async fn serve_with(node: &RunningNode, tuning: Tuning) -> Server {
    let listener = async || TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
    let listeners = Listeners { clients: listener().await, json_tcp: Some(listener().await) };
    Server::start_with(node.handle(), listeners, tuning).await.expect("the node runs")
}

pub(crate) async fn channel(server: &Server) -> Channel {
    let address = format!("http://{}", server.address());
    let endpoint = Channel::from_shared(address).expect("it is an address");
    endpoint.connect().await.expect("the server listens")
}

impl World {
    pub(crate) async fn locks(&self, place: usize) -> Locks {
        LockServiceClient::new(channel(&self.servers[place]).await)
    }

    pub(crate) async fn admin(&self, place: usize) -> ClusterServiceClient<Channel> {
        ClusterServiceClient::new(channel(&self.servers[place]).await)
    }

    /// Tells the cluster where clients reach its members.
    pub(crate) async fn tell_addresses(&self) {
        let mut admin = self.admin(0).await;
        for (node, server) in self.cluster.nodes().iter().zip(&self.servers) {
            let status = node.handle().status();
            let member = v1::AddMemberRequest {
                id: status.id,
                name: status.name,
                peer_address: status.peer,
                client_address: server.address().to_string(),
            };
            admin.add_member(member).await.expect("it is a member already");
        }
    }

    pub(crate) fn leader(&self) -> usize {
        self.cluster.leader(PATIENCE).expect("there is a leader")
    }
}

/// Waits for something that must come.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it comes in time")
}

/// The stable code of a failure.
pub(crate) fn code(status: &Status) -> String {
    let info = status.get_details_error_info();
    info.map(|info| info.reason).unwrap_or_else(|| format!("no code: {status:?}"))
}

pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
    code(&result.expect_err("it is refused"))
}

/// A lease of a minute.
pub(crate) async fn lease(locks: &mut Locks, client: &str) -> i64 {
    let grant = v1::LeaseGrantRequest { ttl: 60, client_id: client.into(), ..Default::default() };
    locks.lease_grant(grant).await.expect("it is granted").into_inner().id
}

pub(crate) fn lock_request(name: &str, lease_id: i64, timeout_ms: i64) -> v1::LockRequest {
    v1::LockRequest { name: name.into(), lease_id, timeout_ms, ..Default::default() }
}

pub(crate) async fn acquired(locks: &mut Locks, name: &str, lease: i64) -> i64 {
    let told = locks.lock(lock_request(name, lease, -1)).await.expect("it is answered");
    let told = told.into_inner();
    assert!(told.acquired);
    told.fencing_token
}

pub(crate) async fn unlock(locks: &mut Locks, name: &str, lease_id: i64, token: i64) -> bool {
    let request = v1::UnlockRequest {
        name: name.into(),
        lease_id,
        fencing_token: token,
        ..Default::default()
    };
    locks.unlock(request).await.expect("it is answered").into_inner().released
}

pub(crate) async fn get_lock(locks: &mut Locks, name: &str) -> v1::Lock {
    let get = v1::GetLockRequest { name: name.into(), waiters_max: 1_000, ..Default::default() };
    let told = locks.get_lock(get).await.expect("it is answered").into_inner();
    told.lock.expect("every lock can be looked at")
}

/// Asks until so many wait.
pub(crate) async fn until_waiters(locks: &mut Locks, name: &str, count: u64) -> v1::Lock {
    soon(async {
        loop {
            let lock = get_lock(locks, name).await;
            if lock.waiters_total == count {
                return lock;
            }
        }
    })
    .await
}

/// A client's end of a session.
pub(crate) struct Talk {
    pub(crate) sender: mpsc::Sender<v1::SessionRequest>,
    pub(crate) answers: Streaming<v1::SessionResponse>,
}

impl Talk {
    /// Opens a stream, without a greeting.
    pub(crate) async fn silent(locks: &mut Locks) -> Talk {
        let (sender, frames) = mpsc::channel(4_096);
        let answers = locks.session(ReceiverStream::new(frames)).await.expect("it is opened");
        Talk { sender, answers: answers.into_inner() }
    }

    pub(crate) async fn open(locks: &mut Locks, client: &str) -> Talk {
        let mut talk = Talk::silent(locks).await;
        let hello = v1::SessionHello {
            client_id: client.into(),
            version_min: 1,
            version_max: 1,
            ..Default::default()
        };
        talk.say(1, None, Request::Hello(hello)).await;
        let welcome = talk.hear().await;
        assert!(matches!(welcome.response, Some(Response::Welcome(_))), "{welcome:?}");
        talk
    }

    pub(crate) async fn say(&self, request_id: u64, seq: Option<u64>, request: Request) {
        let once = seq.map(|seq| v1::Once { seq, ack_upto: 0 });
        let frame = v1::SessionRequest { request_id, once, request: Some(request) };
        self.sender.send(frame).await.expect("the stream is open");
    }

    /// The next answer.
    pub(crate) async fn hear(&mut self) -> v1::SessionResponse {
        let heard = soon(self.answers.message()).await.expect("the stream goes on");
        heard.expect("the stream goes on")
    }

    pub(crate) async fn failure(&mut self) -> v1::Failure {
        let heard = self.hear().await;
        heard.failure.unwrap_or_else(|| panic!("{:?} is no failure", heard.response))
    }

    pub(crate) async fn acquired(&mut self) -> (u64, v1::SessionAcquired) {
        let heard = self.hear().await;
        match heard.response {
            Some(Response::Acquired(acquired)) => (heard.request_id, acquired),
            other => panic!("{other:?} {:?}", heard.failure),
        }
    }

    /// The next answer to an acquire that is not about its place.
    pub(crate) async fn decided(&mut self) -> (u64, v1::SessionAcquired) {
        loop {
            let (id, told) = self.acquired().await;
            if told.state() != v1::session_acquired::State::Queued {
                return (id, told);
            }
        }
    }

    pub(crate) async fn lease(&mut self, request_id: u64, seq: u64, revoke_ms: i64) -> (i64, u64) {
        self.say(request_id, Some(seq), lease_of_a_minute(revoke_ms)).await;
        granted(&self.hear().await)
    }
}

pub(crate) fn acquire(names: &[&str], lease: (i64, u64), timeout_ms: i64) -> Request {
    let wanted = |name: &&str| v1::LockWanted { name: (*name).into(), ..Default::default() };
    Request::Acquire(v1::SessionAcquire {
        locks: names.iter().map(wanted).collect(),
        lease_id: lease.0,
        lease_epoch: lease.1,
        timeout_ms,
        ..Default::default()
    })
}

pub(crate) fn release(name: &str, lease: (i64, u64), token: i64) -> Request {
    Request::Release(v1::SessionRelease {
        names: vec![name.into()],
        lease_id: lease.0,
        lease_epoch: lease.1,
        fencing_token: token,
    })
}

/// Asks for a lease, as any session does.
pub(crate) fn lease_of_a_minute(revoke_ms: i64) -> Request {
    Request::LeaseGrant(v1::LeaseGrantRequest {
        ttl: 60,
        revoke_on_disconnect_ms: revoke_ms,
        ..Default::default()
    })
}

/// The lease that an answer grants.
pub(crate) fn granted(heard: &v1::SessionResponse) -> (i64, u64) {
    match &heard.response {
        Some(Response::LeaseGranted(granted)) => (granted.id, granted.epoch),
        other => panic!("{other:?}"),
    }
}
