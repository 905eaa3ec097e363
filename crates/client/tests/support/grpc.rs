//! The model as a real server on a loopback port, on a thread of its own: gRPC, and sessions without
//! HTTP/2 beside it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use fencepost_client::BootTime;
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::cluster_service_server::{ClusterService, ClusterServiceServer};
use fencepost_proto::v1::lock_service_server::{LockService, LockServiceServer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server as Transport;
use tonic::{Request, Response, Status, Streaming};

use super::framed;
use super::store::{Store, millis};

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    changes: watch::Sender<u64>,
}

struct State {
    store: Store,
    streams: BTreeMap<u64, mpsc::Sender<Result<pb::SessionResponse, Status>>>,
    streams_opened: u64,
    connections: u64,
    /// How many streams were opened without HTTP/2.
    framed_opened: u64,
    began: BootTime,
    /// Swallows everything that comes in, and says nothing.
    is_silent: bool,
    damages_backups: bool,
    signing_keys: Vec<pb::SigningKey>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics while it looks at the server")
    }

    /// Changes something, and lets everybody know.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        state.tick();
        let answer = change(&mut state);
        state.send();
        drop(state);
        self.changed.notify_all();
        self.changes.send_modify(|count| *count += 1);
        answer
    }
}

impl State {
    fn tick(&mut self) {
        let passed = BootTime::now().since(self.began).as_micros();
        self.store.advance(u64::try_from(passed).expect("tests are short"));
    }

    fn send(&mut self) {
        for (stream, frame) in self.store.take_frames() {
            if let Some(sender) = self.streams.get(&stream).filter(|_| !self.is_silent) {
                // A reader that is gone is no concern of the server.
                let _ = sender.try_send(Ok(frame));
            }
        }
    }
}

impl Server {
    pub(crate) fn start() -> Server {
        Server::listen(Server::shared(), None, true)
    }

    /// One that knows nothing but gRPC, as earlier versions did, and some proxies do.
    pub(crate) fn start_grpc_only() -> Server {
        Server::listen(Server::shared(), None, false)
    }

    fn shared() -> Arc<Shared> {
        let state = State {
            store: Store::new(),
            streams: BTreeMap::new(),
            streams_opened: 0,
            connections: 0,
            framed_opened: 0,
            began: BootTime::now(),
            is_silent: false,
            damages_backups: false,
            signing_keys: Vec::new(),
        };
        let (changes, _) = watch::channel(0);
        Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), changes })
    }

    /// Another member of the same cluster.
    pub(crate) fn beside(&self, member: u64) -> Server {
        Server::listen(Arc::clone(&self.shared), Some(member), true)
    }

    fn listen(shared: Arc<Shared>, member: Option<u64>, is_framed: bool) -> Server {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let serving = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime can be made");
            runtime.block_on(serve(Door(serving, member), is_framed, tell, stopped));
        });
        let address = told.recv().expect("the server says where it is");
        Server { shared, address, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Looks at the store, or changes it.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        self.shared.change(|state| change(&mut state.store))
    }

    /// How many streams were opened without HTTP/2, and how many over gRPC.
    pub(crate) fn carried(&self) -> (u64, u64) {
        let state = self.shared.lock();
        (state.framed_opened, state.streams_opened - state.framed_opened)
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> u64 {
        self.shared.lock().connections
    }

    pub(crate) fn be_silent(&self, is_silent: bool) {
        self.shared.change(|state| state.is_silent = is_silent);
    }

    pub(crate) fn damage_backups(&self) {
        self.shared.change(|state| state.damages_backups = true);
    }

    /// Ends every stream, as a leader change does.
    pub(crate) fn break_streams(&self) {
        self.shared.change(|state| {
            for (stream, _) in std::mem::take(&mut state.streams) {
                state.store.close(stream);
            }
        });
    }

    /// Waits until the store is as wanted.
    pub(crate) async fn until(&self, mut wanted: impl FnMut(&mut Store) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        loop {
            changes.mark_unchanged();
            if wanted(&mut self.shared.lock().store) {
                return;
            }
            changes.changed().await.expect("the server is there");
        }
    }

    /// The same, and blocks the thread.
    pub(crate) fn block_until(&self, mut wanted: impl FnMut(&mut Store) -> bool) {
        let mut state = self.shared.lock();
        while !wanted(&mut state.store) {
            state = self.shared.changed.wait(state).expect("no test panics meanwhile");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server has failed the test already.
            let _ = thread.join();
        }
    }
}

