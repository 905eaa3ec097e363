//! LeaseKeepAlive: a session that only renews.

use std::sync::Arc;

use fencepost_core::ClientId;
use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;
use tokio::sync::oneshot;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::Answers;
use crate::house::House;
use crate::session::{Outgoing, Session, listen};

pub(super) fn serve(
    house: &Arc<House>,
    address: ClientId,
    frames: Streaming<v1::LeaseKeepAliveRequest>,
) -> Answers<v1::LeaseKeepAliveResponse> {
    let session = Session::open(house, address, Some(ClientId::default()));
    let (farewell, gone) = oneshot::channel();
    let answers = Outgoing::new(Arc::clone(&session), farewell, show);
    let mut request_id = 0;
    let frames = frames.map(move |frame| {
        request_id += 1;
        let renew = frame.map(|one| Request::Renew(v1::RenewMany { renewals: vec![one] }));
        renew.map(|renew| v1::SessionRequest { request_id, once: None, request: Some(renew) })
    });
    tokio::spawn(listen(session, frames, gone));
    Box::pin(answers)
}

/// A renewal that could not be done ends the stream: whoever renews must look for another member.
fn show(response: v1::SessionResponse) -> Option<Result<v1::LeaseKeepAliveResponse, Status>> {
    if let Some(failure) = response.failure {
        return Some(Err(Status::unavailable(failure.message)));
    }
    let Some(Response::Renewed(mut many)) = response.response else { return None };
    let renewed = many.renewed.pop()?;
    Some(Ok(v1::LeaseKeepAliveResponse { header: response.header, ..renewed }))
}
