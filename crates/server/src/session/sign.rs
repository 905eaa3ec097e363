//! The end of an acquire, with signed tokens if they are wanted.
//!
//! A signature needs a look at the state and takes its time, so it is made by a task of its own;
//! until then the request stays open. However many there are, they are bounded by the requests that
//! a stream may have open.

use std::sync::Arc;

use fencepost_core::Token;
use fencepost_node::io::{ProposeError, RequestId};
use fencepost_proto::v1;
use fencepost_proto::v1::session_response::Response;

use super::{Answered, Kind, Open, Session, Signature, State, number};
use crate::outbox::Item;
use crate::{show, signing};

impl Session {
    /// An acquire has ended like this. If it has a token to be signed, it is answered after that.
    pub(super) fn end_acquire(
        &self,
        state: &mut State,
        request: RequestId,
        open: Open,
        header: v1::Header,
        shown: v1::SessionAcquired,
        token: Option<Token>,
    ) -> Option<(u64, Answered)> {
        let Kind::Acquire(acquire) = &open.kind else { return None };
        let Some(token) = token.filter(|_| acquire.signature != Signature::Unwanted) else {
            return Some(self.close(state, open, Ok((header, Response::Acquired(shown)))));
        };
        // There is nothing more to hear of its place.
        self.house.pending().forget(&acquire.ticket);
        let (names, lease) = (acquire.names.clone(), acquire.lease);
        let is_required = acquire.signature == Signature::Required;
        let (house, outbox) = (Arc::clone(&self.house), Arc::clone(&self.outbox));
        // The thread may be one of the node's.
        self.runtime.spawn(async move {
            let answer = match signing::grants(&house, &names, lease, token).await {
                Ok(Some(signed_tokens)) => {
                    let signed_token = signed_tokens.first().cloned().unwrap_or_default();
                    Ok(v1::SessionAcquired { signed_token, signed_tokens, ..shown })
                }
                // It was lost meanwhile, so there is nothing to tell of.
                Ok(None) => Ok(show::ended("unknown")),
                Err(_) if !is_required => Ok(shown),
                // It is held, but not as it was wanted. Whoever repeats the request is answered
                // when it can be signed.
                Err(_) => Err(ProposeError::Indeterminate.into()),
            };
            let answer = answer.map(|shown| (header, Response::Acquired(shown)));
            outbox.push(Item::Signed(request, Box::new(answer)));
        });
        state.open.insert(number(request), open);
        None
    }

    /// The tokens of an acquire are signed, or cannot be.
    pub(super) fn signed(
        &self,
        state: &mut State,
        request: RequestId,
        answer: Answered,
    ) -> Option<(u64, Answered)> {
        let open = state.open.remove(&number(request))?;
        Some(self.close(state, open, answer))
    }
}