async fn serve(
    door: Door,
    is_framed: bool,
    tell: std::sync::mpsc::SyncSender<SocketAddr>,
    stopped: oneshot::Receiver<()>,
) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    tell.send(listener.local_addr().expect("it is bound")).expect("somebody waits");
    let (others, incoming) = mpsc::channel(64);
    let serving = Transport::builder()
        .add_service(LockServiceServer::new(door.clone()))
        .add_service(ClusterServiceServer::new(door.clone()))
        .serve_with_incoming(ReceiverStream::new(incoming));
    let shared = Arc::clone(&door.0);
    let accepting = async {
        loop {
            let (stream, _) = listener.accept().await.expect("it is bound");
            shared.lock().connections += 1;
            let (door, others) = (door.clone(), others.clone());
            tokio::spawn(async move {
                if is_framed && framed::is_begun(&stream).await {
                    door.talk(stream).await;
                } else {
                    // It may be about to end.
                    let _ = others.send(Ok::<_, std::io::Error>(stream)).await;
                }
            });
        }
    };
    let mut clock = tokio::time::interval(std::time::Duration::from_millis(5));
    let ticking = async {
        loop {
            clock.tick().await;
            shared.change(|_| ());
        }
    };
    tokio::select! {
        served = serving => served.expect("the server runs"),
        () = ticking => {}
        () = accepting => {}
        _ = stopped => {}
    }
}

#[derive(Clone)]
struct Door(Arc<Shared>, Option<u64>);

impl Door {
    /// Opens a stream. Its number, and its answers.
    fn open(&self, is_framed: bool) -> (u64, mpsc::Receiver<Result<pb::SessionResponse, Status>>) {
        let (sender, receiver) = mpsc::channel(4_096);
        let stream = self.0.change(|state| {
            state.streams_opened += 1;
            state.framed_opened += u64::from(is_framed);
            let stream = state.streams_opened;
            state.streams.insert(stream, sender);
            match self.1 {
                Some(member) => state.store.open_at(stream, member),
                None => state.store.open(stream),
            }
            stream
        });
        (stream, receiver)
    }

    fn hear(&self, stream: u64, frame: pb::SessionRequest) {
        self.0.change(|state| {
            if !state.is_silent {
                state.store.receive(stream, frame);
            }
        });
    }

    fn close(&self, stream: u64) {
        self.0.change(|state| {
            state.streams.remove(&stream);
            state.store.close(stream);
        });
    }

    /// Serves a session without HTTP/2.
    async fn talk(&self, socket: TcpStream) {
        let (stream, answers) = self.open(true);
        // However it ends, it ends.
        let _ = framed::talk(socket, answers, |frame| self.hear(stream, frame)).await;
        self.close(stream);
    }
}

#[tonic::async_trait]
impl LockService for Door {
    type SessionStream = Answers<pb::SessionResponse>;
    type LeaseKeepAliveStream = Answers<pb::LeaseKeepAliveResponse>;
    type WatchStream = Answers<pb::WatchResponse>;

