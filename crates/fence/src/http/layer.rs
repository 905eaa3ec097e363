//! The layer and its service.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Method, Request, Response};
use percent_encoding::percent_decode_str;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tower_layer::Layer;
use tower_service::Service;

use super::header::TokenHeader;
use super::problem::Problem;
use super::turns::{Turn, Turns};
use crate::marks::MarkStore;
use crate::rule::Repeats;
use crate::signed::{SignedToken, Verifier};
use crate::token::Presented;

/// Writes that are inside at once, of all resources together: clients that have gone leave theirs
/// behind. Beyond them the next one waits.
const INSIDE_MAX: usize = 4_096;

/// Which resource a request is about; none if it needs no token. A signed token must be for the
/// lock of the same name.
pub type ResourceOf = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// Puts a [`Fence`] around a service.
#[derive(Clone)]
pub struct FenceLayer {
    rules: Arc<Rules>,
}

struct Rules {
    marks: Arc<dyn MarkStore>,
    verifier: Option<Arc<Verifier>>,
    must_be_signed: bool,
    repeats: Repeats,
    resource_of: ResourceOf,
    turns: Arc<Turns>,
    room: Arc<Semaphore>,
}

/// What a write holds until it has ended.
struct Admitted {
    _turn: Turn,
    _room: OwnedSemaphorePermit,
}

impl FenceLayer {
    /// Remembers tokens with this keeper. Every request but GET, HEAD, OPTIONS and TRACE needs a
    /// token, and its resource is its path, percent-decoded.
    pub fn new(marks: Arc<dyn MarkStore>) -> FenceLayer {
        FenceLayer {
            rules: Arc::new(Rules {
                marks,
                verifier: None,
                must_be_signed: false,
                repeats: Repeats::default(),
                resource_of: Arc::new(path_of_write),
                turns: Arc::default(),
                room: Arc::new(Semaphore::new(INSIDE_MAX)),
            }),
        }
    }

    /// Which resource a request is about.
    #[must_use]
    pub fn resource(
        self,
        of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> FenceLayer {
        self.with(|rules| rules.resource_of = Arc::new(of))
    }

    /// Accepts signed tokens, beside bare ones.
    #[must_use]
    pub fn accept_signed(self, verifier: Arc<Verifier>) -> FenceLayer {
        self.with(|rules| rules.verifier = Some(verifier))
    }

    /// Accepts signed tokens, and no others.
    #[must_use]
    pub fn require_signed(self, verifier: Arc<Verifier>) -> FenceLayer {
        self.with(|rules| {
            rules.verifier = Some(verifier);
            rules.must_be_signed = true;
        })
    }

    /// What to do when a token writes again.
    #[must_use]
    pub fn repeats(self, repeats: Repeats) -> FenceLayer {
        self.with(|rules| rules.repeats = repeats)
    }

    /// Changes a rule. A layer that is in use already goes on with a copy of its own.
    fn with(self, change: impl FnOnce(&mut Rules)) -> FenceLayer {
        let old = &self.rules;
        let mut rules = Rules {
            marks: old.marks.clone(),
            verifier: old.verifier.clone(),
            must_be_signed: old.must_be_signed,
            repeats: old.repeats,
            resource_of: old.resource_of.clone(),
            turns: old.turns.clone(),
            room: old.room.clone(),
        };
        change(&mut rules);
        FenceLayer { rules: Arc::new(rules) }
    }
}

impl fmt::Debug for FenceLayer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("FenceLayer")
            .field("verifier", &self.rules.verifier)
            .field("must_be_signed", &self.rules.must_be_signed)
            .field("repeats", &self.rules.repeats)
            .finish_non_exhaustive()
    }
}

/// The path without its percent signs: routers look through them, so two spellings lead to one
/// handler and must not have two marks.
fn path_of_write(parts: &Parts) -> Option<String> {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE];
    if reads.contains(&parts.method) {
        return None;
    }
    Some(percent_decode_str(parts.uri.path()).decode_utf8_lossy().into_owned())
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fence<S>;

    fn layer(&self, inner: S) -> Fence<S> {
        Fence { inner, rules: self.rules.clone() }
    }
}

/// A service behind a fence. The inner one finds the [`Presented`] token among the request's
/// extensions, and the [`SignedToken`] if it was signed.
#[derive(Clone)]
pub struct Fence<S> {
    inner: S,
    rules: Arc<Rules>,
}

impl<S: fmt::Debug> fmt::Debug for Fence<S> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Fence").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for Fence<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: From<String> + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was asked whether it is ready is the one that is called.
        let copy = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, copy);
        let rules = self.rules.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let Some(resource) = (rules.resource_of)(&parts) else {
                return inner.call(Request::from_parts(parts, body)).await;
            };
            match rules.admit(&mut parts, resource).await {
                Ok(admitted) => {
                    let handled = inner.call(Request::from_parts(parts, body));
                    run_to_the_end(handled, admitted).await
                }
                Err(problem) => Ok(problem.answer()),
            }
        })
    }
}

/// Runs a handler to its end, also if the client has gone and the answer is not awaited any more. What it
/// has begun, such as a write on another thread, could otherwise land after the write of a later token.
async fn run_to_the_end<R, E>(
    handled: impl Future<Output = Result<Response<R>, E>> + Send + 'static,
    admitted: Admitted,
) -> Result<Response<R>, E>
where
    R: From<String> + Send + 'static,
    E: Send + 'static,
{
    let task = tokio::spawn(async move {
        let outcome = handled.await;
        drop(admitted);
        outcome
    });
    match task.await {
        Ok(outcome) => outcome,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends.
            Err(_) => Ok(Problem::Interrupted.answer()),
        },
    }
}

impl Rules {
    /// Lets a request in, or says why not. It is inside for as long as it holds what it is given.
    async fn admit(&self, parts: &mut Parts, resource: String) -> Result<Admitted, Problem> {
        let presented = match TokenHeader::read(&parts.headers)? {
            TokenHeader::Bare(_) if self.must_be_signed => return Err(Problem::SignatureMissing),
            TokenHeader::Bare(presented) => presented,
            TokenHeader::Signed(text) => {
                let token = self.verify(text, resource.clone()).await?;
                let presented = token.presented;
                parts.extensions.insert(token);
                presented
            }
        };
        parts.extensions.insert(presented);
        // First the turn, then the check: whoever passes the check is the next to take effect.
        let turn = self.turns.take(&resource, presented.mode).await;
        let room = self.room.clone().acquire_owned().await.map_err(|_| Problem::Interrupted)?;
        self.present(resource, presented).await?;
        Ok(Admitted { _turn: turn, _room: room })
    }

    /// On a thread of its own: fetching keys may block, and the arithmetic takes a while.
    async fn verify(&self, text: String, lock: String) -> Result<SignedToken, Problem> {
        let verifier = self.verifier.clone().ok_or(Problem::SignatureUnwanted)?;
        let verified = spawn_blocking(move || verifier.verify(&text, &lock)).await;
        Ok(verified.map_err(|_| Problem::Interrupted)??)
    }

    /// On a thread of its own: marks may be synced to a disk.
    async fn present(&self, resource: String, presented: Presented) -> Result<(), Problem> {
        let (marks, repeats) = (self.marks.clone(), self.repeats);
        let outcome = spawn_blocking(move || marks.present(&resource, presented, repeats)).await;
        Ok(outcome.map_err(|_| Problem::Interrupted)??)
    }
}
