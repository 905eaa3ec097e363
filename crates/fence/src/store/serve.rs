//! Sockets, and their bounds.
//!
//! Guarantees: a slow, silent or greedy caller takes a connection and a bounded part of the
//! memory, for a bounded time.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use percent_encoding::percent_decode_str;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::answer::{Answer, Listed, Problem, Shown, json, success};
use super::backend::{Backend, FencedWrite, Page};
use super::book::Book;
use super::file_backend::FileBackend;
use super::request::{self, Claim, Write};
use super::writer::Writer;
use super::{BODY_LEN_MAX, Signatures, StoreConfig};
use crate::journal::{Journal, OpenError};
use crate::signed::SignedToken;

const TITLE: &str = "fencepost-store";
/// Connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 4_096;
/// Kibibytes of bodies at once.
const BODY_KIB_MAX: usize = 256 << 10;
/// Writes that wait for the disk.
const JOBS_MAX: usize = 4_096;
/// How long the head of a request may take, also between two requests of one connection.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long its body may take.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How long open requests may take after the store was told to end.
const GRACE: Duration = Duration::from_secs(5);
/// After a failed accept, how long to wait for files to be closed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What one connection may have read and not yet understood.
const HEAD_BYTES: usize = 64 << 10;
/// Keys in one answer, unless fewer are asked for.
const LIST_LEN_MAX: usize = 1_000;

/// An open store that is not served yet.
#[derive(Debug)]
pub struct Store {
    backend: FileBackend,
    signatures: Signatures,
    /// Says when the disk has failed.
    failed: oneshot::Receiver<io::Error>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared<B> {
    backend: B,
    signatures: Signatures,
    bodies: Semaphore,
}

impl Store {
    /// Opens the file and starts the thread that writes it.
    ///
    /// # Errors
    ///
    /// The file cannot be used; it is as it was.
    pub fn open(config: &StoreConfig) -> Result<Store, OpenError> {
        let mut book = Book::default();
        let journal = Journal::open(&config.file, TITLE, |line| book.replay(line))?;
        let view = Arc::new(RwLock::new(book.clone()));
        let (jobs, waiting) = mpsc::channel(JOBS_MAX);
        let (tell, failed) = oneshot::channel();
        let writer =
            Writer { journal, book, view: view.clone(), jobs: waiting, repeats: config.repeats };
        start(&config.file, writer, tell)?;
        let backend = FileBackend { view, jobs };
        Ok(Store { backend, signatures: config.signatures.clone(), failed })
    }
}

fn start(path: &Path, writer: Writer, tell: oneshot::Sender<io::Error>) -> Result<(), OpenError> {
    let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || {
        if let Err(error) = writer.run() {
            tracing::error!(%error, "the store's file cannot be written");
            // Nobody serves any more if there is nobody to tell.
            let _ = tell.send(error);
        }
    });
    thread.map(drop).map_err(|error| OpenError::Io { path: path.to_owned(), error })
}

/// Opens a store and serves it until its disk fails.
///
/// # Errors
///
/// The file cannot be used, or the disk has failed.
pub async fn serve(listener: TcpListener, config: StoreConfig) -> io::Result<()> {
    serve_until(listener, config, std::future::pending()).await
}

/// Opens a store and serves it until its disk fails or `end` is ready. Open requests are answered
/// before this returns, within a few seconds.
///
/// # Errors
///
/// The file cannot be used, or the disk has failed.
pub async fn serve_until(
    listener: TcpListener,
    config: StoreConfig,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let opened = spawn_blocking(move || Store::open(&config)).await.map_err(io::Error::other)?;
    opened.map_err(io::Error::other)?.serve_until(listener, end).await
}

impl Store {
    /// Serves until the disk fails or `end` is ready.
    ///
    /// # Errors
    ///
    /// The disk has failed.
    pub async fn serve_until(
        self,
        listener: TcpListener,
        end: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let Store { backend, signatures, mut failed } = self;
        let stop = async {
            tokio::select! {
                Ok(error) = &mut failed => Err(error),
                () = end => Ok(()),
            }
        };
        let outcome = serve_backend(backend, signatures, listener, stop).await;
        // The file is free for the next one when the writer has let go of it.
        if outcome.is_ok()
            && let Ok(Ok(error)) = timeout(GRACE, failed).await
        {
            return Err(error);
        }
        outcome
    }
}

