//! Session: everything on one stream.

use std::sync::Arc;

use fencepost_core::ClientId;
use fencepost_proto::v1;
use tokio::sync::oneshot;
use tonic::Streaming;

use super::Answers;
use crate::house::House;
use crate::session::{Outgoing, Session, listen};

pub(super) fn serve(
    house: &Arc<House>,
    address: ClientId,
    frames: Streaming<v1::SessionRequest>,
) -> Answers<v1::SessionResponse> {
    let session = Session::open(house, address, None);
    let (farewell, gone) = oneshot::channel();
    let answers = Outgoing::new(Arc::clone(&session), farewell, |response| Some(Ok(response)));
    tokio::spawn(listen(session, frames, gone));
    Box::pin(answers)
}