    async fn session(
        &self,
        request: Request<Streaming<pb::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (stream, receiver) = self.open(false);
        let (door, mut incoming) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Ok(Some(frame)) = incoming.message().await {
                door.hear(stream, frame);
            }
            door.close(stream);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn get_lock(
        &self,
        request: Request<pb::GetLockRequest>,
    ) -> Result<Response<pb::GetLockResponse>, Status> {
        let name = request.into_inner().name;
        let lock = self.0.change(|state| state.store.lock_view(&name));
        Ok(Response::new(pb::GetLockResponse { header: None, lock: Some(lock) }))
    }

    async fn list_locks(
        &self,
        request: Request<pb::ListLocksRequest>,
    ) -> Result<Response<pb::ListLocksResponse>, Status> {
        let ask = request.into_inner();
        let locks = self.0.change(|state| {
            let names = state.store.queues.keys();
            let names = names.filter(|name| name.starts_with(&ask.prefix) && **name > ask.after);
            names.map(|name| state.store.lock_view(name)).collect()
        });
        Ok(Response::new(pb::ListLocksResponse { header: None, locks, more: false }))
    }

    /// The SDK has leases, and no use for this.
    async fn text_command(
        &self,
        _: Request<pb::TextCommandRequest>,
    ) -> Result<Response<pb::TextCommandResponse>, Status> {
        Err(Status::unimplemented("the model has no owners"))
    }

    async fn explain(
        &self,
        request: Request<pb::ExplainRequest>,
    ) -> Result<Response<pb::ExplainResponse>, Status> {
        let name = request.into_inner().name;
        let holder = self.0.change(|state| state.store.holder_of(&name));
        let reasons = vec![format!("{name} is held by {holder}")];
        Ok(Response::new(pb::ExplainResponse { header: None, reasons }))
    }

    async fn delete_lock(
        &self,
        _: Request<pb::DeleteLockRequest>,
    ) -> Result<Response<pb::DeleteLockResponse>, Status> {
        Ok(Response::new(pb::DeleteLockResponse::default()))
    }

    async fn get_client(
        &self,
        _: Request<pb::GetClientRequest>,
    ) -> Result<Response<pb::GetClientResponse>, Status> {
        Ok(Response::new(pb::GetClientResponse::default()))
    }

    async fn list_clients(
        &self,
        _: Request<pb::ListClientsRequest>,
    ) -> Result<Response<pb::ListClientsResponse>, Status> {
        Ok(Response::new(pb::ListClientsResponse::default()))
    }

    async fn force_release(
        &self,
        request: Request<pb::ForceReleaseRequest>,
    ) -> Result<Response<pb::ForceReleaseResponse>, Status> {
        let ask = request.into_inner();
        let left = self
            .0
            .change(|state| state.store.force(&ask.name, ask.fencing_token, ask.now, &ask.reason));
        let left = left.ok_or_else(|| Status::failed_precondition("token mismatch"))?;
        let pending_ms = millis(left);
        let answer = pb::ForceReleaseResponse {
            released: pending_ms == 0,
            pending_ms,
            ..Default::default()
        };
        Ok(Response::new(answer))
    }

    async fn get_lease(
        &self,
        request: Request<pb::GetLeaseRequest>,
    ) -> Result<Response<pb::GetLeaseResponse>, Status> {
        let id = request.into_inner().id;
        let lease = self.0.change(|state| {
            state.store.leases.get(&id).map(|lease| pb::Lease {
                id,
                ttl_ms: millis(lease.ttl),
                granted_ttl_ms: millis(lease.ttl),
                epoch: lease.epoch,
                client_id: lease.client.clone(),
                ..Default::default()
            })
        });
        let lease = Some(lease.ok_or_else(|| Status::not_found("lease not found"))?);
        Ok(Response::new(pb::GetLeaseResponse { header: None, lease }))
    }

    async fn list_leases(
        &self,
        _request: Request<pb::ListLeasesRequest>,
    ) -> Result<Response<pb::ListLeasesResponse>, Status> {
        let ids: Vec<i64> = self.0.change(|state| state.store.leases.keys().copied().collect());
        let leases = ids.into_iter().map(|id| pb::Lease { id, ..Default::default() }).collect();
        Ok(Response::new(pb::ListLeasesResponse { header: None, leases, more: false }))
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        let ask = request.into_inner();
        let revoked = self.0.change(|state| state.store.revoke(ask.id, ask.epoch));
        match revoked {
            Ok(pb::session_response::Response::LeaseRevoked(answer)) => Ok(Response::new(answer)),
            Ok(_) => Err(Status::internal("an answer of the wrong kind")),
            Err(failure) => Err(Status::not_found(failure.message)),
        }
    }

    async fn lock(
        &self,
        _: Request<pb::LockRequest>,
    ) -> Result<Response<pb::LockResponse>, Status> {
        Err(not_there())
    }

    async fn try_lock(
        &self,
        _: Request<pb::TryLockRequest>,
    ) -> Result<Response<pb::TryLockResponse>, Status> {
        Err(not_there())
    }

    async fn unlock(
        &self,
        _: Request<pb::UnlockRequest>,
    ) -> Result<Response<pb::UnlockResponse>, Status> {
        Err(not_there())
    }

    async fn lease_grant(
        &self,
        _: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        Err(not_there())
    }

    async fn lease_keep_alive(
        &self,
        _: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        Err(not_there())
    }

    async fn watch(
        &self,
        _: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(not_there())
    }

    async fn put(&self, _: Request<pb::PutRequest>) -> Result<Response<pb::PutResponse>, Status> {
        Err(not_there())
    }

    async fn range(
        &self,
        _: Request<pb::RangeRequest>,
    ) -> Result<Response<pb::RangeResponse>, Status> {
        Err(not_there())
    }

    async fn delete_range(
        &self,
        _: Request<pb::DeleteRangeRequest>,
    ) -> Result<Response<pb::DeleteRangeResponse>, Status> {
        Err(not_there())
    }
}

/// The client under test does not use it: it has the session for that.
fn not_there() -> Status {
    Status::unimplemented("only over the session")
}

#[tonic::async_trait]
impl ClusterService for Door {
    type SnapshotStream = Answers<pb::SnapshotChunk>;

