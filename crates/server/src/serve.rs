//! One port for everything: gRPC, plain HTTP beside it, and sessions without either.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::Router;
use fencepost_node::shell::{Freshness, Handle};
use fencepost_proto::v1::cluster_service_server::ClusterServiceServer;
use fencepost_proto::v1::lock_service_server::LockServiceServer;
use fencepost_proto::{DESCRIPTORS, ETCD_DESCRIPTORS};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Sleep;
use tonic::service::Routes;

use crate::along::Along;
use crate::arrival::Noted;
use crate::booth::Booths;
use crate::duties;
use crate::ears::Ears;
use crate::etcd;
use crate::framed;
use crate::grpc::{ClusterDoor, LockDoor};
use crate::hosts::AllowedHosts;
use crate::house::House;
use crate::http;
use crate::json_tcp;
use crate::limits;
use crate::opening::Opening;
use crate::requests::{Given, Requests};
use crate::rest;
use crate::seats::{Seat, Seats};
use crate::signing;
use crate::watch::Hub;
use crate::ws;

/// What one connection may have read of a request over HTTP/1 and not yet understood.
const HTTP1_BUFFER_BYTES: usize = 64 << 10;

/// What may be tuned of a server.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// How many connections it has at once. Beyond them new ones are refused.
    pub connections_max: usize,
    /// How many of them one address may have; without it, a share of all.
    pub address_connections_max: Option<usize>,
    /// How many requests over HTTP it serves at once. Beyond them a connection has a few.
    pub requests_max: usize,
    /// Under which names requests over HTTP may reach it, beside IP addresses and `localhost`.
    pub allowed_hosts: AllowedHosts,
    /// How long a client may take to say what it wants.
    pub headers_patience: Duration,
    /// How long another member may be gone before its calls are given up.
    pub member_patience: Duration,
    /// How long a message may take to arrive, or an answer over HTTP/2 to be taken.
    pub body_patience: Duration,
    /// How often a WebSocket is asked whether it is alive. If it says nothing until it is asked
    /// again, it is not.
    pub ping_interval: Duration,
    /// How long a connection may have no request, wait, lease or watch. HTTP/2 and sessions are
    /// given up to twice as long.
    pub idle_patience: Duration,
    /// How long a client may take to read one answer in JSON, or to read on where there is no HTTP/2.
    pub answer_patience: Duration,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            connections_max: limits::CONNECTIONS_MAX,
            address_connections_max: None,
            requests_max: limits::HTTP_REQUESTS_MAX,
            allowed_hosts: AllowedHosts::default(),
            headers_patience: limits::HEADERS_PATIENCE,
            member_patience: limits::MEMBER_PATIENCE,
            body_patience: limits::BODY_PATIENCE,
            ping_interval: limits::KEEP_ALIVE_INTERVAL,
            idle_patience: limits::IDLE_PATIENCE,
            answer_patience: limits::ANSWER_PATIENCE,
        }
    }
}

/// Where a server listens.
#[derive(Debug)]
pub struct Listeners {
    /// For everything that goes over one port.
    pub clients: TcpListener,
    /// For JSON over TCP, if that is spoken.
    pub json_tcp: Option<TcpListener>,
}

impl From<TcpListener> for Listeners {
    fn from(clients: TcpListener) -> Listeners {
        Listeners { clients, json_tcp: None }
    }
}

