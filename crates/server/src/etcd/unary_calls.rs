//! Calls of this door that go without layers: those that its clients make most.

use fencepost_proto::etcd::v3lockpb::lock_server::Lock as _;
use hyper::Response;
use hyper::http::request::Parts;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Status};

use super::{Answer, EtcdDoor};
use crate::grpc::Peer;
use crate::unary;

/// A call that goes without layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryCall {
    Range,
    Lock,
    Unlock,
}

impl UnaryCall {
    /// The call at a path.
    pub(crate) fn at(path: &str) -> Option<UnaryCall> {
        match path {
            "/etcdserverpb.KV/Range" => Some(UnaryCall::Range),
            "/v3lockpb.Lock/Lock" => Some(UnaryCall::Lock),
            "/v3lockpb.Lock/Unlock" => Some(UnaryCall::Unlock),
            _ => None,
        }
    }
}

impl EtcdDoor {
    /// Serves a call. If its message is none, it comes back.
    pub(crate) async fn call(
        &self,
        call: UnaryCall,
        asked: Asked,
    ) -> Result<Response<unary::Answer>, Asked> {
        match call {
            // Its answer may be too large to be encoded here.
            UnaryCall::Range => {
                let answered = serve(asked, |request| self.range_bytes(request)).await?;
                Ok(unary::answer_bytes(answered))
            }
            UnaryCall::Lock => {
                let answered = serve(asked, |request| self.lock(request)).await?;
                Ok(unary::answer(answered))
            }
            UnaryCall::Unlock => {
                let answered = serve(asked, |request| self.unlock(request)).await?;
                Ok(unary::answer(answered))
            }
        }
    }
}

/// What is asked for: the head of a request, and its one message.
pub(crate) struct Asked {
    pub(crate) head: Parts,
    pub(crate) peer: Peer,
    pub(crate) message: unary::Framed,
}

async fn serve<Q, A, F>(
    asked: Asked,
    answer: impl FnOnce(Request<Q>) -> F,
) -> Result<Result<A, Status>, Asked>
where
    Q: Message + Default,
    F: Future<Output = Answer<A>>,
{
    let Some(message) = asked.message.decode() else { return Err(asked) };
    let mut extensions = Extensions::default();
    extensions.insert(asked.peer);
    let metadata = MetadataMap::from_headers(asked.head.headers);
    let answered = answer(Request::from_parts(metadata, extensions, message)).await;
    Ok(answered.map(tonic::Response::into_inner))
}
