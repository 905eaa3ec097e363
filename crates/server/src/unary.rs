//! Calls of gRPC with one small message each way, without the layers that streams need.
//!
//! Guarantees: what is answered here is answered as the layers would. Refuses: everything but one
//! whole message that is not compressed and ends its stream. That is handed on to the layers, as if
//! nothing had been read of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, Version};
use prost::Message;
use tonic::Status;

use crate::request_body::{BodyError, RequestBody};

/// What is larger takes so long that the layers do not matter.
const MESSAGE_BYTES_MAX: usize = 4 << 10;
/// Before every message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Whether a request may be one of these calls.
pub(crate) fn may_be<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    request.version() == Version::HTTP_2
        && request.method() == Method::POST
        && headers.get(CONTENT_TYPE) == Some(&GRPC)
        && !headers.contains_key(GRPC_ENCODING)
}

/// The one message of a request, as it came.
pub(crate) struct Framed(Bytes);

impl Framed {
    /// The message; nothing, if it is none of this kind.
    pub(crate) fn decode<M: Message + Default>(&self) -> Option<M> {
        M::decode(self.0.slice(PREFIX_BYTES..)).ok()
    }

    /// As if nothing had been read.
    pub(crate) fn into_body(self) -> Body {
        Body::from(self.0)
    }
}

/// Reads the one message of a request. If there is none, or more, its body is as before.
pub(crate) async fn read(mut body: RequestBody) -> Result<Framed, Begun> {
    let mut first = body.frame().await;
    let is_one = |read: &Result<Frame<Bytes>, _>| {
        read.as_ref().is_ok_and(|frame| frame.data_ref().is_some_and(is_one_message))
    };
    if !first.as_ref().is_some_and(is_one) {
        return Err(Begun { read: [first, None], rest: body });
    }
    loop {
        match body.frame().await {
            // Some say by themselves that there is no more.
            Some(Ok(frame)) if frame.data_ref().is_some_and(Bytes::is_empty) => {}
            None => match first.take().map(|read| read.map(Frame::into_data)) {
                Some(Ok(Ok(message))) => return Ok(Framed(message)),
                _ => return Err(Begun { read: [None, None], rest: body }),
            },
            more => return Err(Begun { read: [first, more], rest: body }),
        }
    }
}

fn is_one_message(bytes: &Bytes) -> bool {
    let Some((mut prefix, message)) = bytes.split_at_checked(PREFIX_BYTES) else { return false };
    let is_compressed = prefix.get_u8() != 0;
    let length = usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX);
    !is_compressed && length == message.len() && length <= MESSAGE_BYTES_MAX
}

type Piece = Result<Frame<Bytes>, BodyError>;

/// A body of which something was read.
pub(crate) struct Begun {
    read: [Option<Piece>; 2],
    rest: RequestBody,
}

impl hyper::body::Body for Begun {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Piece>> {
        match self.read.iter_mut().find_map(Option::take) {
            Some(piece) => Poll::Ready(Some(piece)),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.iter().all(Option::is_none) && self.rest.is_end_stream()
    }
}

/// What is answered: by the layers, or here.
#[derive(Default)]
pub(crate) enum Answer {
    /// By the layers.
    Layered(Body),
    /// One message, and that all is well.
    Message(Bytes),
    /// That all is well.
    Trailers,
    /// Nothing is left to be said.
    #[default]
    End,
}

/// The answer to a call.
pub(crate) fn answer<M: Message>(result: Result<M, Status>) -> Response<Answer> {
    answer_bytes(result.map(|message| framed(&message)))
}

/// The answer to a call whose message is framed already.
pub(crate) fn answer_bytes(result: Result<Bytes, Status>) -> Response<Answer> {
    match result {
        Ok(bytes) => {
            let mut response = Response::new(Answer::Message(bytes));
            response.headers_mut().insert(CONTENT_TYPE, GRPC);
            response
        }
        Err(status) => status.into_http(),
    }
}

/// A message, not compressed, with its length before it.
pub(crate) fn framed<M: Message>(message: &M) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).expect("answers are far smaller"));
    message.encode(&mut bytes).expect("there is room for its length");
    bytes.freeze()
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let (frame, next) = match &mut *self {
            Answer::Layered(body) => return Pin::new(body).poll_frame(cx),
            Answer::Message(bytes) => (Frame::data(std::mem::take(bytes)), Answer::Trailers),
            Answer::Trailers => {
                (Frame::trailers(HeaderMap::from_iter([(GRPC_STATUS, OK)])), Answer::End)
            }
            Answer::End => return Poll::Ready(None),
        };
        *self = next;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Layered(body) => body.is_end_stream(),
            Answer::Message(_) | Answer::Trailers => false,
            Answer::End => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Layered(body) => body.size_hint(),
            // As the layers have it: no length is told beforehand.
            Answer::Message(_) | Answer::Trailers => SizeHint::default(),
            Answer::End => SizeHint::with_exact(0),
        }
    }
}
