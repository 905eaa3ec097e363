//! The body of a request over HTTP, with a deadline and a byte budget.
//!
//! Owns: the part of a message that has arrived. Guarantees: a decoder of gRPC sees complete messages
//! only, so it allocates nothing for bytes that were announced and never sent; what waits for its end
//! is charged to the connection and to the server; a message that is not complete in time, or does
//! not fit, ends its request with an error. Refuses: to look into messages.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Version};
use tokio::time::Sleep;
use tonic::Status;

use crate::byte_budget::{ByteBudget, Charge};
use crate::error::{Failure, Wrong};
use crate::limits;

/// Before every message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Calls of gRPC whose clients send a stream of messages.
const STREAMING: [&str; 7] = [
    "/fencepost.v1.LockService/LeaseKeepAlive",
    "/fencepost.v1.LockService/Watch",
    "/fencepost.v1.LockService/Session",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Lease/LeaseKeepAlive",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// What a body carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes of any kind. All of them must arrive in time.
    Plain,
    /// One message of gRPC. It must arrive in time, and the end of the body with it.
    Message,
    /// Messages of gRPC. Each must be complete in time from its first byte on.
    Messages,
}

impl Kind {
    /// What the body of a request carries.
    pub(crate) fn of<B>(request: &Request<B>) -> Kind {
        match is_grpc(request) {
            true if STREAMING.contains(&request.uri().path()) => Kind::Messages,
            true => Kind::Message,
            false => Kind::Plain,
        }
    }
}

/// Whether a request says that it is a call of gRPC.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Whether a request is a call of gRPC over HTTP/2, which no page in a browser can make.
pub(crate) fn is_grpc_over_http2<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2 && is_grpc(request)
}

/// Why a body ends before its time.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// The connection or the stream is broken.
    Lost(hyper::Error),
    /// It took too long, or too much room. As gRPC has it, and as the other APIs have it.
    Refused(Status, Failure),
}

impl BodyError {
    fn refused(failure: Failure) -> BodyError {
        BodyError::Refused(failure.clone().into(), failure)
    }

    /// Why a body was refused, if that is the reason of an error.
    pub(crate) fn failure_in(error: &(dyn Error + 'static)) -> Option<Failure> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(BodyError::Refused(_, failure)) = error.downcast_ref() {
                return Some(failure.clone());
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BodyError::Lost(why) => why.fmt(f),
            BodyError::Refused(_, failure) => f.write_str(&failure.message),
        }
    }
}

impl Error for BodyError {
    /// Where tonic looks for the status that a call ends with.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BodyError::Lost(why) => Some(why),
            BodyError::Refused(status, _) => Some(status),
        }
    }
}

impl From<hyper::Error> for BodyError {
    fn from(why: hyper::Error) -> BodyError {
        BodyError::Lost(why)
    }
}

type Piece = Result<Frame<Bytes>, BodyError>;

