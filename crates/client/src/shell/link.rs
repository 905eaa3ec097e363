//! One connection: opened, read until it ends.

use std::sync::Arc;
use std::time::Duration;

use fencepost_proto::v1::SessionResponse;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use tokio::sync::mpsc;
use tonic::transport::{Channel, Endpoint};

use super::outgoing::Outgoing;
use crate::core::LinkId;

/// The largest answer that is read: a long list of locks or keys.
pub(crate) const ANSWER_LEN_MAX: usize = 32 << 20;

/// What users change about the way to an endpoint: TLS, limits, headers of the transport.
pub(crate) type Configure = Arc<dyn Fn(Endpoint) -> Endpoint + Send + Sync>;

/// What happens to a connection.
pub(super) enum LinkEvent {
    Up(LinkId, Channel),
    Frame(LinkId, Box<SessionResponse>),
    Down(LinkId, String),
}

/// Opens a session stream and reads it to its end.
pub(super) async fn run(
    id: LinkId,
    address: String,
    timeout: Duration,
    configure: Configure,
    outgoing: Outgoing,
    events: mpsc::Sender<LinkEvent>,
) {
    let outcome = session(id, &address, timeout, &configure, outgoing, &events).await;
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
    configure: &Configure,
    outgoing: Outgoing,
    events: &mpsc::Sender<LinkEvent>,
) -> Result<(), String> {
    let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| told(&error))?;
    let endpoint = configure(endpoint.connect_timeout(timeout));
    let channel = endpoint.connect().await.map_err(|error| told(&error))?;
    // The greeting is written before the stream is opened: a service may wait for it before it
    // answers with anything.
    if events.send(LinkEvent::Up(id, channel.clone())).await.is_err() {
        return Ok(());
    }
    let mut client = LockServiceClient::new(channel).max_decoding_message_size(ANSWER_LEN_MAX);
    let opened = client.session(outgoing).await.map_err(|status| status.message().to_owned())?;
    let mut incoming = opened.into_inner();
    while let Some(frame) =
        incoming.message().await.map_err(|status| status.message().to_owned())?
    {
        if events.send(LinkEvent::Frame(id, Box::new(frame))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// An error and what caused it, in one line.
fn told(error: &dyn std::error::Error) -> String {
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
