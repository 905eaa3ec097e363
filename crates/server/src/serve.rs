//! One port for everything: gRPC, and plain HTTP beside it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use fencepost_node::shell::{Freshness, Handle};
use fencepost_proto::v1::cluster_service_server::ClusterServiceServer;
use fencepost_proto::v1::lock_service_server::LockServiceServer;
use fencepost_proto::{DESCRIPTORS, ETCD_DESCRIPTORS};
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tonic::service::Routes;
use tower_service::Service;

use crate::duties;
use crate::ears::Ears;
use crate::etcd;
use crate::grpc::{ClusterDoor, LockDoor, Peer};
use crate::house::House;
use crate::http;
use crate::limits;
use crate::opening::Opening;
use crate::rest;
use crate::signing;
use crate::watch::Hub;

/// Window sizes of HTTP/2: a large value fits one stream, and many streams fit a connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
/// What one connection may have read of a request over HTTP/1 and not yet understood.
const HTTP1_BUFFER_BYTES: usize = 64 << 10;
/// After a failed accept, how long to wait for files to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What may be tuned of a server.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// How many connections it has at once. Beyond them new ones are refused.
    pub connections_max: usize,
    /// How long a client may take to say what it wants.
    pub headers_patience: Duration,
    /// How long another member may be gone before its calls are given up.
    pub member_patience: Duration,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            connections_max: limits::CONNECTIONS_MAX,
            headers_patience: limits::HEADERS_PATIENCE,
            member_patience: limits::MEMBER_PATIENCE,
        }
    }
}

/// A server of one node. It ends when this is dropped, or the node does.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves a node on a listener.
    ///
    /// # Errors
    ///
    /// The listener has no address, the node has ended, or its signing key cannot be used.
    pub async fn start(handle: &Handle, listener: TcpListener) -> io::Result<Server> {
        Server::start_with(handle, listener, Tuning::default()).await
    }

    /// The same, tuned.
    ///
    /// # Errors
    ///
    /// The listener has no address, the node has ended, or its signing key cannot be used.
    pub async fn start_with(
        handle: &Handle,
        listener: TcpListener,
        tuning: Tuning,
    ) -> io::Result<Server> {
        let address = listener.local_addr()?;
        let house = Arc::new(House::new(handle).map_err(io::Error::other)?);
        house.metrics.watch_node(handle);
        handle.observe(Box::new(Ears(Arc::downgrade(&house))));
        // This comes after the observer on its way to the loop, so from here on nothing is missed.
        let beginning = Arc::downgrade(&house);
        let look = house.calls.read(Freshness::Stale, move |machine| {
            if let Some(house) = beginning.upgrade() {
                house.metrics.recount(machine.state());
                house.head.reach(machine.state().revision());
                house.signing.look(machine.state());
            }
        });
        look.await.map_err(|failure| io::Error::other(failure.message))?;
        house.head.refresh();
        let mut tasks = JoinSet::new();
        let router = routes(&house, &mut tasks);
        tasks.spawn(Hub::default().run(Arc::clone(&house.fan_out)));
        tasks.spawn(duties::tell_progress(Arc::clone(&house)));
        tasks.spawn(duties::tell_places(Arc::clone(&house)));
        tasks.spawn(duties::tell_of_lost_calls(Arc::clone(&house)));
        tasks.spawn(signing::keep_keys(Arc::clone(&house)));
        tasks.spawn(duties::give_up_lost_members(Arc::clone(&house), tuning.member_patience));
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(house, listener, router, tuning, tasks, stopped));
        Ok(Server { address, stop, task })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, ends all streams with a status that says so, and waits for it.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // A task that panicked has said so.
        drop((&mut self.task).await);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// All services.
fn routes(house: &Arc<House>, tasks: &mut JoinSet<()>) -> Router {
    let (reporter, health) = tonic_health::server::health_reporter();
    tasks.spawn(duties::report_health(Arc::clone(house), reporter));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(ETCD_DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let built = "the schemas were compiled with this build";
    let locks = LockServiceServer::new(LockDoor(Arc::clone(house)))
        .max_decoding_message_size(limits::MESSAGE_BYTES_MAX);
    let cluster = ClusterServiceServer::new(ClusterDoor(Arc::clone(house)))
        .max_decoding_message_size(limits::MESSAGE_BYTES_MAX);
    let routes = Routes::new(locks)
        .add_service(cluster)
        .add_service(health)
        .add_service(reflection().build_v1().expect(built))
        .add_service(reflection().build_v1alpha().expect(built));
    etcd::add_to(routes, house)
        .into_axum_router()
        .merge(http::routes(house))
        .merge(rest::routes(house))
        .fallback(http::nowhere)
}

async fn accept(
    house: Arc<House>,
    listener: TcpListener,
    router: Router,
    tuning: Tuning,
    mut tasks: JoinSet<()>,
    mut stopped: watch::Receiver<bool>,
) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(tuning.connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|&is_stopped| is_stopped) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Beyond the bound a connection is refused at once, which its client notices.
                let Ok(place) = Arc::clone(&room).try_acquire_owned() else { continue };
                let patience = tuning.headers_patience;
                let served = serve(stream, peer, router.clone(), patience, graceful.watcher());
                let house = Arc::clone(&house);
                tokio::spawn(async move {
                    house.metrics.connections.inc();
                    if let Err(why) = served.await {
                        tracing::debug!(%peer, why, "a connection has ended");
                    }
                    house.metrics.connections.dec();
                    drop(place);
                });
            }
            Err(why) => {
                tracing::warn!(%why, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    house.close();
    if tokio::time::timeout(limits::FAREWELL, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
    tasks.shutdown().await;
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    patience: Duration,
    watcher: Watcher,
) -> Result<(), String> {
    stream.set_nodelay(true).map_err(|why| why.to_string())?;
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        let mut router = router.clone();
        async move { Ok::<_, Infallible>(router.call(request).await.unwrap_or_else(|no| match no {})) }
    });
    let builder = builder(patience);
    let opening = TokioIo::new(Opening::new(stream, patience));
    let connection = builder.serve_connection(opening, service);
    watcher.watch(connection).await.map_err(|why| why.to_string())
}

fn builder(patience: Duration) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS_MAX)
        .max_header_list_size(limits::HEADERS_BYTES_MAX)
        .max_pending_accept_reset_streams(limits::RESETS_PENDING_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(limits::KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEP_ALIVE_PATIENCE);
    builder
}