/// The body of a request.
#[derive(Debug)]
pub(crate) struct RequestBody<B = Incoming> {
    body: B,
    kind: Kind,
    /// The part of a message that has arrived.
    partial: BytesMut,
    /// Bytes of a body without messages that have arrived.
    received: usize,
    /// Nothing is kept back any more: a message is too long, which its decoder finds out itself.
    passes: bool,
    /// What follows a part that will never be complete.
    last: Option<Frame<Bytes>>,
    charge: Charge,
    patience: Duration,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<B> RequestBody<B> {
    pub(crate) fn new(
        body: B,
        kind: Kind,
        budget: &Arc<ByteBudget>,
        patience: Duration,
    ) -> RequestBody<B> {
        RequestBody {
            body,
            kind,
            partial: BytesMut::new(),
            received: 0,
            passes: false,
            last: None,
            charge: Charge::new(budget),
            patience,
            deadline: None,
        }
    }

    /// Takes in what has arrived. What can be handed on.
    fn receive(&mut self, data: Bytes) -> Result<Bytes, Failure> {
        match self.kind {
            Kind::Plain => {
                self.received += data.len();
                // Of a body that is too large no more is kept.
                self.charge.resize(self.received.min(limits::MESSAGE_BYTES_MAX))?;
                Ok(data)
            }
            Kind::Message | Kind::Messages if self.passes => Ok(data),
            Kind::Message | Kind::Messages if self.partial.is_empty() => self.begin(data),
            Kind::Message | Kind::Messages => self.go_on(&data),
        }
    }

    /// Data that begins with a message.
    fn begin(&mut self, mut data: Bytes) -> Result<Bytes, Failure> {
        let Some(whole) = whole_messages(&data) else {
            self.passes = true;
            return Ok(data);
        };
        let rest = data.split_off(whole);
        if !rest.is_empty() {
            self.charge.resize(rest.len())?;
            self.partial.extend_from_slice(&rest);
        }
        Ok(data)
    }

    /// Data that goes on with a message.
    fn go_on(&mut self, data: &Bytes) -> Result<Bytes, Failure> {
        self.charge.resize(self.partial.len() + data.len())?;
        self.partial.extend_from_slice(data);
        let whole = match whole_messages(&self.partial) {
            Some(0) => return Ok(Bytes::new()),
            Some(whole) => whole,
            None => {
                self.passes = true;
                self.partial.len()
            }
        };
        // A copy, so that a few bytes of the next message do not keep the large one in memory.
        let rest = BytesMut::from(self.partial.get(whole..).unwrap_or_default());
        let mut done = std::mem::replace(&mut self.partial, rest);
        done.truncate(whole);
        self.charge.resize(self.partial.len())?;
        if self.kind == Kind::Messages {
            self.deadline = None;
        }
        Ok(done.freeze())
    }

    /// Nothing more arrives. What has, although it is not complete.
    fn end(&mut self) -> Bytes {
        self.deadline = None;
        self.partial.split().freeze()
    }

    /// Ready if the client has taken too long.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.kind == Kind::Messages && self.partial.is_empty() {
            self.deadline = None;
            return Poll::Pending;
        }
        let patience = self.patience;
        let deadline = || Box::pin(tokio::time::sleep(patience));
        self.deadline.get_or_insert_with(deadline).as_mut().poll(cx)
    }
}

/// How many bytes at the beginning are complete messages. Nothing, if one is longer than any may be.
fn whole_messages(bytes: &[u8]) -> Option<usize> {
    let mut whole = 0;
    loop {
        let rest = bytes.get(whole..).unwrap_or_default();
        let Some((mut prefix, message)) = rest.split_at_checked(PREFIX_BYTES) else {
            return Some(whole);
        };
        prefix.advance(1);
        let length = usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX);
        if length > limits::MESSAGE_BYTES_MAX {
            return None;
        }
        if length > message.len() {
            return Some(whole);
        }
        whole += PREFIX_BYTES + length;
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    BodyError: From<B::Error>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        let this = &mut *self;
        if let Some(last) = this.last.take() {
            return Poll::Ready(Some(Ok(last)));
        }
        loop {
            let frame = match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(frame)) => frame?,
                Poll::Ready(None) => {
                    let rest = this.end();
                    return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
                }
                Poll::Pending => {
                    ready!(this.poll_deadline(cx));
                    let late = BodyError::refused(Wrong::Unfinished.into());
                    return Poll::Ready(Some(Err(late)));
                }
            };
            match frame.into_data() {
                // Some clients mark the end like this.
                Ok(data) if data.is_empty() => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(data) => match this.receive(data) {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                    Err(failure) => return Poll::Ready(Some(Err(BodyError::refused(failure)))),
                },
                Err(trailers) => {
                    let rest = this.end();
                    if rest.is_empty() {
                        return Poll::Ready(Some(Ok(trailers)));
                    }
                    this.last = Some(trailers);
                    return Poll::Ready(Some(Ok(Frame::data(rest))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.partial.is_empty() && self.last.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.kind {
            Kind::Plain => self.body.size_hint(),
            Kind::Message | Kind::Messages => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests;
