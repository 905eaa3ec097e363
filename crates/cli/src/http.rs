//! One request over plain HTTP, and its answer.
//!
//! Owns: how the command asks a server for something that is not gRPC. Guarantees: it takes a
//! bounded time and a bounded part of the memory, and an error says whether the request may have
//! been done all the same. Refuses: everything but `http://`.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a request may take, with everything.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes in an answer: more than anything that is asked for here.
const ANSWER_LEN_MAX: usize = 4 << 20;
const PORT: u16 = 80;

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    why: String,
    /// Whether the request may have been done all the same.
    pub(crate) may_be_done: bool,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Where something is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    host: String,
    port: u16,
    path: String,
}

impl Target {
    pub(crate) fn parse(text: &str) -> Result<Target, String> {
        let uri: Uri = text.parse().map_err(|error| format!("this is no URL: {error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err("only http:// is spoken: there is no encryption yet".to_owned());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("it names no host")?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Target {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(PORT),
            path: path.to_owned(),
        })
    }
}

/// Asks with GET.
pub(crate) async fn get(target: &Target) -> Result<Answer, Unanswered> {
    call(target, Method::GET, String::new()).await
}

/// Asks with POST, with JSON.
pub(crate) async fn post(target: &Target, json: String) -> Result<Answer, Unanswered> {
    call(target, Method::POST, json).await
}

async fn call(target: &Target, method: Method, body: String) -> Result<Answer, Unanswered> {
    let reaching = async {
        let address = (target.host.trim_matches(['[', ']']), target.port);
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        // A request is small, and nothing follows it.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let shaken = http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
        shaken.map_err(|error| error.to_string())
    };
    let unreached = |why| Unanswered { why, may_be_done: false };
    let reached = timeout(PATIENCE, reaching).await;
    let reached = reached.unwrap_or_else(|_| Err("it cannot be reached in time".to_owned()));
    let (mut sender, connection) = reached.map_err(unreached)?;
    let request = Request::builder()
        .method(method)
        .uri(&target.path)
        .header(HOST, format!("{}:{}", target.host, target.port))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| unreached(error.to_string()))?;
    let asking = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_LEN_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        let body = String::from_utf8(body.to_vec()).map_err(|_| "it is no text".to_owned())?;
        Ok(Answer { status, body })
    };
    // It ends when nobody asks over it any more.
    let driver = tokio::spawn(connection);
    let answer = timeout(PATIENCE, asking).await;
    driver.abort();
    let answer = answer.unwrap_or_else(|_| Err("no answer came in time".to_owned()));
    answer.map_err(|why| Unanswered { why, may_be_done: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_or_refused() {
        let target =
            Target::parse("http://127.0.0.1:7420/.well-known/jwks.json?a=b").expect("a URL");
        assert_eq!((target.host.as_str(), target.port), ("127.0.0.1", 7420));
        assert_eq!(target.path, "/.well-known/jwks.json?a=b");
        assert_eq!(Target::parse("http://a").expect("a URL").port, 80);
        for bad in ["https://a/", "a:1/x", "ftp://a", "http://", "/x", ""] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }
}
