//! Watch: a session that only watches.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

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

/// Marks the wish to end a watch. The watch itself says that it has ended.
const CANCELS: u64 = 1 << 63;

/// Which watch a request was about. What is answered is forgotten.
type Names = Arc<Mutex<HashMap<u64, i64>>>;

pub(super) fn serve(
    house: &Arc<House>,
    address: ClientId,
    frames: Streaming<v1::WatchRequest>,
) -> Answers<v1::WatchResponse> {
    let session = Session::open(house, address, Some(ClientId::default()));
    let (farewell, gone) = oneshot::channel();
    let names = Names::default();
    let theirs = Arc::clone(&names);
    let answers = Outgoing::new(Arc::clone(&session), farewell, move |one| show(one, &theirs));
    let mut count = 0;
    let frames = frames.map(move |frame| {
        frame.map(|watch| {
            count += 1;
            let request_id = if watch.cancel { count | CANCELS } else { count };
            let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
            names.insert(request_id, watch.watch_id);
            v1::SessionRequest { request_id, once: None, request: Some(Request::Watch(watch)) }
        })
    });
    tokio::spawn(listen(session, frames, gone));
    Box::pin(answers)
}

fn show(response: v1::SessionResponse, names: &Names) -> Option<Result<v1::WatchResponse, Status>> {
    let v1::SessionResponse { request_id, header, failure, response } = response;
    let is_last = failure.is_some() || request_id & CANCELS != 0;
    let name = is_last
        .then(|| names.lock().unwrap_or_else(PoisonError::into_inner).remove(&request_id))
        .flatten();
    if let Some(failure) = failure {
        return Some(Ok(v1::WatchResponse {
            header,
            watch_id: name.unwrap_or_default(),
            canceled: true,
            cancel_reason: format!("{}: {}", failure.code, failure.message),
            ..v1::WatchResponse::default()
        }));
    }
    let Some(Response::Watch(watch)) = response else { return None };
    if request_id & CANCELS != 0 {
        return None;
    }
    if watch.canceled {
        names.lock().unwrap_or_else(PoisonError::into_inner).remove(&request_id);
    }
    Some(Ok(v1::WatchResponse { header, ..watch }))
}
