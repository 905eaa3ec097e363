//! Settings of a connection that carries no protocol with keep-alives of its own.
//!
//! Guarantees: small answers leave at once, and an other end that is gone is noticed as soon as over
//! HTTP/2, whether something was on its way to it or not.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;

use crate::limits;

/// How often the other end of a silent connection is asked, by the system, whether it is there,
/// before it counts as gone.
const PROBES: u32 = 2;
/// How long nothing may come back for what was sent.
const SILENCE_MAX: Duration =
    limits::KEEP_ALIVE_INTERVAL.saturating_add(limits::KEEP_ALIVE_PATIENCE);

/// Without these a connection only answers late, or is missed late.
pub(crate) fn prepare(stream: &TcpStream) {
    if let Err(why) = tune(stream) {
        tracing::debug!(%why, "a connection cannot be tuned");
    }
}

fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keep_alive = TcpKeepalive::new()
        .with_time(limits::KEEP_ALIVE_INTERVAL)
        .with_interval(limits::KEEP_ALIVE_PATIENCE / PROBES)
        .with_retries(PROBES);
    socket.set_tcp_keepalive(&keep_alive)?;
    // The system asks nothing while something that was sent is not confirmed.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENCE_MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_other_end_that_is_gone_is_missed_as_soon_as_over_http() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tune(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(stream.nodelay().unwrap());
        assert!(socket.keepalive().unwrap());
        let asked = socket.tcp_keepalive_time().unwrap();
        let given_up = asked
            + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert_eq!((asked, given_up), (limits::KEEP_ALIVE_INTERVAL, SILENCE_MAX));
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(SILENCE_MAX));
    }
}