/// A server of one node. It ends when this is dropped, or the node does.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    json_tcp: Option<SocketAddr>,
    house: Weak<House>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Server {
    /// Serves a node on a listener.
    ///
    /// # Errors
    ///
    /// The listener has no address, the node has ended, or its signing key cannot be used.
    pub async fn start(handle: &Handle, listeners: impl Into<Listeners>) -> io::Result<Server> {
        Server::start_with(handle, listeners, Tuning::default()).await
    }

    /// The same, tuned.
    ///
    /// # Errors
    ///
    /// The listener has no address, the node has ended, or its signing key cannot be used.
    pub async fn start_with(
        handle: &Handle,
        listeners: impl Into<Listeners>,
        tuning: Tuning,
    ) -> io::Result<Server> {
        let Listeners { clients, json_tcp } = listeners.into();
        let address = clients.local_addr()?;
        let json_address = json_tcp.as_ref().map(TcpListener::local_addr).transpose()?;
        let house = Arc::new(House::new(handle, &tuning).map_err(io::Error::other)?);
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
        let router = routes(&house, &tuning, &mut tasks);
        let seats = Seats::new(&house, tuning.connections_max, tuning.address_connections_max);
        if let Some(listener) = json_tcp {
            let (house, seats, tuning) = (Arc::clone(&house), seats.clone(), tuning.clone());
            tasks.spawn(json_tcp::accept(house, listener, seats, tuning));
        }
        tasks.spawn(Arc::clone(&house.pauses).run());
        tasks.spawn(Hub::default().run(Arc::clone(&house.fan_out)));
        tasks.spawn(duties::tell_progress(Arc::clone(&house)));
        tasks.spawn(duties::tell_places(Arc::clone(&house)));
        tasks.spawn(duties::tell_of_lost_calls(Arc::clone(&house)));
        tasks.spawn(signing::keep_keys(Arc::clone(&house)));
        tasks.spawn(duties::give_up_lost_members(Arc::clone(&house), tuning.member_patience));
        let (stop, stopped) = watch::channel(false);
        let booths = Arc::new(Booths::new(handle));
        let shared = Arc::downgrade(&house);
        let hall = Hall { doors: Doors { house, router, tuning }, booths, stopped };
        let task = tokio::spawn(accept(hall, clients, seats, tasks));
        Ok(Server { address, json_tcp: json_address, house: shared, stop, task })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens for JSON over TCP, if it does.
    #[must_use]
    pub fn json_tcp_address(&self) -> Option<SocketAddr> {
        self.json_tcp
    }

    /// Waits until the server can serve, as `/readyz` answers it. For ever, if the node ends first.
    pub async fn ready(&self) {
        let Some(mut changes) = self.house.upgrade().map(|house| house.head.changes()) else {
            return std::future::pending().await;
        };
        while self.house.upgrade().is_none_or(|house| house.head.leader().is_none()) {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
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
fn routes(house: &Arc<House>, tuning: &Tuning, tasks: &mut JoinSet<()>) -> Router {
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
        .merge(ws::routes(house, tuning))
        .fallback(http::nowhere)
}

/// What every connection is served with.
#[derive(Clone)]
struct Hall {
    doors: Doors,
    /// For sessions and HTTP/2. Nothing that they serve keeps them open.
    booths: Arc<Booths>,
    stopped: watch::Receiver<bool>,
}

/// What is behind the port.
#[derive(Clone)]
struct Doors {
    house: Arc<House>,
    router: Router,
    tuning: Tuning,
}

async fn accept(mut hall: Hall, listener: TcpListener, seats: Seats, mut tasks: JoinSet<()>) {
    loop {
        let (stream, peer, seat) = tokio::select! {
            accepted = seats.accept(&listener) => accepted,
            () = hall.stopped() => break,
        };
        let served = hall.clone().serve(stream, peer, seat);
        tokio::spawn(async move {
            if let Err(why) = served.await {
                tracing::debug!(%peer, why, "a connection has ended");
            }
        });
    }
    drop(listener);
    hall.doors.house.close();
    if tokio::time::timeout(limits::FAREWELL, seats.emptied()).await.is_err() {
        tracing::warn!("some connections did not end in time");
    }
    tasks.shutdown().await;
}

impl Hall {
    async fn stopped(&mut self) {
        // If there is nobody to stop it, it has been stopped.
        drop(self.stopped.wait_for(|&is_stopped| is_stopped).await);
    }

    /// Serves what the first byte asks for.
    async fn serve(
        mut self,
        mut stream: TcpStream,
        peer: SocketAddr,
        seat: Seat,
    ) -> Result<(), String> {
        let mut patience = Box::pin(tokio::time::sleep(self.doors.tuning.headers_patience));
        let begun = tokio::select! {
            begun = Begun::hear(&mut stream) => begun,
            () = &mut patience => Err(io::ErrorKind::TimedOut.into()),
            () = self.stopped() => return Ok(()),
        };
        // Many wait here for their first byte, so what comes next has its own room.
        let served = match begun.map_err(|why| why.to_string())? {
            Begun::Framed(greeting) => {
                // They are told of the end in their own words.
                drop(patience);
                let Doors { house, tuning, .. } = self.doors;
                let served =
                    framed::serve(house, stream, peer, greeting, tuning, &self.booths).await;
                drop(seat);
                served
            }
            Begun::Http2 => {
                let (doors, stopped, until) = (self.doors, self.stopped, patience.deadline());
                let stream = stream.into_std().map_err(|why| why.to_string())?;
                let serve = async move {
                    let patience = Box::pin(tokio::time::sleep_until(until));
                    let stream = TcpStream::from_std(stream)?;
                    doors.serve_http(stream, peer, seat, patience, stopped).await
                };
                Box::pin(self.booths.host(serve)).await
            }
            Begun::Http => {
                let (doors, stopped) = (self.doors, self.stopped);
                Box::pin(doors.serve_http(stream, peer, seat, patience, stopped)).await
            }
        };
        served.map_err(|why| why.to_string())
    }
}

impl Doors {
    async fn serve_http(
        self,
        stream: TcpStream,
        peer: SocketAddr,
        seat: Seat,
        patience: Pin<Box<Sleep>>,
        mut stopped: watch::Receiver<bool>,
    ) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let Tuning { headers_patience, body_patience, idle_patience, allowed_hosts, .. } =
            self.tuning;
        let along = Along::new(body_patience);
        let builder = builder(along.clone(), headers_patience);
        let partial = Arc::<ws::PartialMessage>::default();
        let opening = Opening::new(stream, patience, Arc::clone(&partial), body_patience);
        let noted = Noted::new(opening, &self.house.pauses);
        let (router, hosts, arrivals) = (self.router, allowed_hosts, noted.arrivals());
        let given = Given {
            router,
            peer,
            seat,
            arrivals: arrivals.clone(),
            patience: body_patience,
            hosts,
            partial,
        };
        let requests = Arc::new(Requests::new(&self.house, given));
        let served = Arc::clone(&requests);
        // When it came is asked at once: until the request is begun, others may be read.
        let service = service_fn(move |request| {
            Box::pin(Arc::clone(&served).serve(request, arrivals.next()))
        });
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(noted), service);
        let connection = async move {
            let mut connection = pin!(connection);
            tokio::select! {
                biased;
                served = connection.as_mut() => return served,
                // If there is nobody to stop it, it has been stopped.
                _ = stopped.wait_for(|&is_stopped| is_stopped) => {}
                () = requests.idle(idle_patience) => {}
                () = requests.flooded() => {
                    return Err("too many requests were open, and more came".into());
                }
            }
            connection.as_mut().graceful_shutdown();
            let ended = tokio::time::timeout(limits::FAREWELL, connection).await;
            ended.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
        };
        along.with(connection).await.map_err(io::Error::other)
    }
}

/// What a connection has begun with.
enum Begun {
    /// A session without HTTP/2.
    Framed(framed::Greeting),
    /// HTTP/2, as far as its first two bytes tell; no method of HTTP/1 has them.
    Http2,
    /// Something else, HTTP/1 in most cases.
    Http,
}

impl Begun {
    async fn hear(stream: &mut TcpStream) -> io::Result<Begun> {
        let mut first = [0; 2];
        let len = stream.peek(&mut first).await?;
        if framed::is_begun_by(first[0]) {
            return Ok(Begun::Framed(framed::greeted(stream).await?));
        }
        // One byte alone is rare, and HTTP/2 is served everywhere.
        Ok(if len == 2 && first == *b"PR" { Begun::Http2 } else { Begun::Http })
    }
}

fn builder(along: Along, patience: Duration) -> auto::Builder<Along> {
    let mut builder = auto::Builder::new(along);
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
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(limits::KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(limits::KEEP_ALIVE_PATIENCE);
    builder
}