/// Serves records that are kept elsewhere than in a file, until `stop` is ready. Open requests are
/// answered before this returns, within a few seconds.
///
/// # Errors
///
/// What `stop` says.
pub async fn serve_backend<B: Backend>(
    backend: B,
    signatures: Signatures,
    listener: TcpListener,
    stop: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let shared = Arc::new(Shared { backend, signatures, bodies: Semaphore::new(BODY_KIB_MAX) });
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let open = GracefulShutdown::new();
    let mut stop = pin!(stop);
    let outcome = loop {
        let socket = tokio::select! {
            outcome = &mut stop => break outcome,
            accepted = accept(&listener, &room) => accepted,
        };
        let Some((stream, place)) = socket else { continue };
        let shared = shared.clone();
        let service = service_fn(move |request| {
            let shared = shared.clone();
            async move { Ok::<_, Infallible>(shared.answer(request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        let connection = open.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended badly");
            }
            drop(place);
        });
    };
    if timeout(GRACE, open.shutdown()).await.is_err() {
        tracing::warn!("some requests were cut off");
    }
    outcome
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = room.clone().acquire_owned().await.expect("it is never closed");
    match listener.accept().await {
        Ok((stream, _)) => {
            // An answer is one small write: waiting for more to send would only delay it.
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection was not accepted");
            sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

impl<B: Backend> Shared<B> {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        let outcome = match (request.method(), path) {
            (&Method::POST, "/" | "/write") => self.write(request).await.map(|()| success()),
            (&Method::GET, "/") => self.read(request.uri().query().unwrap_or_default()).await,
            (_, "/") => Err(Problem::Method("GET, POST")),
            (_, "/write") => Err(Problem::Method("POST")),
            _ => Err(Problem::NoSuchPath),
        };
        outcome.unwrap_or_else(|problem| problem.answer())
    }

    async fn write(&self, request: Request<Incoming>) -> Result<(), Problem> {
        let body = self.body(request.into_body()).await?;
        let Write { client_id, key, claim, data } =
            request::read(&body).map_err(Problem::Malformed)?;
        drop(body);
        let presented = match claim {
            Claim::Bare(presented) => match self.signatures {
                Signatures::Required(_) => return Err(Problem::SignatureMissing),
                Signatures::Refused | Signatures::Accepted(_) => presented,
            },
            Claim::Signed(text, number) => {
                let SignedToken { presented, holder, .. } = self.verify(text, key.clone()).await?;
                if number.is_some_and(|number| number != presented.token) {
                    return Err(Problem::NotTheSigned);
                }
                // A caller that does not know its holder's name leaves it out.
                if !client_id.is_empty() && client_id != holder {
                    return Err(Problem::NotTheHolder { client: client_id, holder });
                }
                presented
            }
        };
        let write = FencedWrite { client_id, key, presented, data };
        Ok(self.backend.write(write).await?)
    }

    /// The whole body, if it is small enough and comes soon enough.
    async fn body(&self, body: Incoming) -> Result<Bytes, Problem> {
        let limit = u64::try_from(BODY_LEN_MAX).expect("it is small");
        let announced = body.size_hint().upper().unwrap_or(limit);
        if announced > limit {
            return Err(Problem::TooLarge);
        }
        let read = async {
            let kib = u32::try_from(announced.div_ceil(1 << 10)).expect("it is below the limit");
            let room = self.bodies.acquire_many(kib).await.expect("it is never closed");
            let bytes = Limited::new(body, BODY_LEN_MAX).collect().await;
            drop(room);
            bytes
        };
        match timeout(BODY_TIME, read).await {
            Err(_) => Err(Problem::TooSlow),
            Ok(Ok(bytes)) => Ok(bytes.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::TooLarge),
            Ok(Err(_)) => Err(Problem::Malformed("the body ended early".to_owned())),
        }
    }

    /// On a thread of its own: fetching keys may block, and the arithmetic takes a while.
    async fn verify(&self, text: String, lock: String) -> Result<SignedToken, Problem> {
        let verifier = match &self.signatures {
            Signatures::Refused => return Err(Problem::SignatureUnwanted),
            Signatures::Accepted(verifier) | Signatures::Required(verifier) => verifier.clone(),
        };
        let verified = spawn_blocking(move || verifier.verify(&text, &lock)).await;
        Ok(verified.map_err(|_| Problem::Overloaded)??)
    }

    /// `?key=K`, or `?after=K&limit=N`, or everything.
    async fn read(&self, query: &str) -> Result<Answer, Problem> {
        let query = Query::parse(query).map_err(Problem::Malformed)?;
        if let Some(key) = query.key {
            let record = self.backend.read(&key).await?;
            let record = record.ok_or_else(|| Problem::NoSuchKey(key.clone()))?;
            return Ok(json(StatusCode::OK, &Shown::of(&key, &record)));
        }
        let Page { records, more } = self.backend.page(&query.after, query.limit).await?;
        let entries = records.iter().map(|(key, record)| Shown::of(key, record)).collect();
        Ok(json(StatusCode::OK, &Listed { entries, more }))
    }
}

/// What a reader asks for.
#[derive(Debug, PartialEq, Eq)]
struct Query {
    key: Option<String>,
    after: String,
    limit: usize,
}

impl Query {
    fn parse(text: &str) -> Result<Query, String> {
        let mut query = Query { key: None, after: String::new(), limit: LIST_LEN_MAX };
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| format!("the value of {name:?} is not UTF-8"))?;
            match name {
                "key" => query.key = Some(value.into_owned()),
                "after" => query.after = value.into_owned(),
                "limit" => {
                    let limit =
                        value.parse().ok().filter(|limit| (1..=LIST_LEN_MAX).contains(limit));
                    query.limit =
                        limit.ok_or(format!("\"limit\" is a number from 1 to {LIST_LEN_MAX}"))?;
                }
                _ => return Err(format!("{name:?} is none of key, after and limit")),
            }
        }
        Ok(query)
    }
}
