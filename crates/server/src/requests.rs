//! The requests of one connection, and which way each of them goes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::sync::Notify;
use tonic::Status;
use tower_service::Service as _;

use crate::answer_room::AnswerRoom;
use crate::arrival::{Arrival, Arrivals};
use crate::byte_budget::ByteBudget;
use crate::error::{Failure, Wrong};
use crate::etcd::{Asked, EtcdDoor, UnaryCall};
use crate::grpc::Peer;
use crate::hosts::AllowedHosts;
use crate::house::House;
use crate::limits;
use crate::request_body::{self, Kind, RequestBody};
use crate::response_body::ResponseBody;
use crate::rest;
use crate::seats::Seat;
use crate::unary::{self, Answer};
use crate::ws::PartialMessage;

/// What the requests of one connection are served with.
pub(crate) struct Requests {
    house: Arc<House>,
    etcd: EtcdDoor,
    router: Router,
    peer: SocketAddr,
    seat: Seat,
    arrivals: Arrivals,
    /// What unfinished bodies may take.
    budget: Arc<ByteBudget>,
    /// How long a body may take.
    patience: Duration,
    hosts: AllowedHosts,
    /// For messages that are received once this has become a WebSocket.
    partial: Arc<PartialMessage>,
    open: AtomicUsize,
    begun: AtomicU64,
    refused: AtomicUsize,
    /// Too many were refused.
    flooded: Notify,
}

/// What a connection needs to serve requests.
pub(crate) struct Given {
    pub(crate) router: Router,
    pub(crate) peer: SocketAddr,
    pub(crate) seat: Seat,
    pub(crate) arrivals: Arrivals,
    pub(crate) patience: Duration,
    pub(crate) hosts: AllowedHosts,
    pub(crate) partial: Arc<PartialMessage>,
}

/// A request that is being served, or whose answer is being sent.
pub(crate) struct OpenRequest(Arc<Requests>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.house.open_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Requests {
    pub(crate) fn new(house: &Arc<House>, given: Given) -> Requests {
        let Given { router, peer, seat, arrivals, patience, hosts, partial } = given;
        Requests {
            house: Arc::clone(house),
            etcd: EtcdDoor::new(house),
            router,
            peer,
            seat,
            arrivals,
            budget: ByteBudget::for_connection(&house.unread),
            patience,
            hosts,
            partial,
            open: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            refused: AtomicUsize::new(0),
            flooded: Notify::new(),
        }
    }

    pub(crate) async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
        arrival: Arrival,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let open_here = self.open.fetch_add(1, Ordering::Relaxed);
        let open_in_all = self.house.open_requests.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        let open = OpenRequest(Arc::clone(&self));
        let is_one_too_many =
            open_in_all >= self.house.requests_max && open_here >= limits::CONNECTION_REQUESTS_MIN;
        let mut answered = match is_one_too_many {
            true => self.refuse(&request),
            false => self.answer(request, arrival).await?,
        };
        let room = AnswerRoom::detach(answered.extensions_mut());
        Ok(answered.map(|answer| ResponseBody::new(answer, open, room)))
    }

    /// Refuses a request without looking at it, and the whole connection if that goes on.
    fn refuse(&self, request: &Request<Incoming>) -> Response<Answer> {
        if self.refused.fetch_add(1, Ordering::Relaxed) + 1 == limits::REFUSED_REQUESTS_MAX {
            self.flooded.notify_one();
        }
        let failure = Failure::from(Wrong::TooMuchOpen("requests", self.house.requests_max));
        match request_body::is_grpc(request) {
            true => Status::from(failure).into_http::<Body>().map(Answer::Layered),
            false => rest::refuse(failure).map(Answer::Layered),
        }
    }

    /// Waits until too many requests of this connection were refused.
    pub(crate) async fn flooded(&self) {
        self.flooded.notified().await;
    }

    /// Waits until no request was open for so long, up to twice as long.
    pub(crate) async fn idle(&self, patience: Duration) {
        let mut before = 0;
        loop {
            tokio::time::sleep(patience).await;
            let begun = self.begun.load(Ordering::Relaxed);
            if begun == before && self.open.load(Ordering::Relaxed) == 0 {
                return;
            }
            before = begun;
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        arrival: Arrival,
    ) -> Result<Response<Answer>, Infallible> {
        let kind = Kind::of(&request);
        let request = request.map(|body| RequestBody::new(body, kind, &self.budget, self.patience));
        let call = UnaryCall::at(request.uri().path()).filter(|_| unary::may_be(&request));
        let Some(call) = call else {
            return match self.check_host(&request) {
                Ok(()) => self.route(request.map(Body::new), arrival).await,
                Err(failure) => Ok(rest::refuse(failure).map(Answer::Layered)),
            };
        };
        let (head, body) = request.into_parts();
        let request = match unary::read(body).await {
            Ok(message) => {
                let asked = Asked { head, peer: Peer(self.peer), message };
                match self.etcd.call(call, asked).await {
                    Ok(answered) => return Ok(answered),
                    Err(Asked { head, message, .. }) => {
                        Request::from_parts(head, message.into_body())
                    }
                }
            }
            Err(begun) => Request::from_parts(head, Body::new(begun)),
        };
        self.route(request, arrival).await
    }

    /// Refuses what a page in a browser may have sent through a name that its owner has pointed here.
    fn check_host<B>(&self, request: &Request<B>) -> Result<(), Failure> {
        if request_body::is_grpc_over_http2(request) {
            return Ok(());
        }
        self.hosts.check(request)
    }

    /// The way through all layers.
    async fn route(
        &self,
        mut request: Request<Body>,
        arrival: Arrival,
    ) -> Result<Response<Answer>, Infallible> {
        let extensions = request.extensions_mut();
        extensions.insert(Peer(self.peer));
        extensions.insert(self.seat.clone());
        extensions.insert(self.arrivals.clone());
        extensions.insert(arrival);
        extensions.insert(Arc::clone(&self.partial));
        Ok(self.router.clone().call(request).await?.map(Answer::Layered))
    }
}