    async fn status(
        &self,
        _: Request<pb::StatusRequest>,
    ) -> Result<Response<pb::StatusResponse>, Status> {
        let header = Some(self.0.change(|state| state.store.header()));
        Ok(Response::new(pb::StatusResponse { header, ..Default::default() }))
    }

    async fn members(
        &self,
        _: Request<pb::MembersRequest>,
    ) -> Result<Response<pb::MembersResponse>, Status> {
        let member = pb::Member { id: 1, name: "n1".to_owned(), ..Default::default() };
        Ok(Response::new(pb::MembersResponse { header: None, members: vec![member] }))
    }

    async fn add_member(
        &self,
        request: Request<pb::AddMemberRequest>,
    ) -> Result<Response<pb::AddMemberResponse>, Status> {
        match request.into_inner().name.as_str() {
            "n1" => Err(Status::already_exists("a member named n1 exists already")),
            _ => Ok(Response::new(pb::AddMemberResponse::default())),
        }
    }

    async fn promote(
        &self,
        _: Request<pb::PromoteRequest>,
    ) -> Result<Response<pb::PromoteResponse>, Status> {
        Ok(Response::new(pb::PromoteResponse::default()))
    }

    async fn remove_member(
        &self,
        _: Request<pb::RemoveMemberRequest>,
    ) -> Result<Response<pb::RemoveMemberResponse>, Status> {
        Ok(Response::new(pb::RemoveMemberResponse::default()))
    }

    async fn move_leader(
        &self,
        _: Request<pb::MoveLeaderRequest>,
    ) -> Result<Response<pb::MoveLeaderResponse>, Status> {
        Ok(Response::new(pb::MoveLeaderResponse::default()))
    }

    async fn list_signing_keys(
        &self,
        _: Request<pb::ListSigningKeysRequest>,
    ) -> Result<Response<pb::ListSigningKeysResponse>, Status> {
        let keys = self.0.change(|state| state.signing_keys.clone());
        Ok(Response::new(pb::ListSigningKeysResponse { keys, ..Default::default() }))
    }

    async fn limits(
        &self,
        _: Request<pb::LimitsRequest>,
    ) -> Result<Response<pb::LimitsResponse>, Status> {
        Ok(Response::new(pb::LimitsResponse::default()))
    }

    async fn change_limits(
        &self,
        _: Request<pb::ChangeLimitsRequest>,
    ) -> Result<Response<pb::LimitsResponse>, Status> {
        Ok(Response::new(pb::LimitsResponse::default()))
    }

    async fn rotate_signing_key(
        &self,
        request: Request<pb::RotateSigningKeyRequest>,
    ) -> Result<Response<pb::RotateSigningKeyResponse>, Status> {
        let pb::RotateSigningKeyRequest { member_id, after_ms } = request.into_inner();
        let keys = self.0.change(|state| {
            let kid = format!("key-{}", state.signing_keys.len());
            let (state_name, due_ms) = ("next".to_owned(), after_ms);
            let key = pb::SigningKey { kid, member_id, state: state_name, due_ms, since_ms: 0 };
            state.signing_keys.push(key);
            state.signing_keys.clone()
        });
        Ok(Response::new(pb::RotateSigningKeyResponse { keys, ..Default::default() }))
    }

    async fn revoke_signing_key(
        &self,
        request: Request<pb::RevokeSigningKeyRequest>,
    ) -> Result<Response<pb::RevokeSigningKeyResponse>, Status> {
        let kid = request.into_inner().kid;
        let keys = self.0.change(|state| {
            let found = state.signing_keys.iter_mut().find(|key| key.kid == kid)?;
            found.state = "revoked".to_owned();
            Some(state.signing_keys.clone())
        });
        let keys = keys.ok_or_else(|| Status::not_found("there is no such signing key"))?;
        Ok(Response::new(pb::RevokeSigningKeyResponse { keys, ..Default::default() }))
    }

    async fn snapshot(
        &self,
        _: Request<pb::SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        let damages = self.0.change(|state| state.damages_backups);
        let sum = crc32c::crc32c(b"one two three ") ^ u32::from(damages);
        let chunk = |data: &'static [u8], crc32c: u32, is_last: bool| {
            Ok(pb::SnapshotChunk { header: None, data: data.into(), crc32c, is_last })
        };
        let chunks =
            [chunk(b"one ", 0, false), chunk(b"two ", 0, false), chunk(b"three ", sum, true)];
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }
}
