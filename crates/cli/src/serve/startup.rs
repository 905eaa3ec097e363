//! From the start of the process to the moment when it can serve.
//!
//! Guarantees: the probes are answered all that time; the service manager is told that the server is
//! ready when `/readyz` would say so, and not before, and that it goes on while it waits.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fencepost_server::{Server, answer_while_starting};
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::time::MissedTickBehavior;

use super::tell_service_manager;

/// How long a leader may take before the log says that one is waited for.
const LEADER_TIMEOUT: Duration = Duration::from_secs(1);
/// How often the service manager is told that the server still waits, and for how long it should be
/// patient each time.
const EXTENSION_INTERVAL: Duration = Duration::from_secs(10);
const EXTENSION: Duration = Duration::from_secs(60);

/// What a node that starts waits for.
#[derive(Clone, Default)]
pub(super) struct Progress(Arc<Mutex<String>>);

impl Progress {
    pub(super) fn set(&self, what: &str) {
        what.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn reason(&self) -> String {
        let what = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match what.is_empty() {
            true => "the node is starting".to_owned(),
            false => format!("the node is starting: {what}"),
        }
    }
}

/// Answers the probes until the node runs.
pub(super) async fn answer_probes(listener: &TcpListener, progress: &Progress) -> Infallible {
    let progress = progress.clone();
    tokio::select! {
        never = answer_while_starting(listener, move || progress.reason()) => never,
        never = ask_for_patience() => never,
    }
}

/// Says that the server is ready as soon as it is. Does not end by itself.
pub(super) async fn announce(server: &Server, show: impl FnOnce()) -> Infallible {
    let ready = server.ready();
    tokio::pin!(ready);
    if tokio::time::timeout(LEADER_TIMEOUT, &mut ready).await.is_err() {
        tracing::info!("waiting for a leader");
        tokio::select! {
            () = ready => {}
            never = ask_for_patience() => match never {},
        }
    }
    show();
    tell_service_manager(NotifyState::Ready);
    std::future::pending().await
}

/// Tells the service manager again and again that the start takes longer, as it may for as long as
/// other members are away.
async fn ask_for_patience() -> Infallible {
    let mut ticks = tokio::time::interval(EXTENSION_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first one comes at once, and few starts need any.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let micros = u32::try_from(EXTENSION.as_micros()).unwrap_or(u32::MAX);
        tell_service_manager(NotifyState::ExtendTimeoutUsec(micros));
    }
}
