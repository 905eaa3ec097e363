//! One connection: opened, read until it ends.

use std::sync::Arc;
use std::time::Duration;

use fencepost_proto::v1::SessionResponse;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use tokio::sync::mpsc;
use tonic::transport::Endpoint;

use super::dialer::{Dialer, Road, Route};
use super::framed::{self, Unspoken};
use super::outgoing::Outgoing;
use crate::core::LinkId;

/// The largest answer that is read: a long list of locks or keys.
pub(crate) const ANSWER_LEN_MAX: usize = 32 << 20;

/// Frames that have come together. They are large, so each is read right into its place.
pub(super) type Frames = Vec<Box<SessionResponse>>;

/// What happens to a connection.
pub(super) enum LinkEvent {
    Up(LinkId, Road),
    /// All that has come together.
    Frames(LinkId, Frames),
    Down(LinkId, String),
}

impl LinkEvent {
    /// How many things there are to do.
    pub(super) fn len(&self) -> usize {
        match self {
            LinkEvent::Frames(_, frames) => frames.len(),
            LinkEvent::Up(..) | LinkEvent::Down(..) => 1,
        }
    }
}

/// Opens a session and reads it to its end.
pub(super) async fn run(
    id: LinkId,
    address: String,
    timeout: Duration,
    dialer: Arc<Dialer>,
    outgoing: Outgoing,
    events: mpsc::Sender<LinkEvent>,
) {
    let outcome = session(id, &address, timeout, &dialer, outgoing, &events).await;
    let why = match outcome {
        Ok(()) => format!("{address} has ended the stream"),
        Err(why) => format!("{address}: {why}"),
    };
    // If nobody listens any more, nobody needs to know.
    let _ = events.send(LinkEvent::Down(id, why)).await;
}

async fn session(
    id: LinkId,
    address: &str,
    timeout: Duration,
    dialer: &Dialer,
    outgoing: Outgoing,
    events: &mpsc::Sender<LinkEvent>,
) -> Result<(), String> {
    let endpoint = dialer.endpoint(address, timeout)?;
    if let Route::Framed { host, may_fall_back } = dialer.route(address, &endpoint)? {
        match framed::open(&host, timeout).await? {
            Ok(wire) => {
                let road = Road::Unopened(Box::new(endpoint));
                if events.send(LinkEvent::Up(id, road)).await.is_err() {
                    return Ok(());
                }
                return framed::read(id, wire, outgoing, events).await;
            }
            Err(unspoken) if !may_fall_back => return Err(unspoken.to_string()),
            Err(Unspoken::Other) => dialer.remember_grpc(address),
            // That may have had other reasons, so it is tried again next time.
            Err(Unspoken::Ended | Unspoken::Silent) => {}
        }
    }
    over_grpc(id, &endpoint, outgoing, events).await
}

async fn over_grpc(
    id: LinkId,
    endpoint: &Endpoint,
    outgoing: Outgoing,
    events: &mpsc::Sender<LinkEvent>,
) -> Result<(), String> {
    let channel = endpoint.connect().await.map_err(|error| told(&error))?;
    // The greeting is written before the stream is opened: a service may wait for it before it
    // answers with anything.
    if events.send(LinkEvent::Up(id, Road::Open(channel.clone()))).await.is_err() {
        return Ok(());
    }
    let mut client = LockServiceClient::new(channel).max_decoding_message_size(ANSWER_LEN_MAX);
    let opened = client.session(outgoing).await.map_err(|status| status.message().to_owned())?;
    let mut incoming = opened.into_inner();
    while let Some(frame) =
        incoming.message().await.map_err(|status| status.message().to_owned())?
    {
        if events.send(LinkEvent::Frames(id, vec![Box::new(frame)])).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// An error and what caused it, in one line.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        // Wrappers like to repeat what they wrap.
        if !line.ends_with(&words) {
            line = format!("{line}: {words}");
        }
        cause = inner.source();
    }
    line
}
