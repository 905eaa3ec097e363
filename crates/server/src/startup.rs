//! What the port for clients answers before its node runs.
//!
//! Owns: the connections of that time. Guarantees: probes are answered, and every request over HTTP
//! or gRPC is refused at once with the reason. Refuses: to hold a connection for longer than
//! [`CONNECTION_TIMEOUT`].

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tonic::Status;

use crate::framed;

/// Connections that are answered at once. More of them wait.
const CONNECTIONS_MAX: usize = 64;
/// How long one may take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to accept nothing if the system has no room for a connection.
const NO_ROOM_PAUSE: Duration = Duration::from_millis(100);

/// Answers on the listener while a node starts. Does not end by itself: drop it, and give the
/// listener to a [`Server`](crate::Server).
pub async fn answer_while_starting(
    listener: &TcpListener,
    reason: impl Fn() -> String + Clone + Send + 'static,
) -> Infallible {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, reason.clone()))),
                Err(_) => tokio::time::sleep(NO_ROOM_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, reason: impl Fn() -> String + Clone + Send + 'static) {
    // Whatever goes wrong, the client tries again.
    drop(tokio::time::timeout(CONNECTION_TIMEOUT, refuse(stream, reason)).await);
}

async fn refuse(
    stream: TcpStream,
    reason: impl Fn() -> String + Clone + Send + 'static,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut first = [0];
    let len = stream.peek(&mut first).await?;
    // A session without HTTP would not understand a refusal: its client connects again.
    if len == 0 || framed::is_begun_by(first[0]) {
        return Ok(());
    }
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(&request, &reason());
        async move { Ok::<_, Infallible>(response) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).keep_alive(false);
    builder.serve_connection(TokioIo::new(stream), service).await
}

fn respond<B>(request: &Request<B>, reason: &str) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    if kind.is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        return Status::unavailable(reason).into_http::<Body>().into_response();
    }
    match request.uri().path() {
        "/livez" => (StatusCode::OK, "alive\n").into_response(),
        _ => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What is answered to these bytes, until the connection is closed.
    async fn answer(request: &[u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let ask = async {
            let mut stream = TcpStream::connect(address).await.expect("it listens");
            stream.write_all(request).await.expect("it reads");
            let mut answer = Vec::new();
            // It may be reset: what is not read of a request is not waited for.
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8_lossy(&answer).into_owned()
        };
        tokio::select! {
            answer = ask => answer,
            never = answer_while_starting(&listener, || "waiting for n2".to_owned()) => match never {},
        }
    }

    fn get(path: &str) -> Vec<u8> {
        format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").into_bytes()
    }

    #[tokio::test]
    async fn probes_are_answered_before_the_node_runs() {
        let live = answer(&get("/livez")).await;
        assert!(live.starts_with("HTTP/1.1 200 "), "{live}");
        let ready = answer(&get("/readyz")).await;
        assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
        assert!(ready.ends_with("waiting for n2\n"), "{ready}");
    }

    #[tokio::test]
    async fn requests_before_the_node_runs_are_refused_with_the_reason() {
        let refused = answer(&get("/v1/status")).await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        let call = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\n\r\n";
        let refused = answer(call).await;
        assert!(refused.contains("grpc-status: 14"), "{refused}");
        // The first byte of a session without HTTP.
        assert_eq!(answer(&[0xf0]).await, "");
    }
}
