//! The requests of one connection, and which way each of them goes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::{Request, Response};
use tower_service::Service as _;

use crate::etcd::{Asked, EtcdDoor, UnaryCall};
use crate::grpc::Peer;
use crate::house::House;
use crate::seats::Seat;
use crate::unary::{self, Answer};

/// What the requests of one connection are served with.
pub(crate) struct Requests {
    etcd: EtcdDoor,
    router: Router,
    peer: SocketAddr,
    seat: Seat,
}

impl Requests {
    pub(crate) fn new(
        house: &Arc<House>,
        router: Router,
        peer: SocketAddr,
        seat: Seat,
    ) -> Requests {
        Requests { etcd: EtcdDoor::new(house), router, peer, seat }
    }

    pub(crate) async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Answer>, Infallible> {
        let call = UnaryCall::at(request.uri().path()).filter(|_| unary::may_be(&request));
        let Some(call) = call else { return self.route(request.map(Body::new)).await };
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
        self.route(request).await
    }

    /// The way through all layers.
    async fn route(&self, mut request: Request<Body>) -> Result<Response<Answer>, Infallible> {
        request.extensions_mut().insert(Peer(self.peer));
        request.extensions_mut().insert(self.seat.clone());
        Ok(self.router.clone().call(request).await?.map(Answer::Layered))
    }
}
