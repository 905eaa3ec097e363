//! Reads of many keys: which of them go on, and where their answers are built.
//!
//! Owns: the bytes that large answers may take together, the turn of hashes, and the threads on
//! which answers are built. Guarantees: a read that is done after one step waits for nothing; all
//! others together, with their answers until those are sent, take at most
//! [`limits::LARGE_ANSWERS_BYTES_MAX`]; one hash is computed at a time. Refuses: an answer beyond
//! [`limits::ANSWER_BYTES_MAX`], and more reads than may wait, with an error that says to retry.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use fencepost_core::Revision;
use fencepost_core::range::RangeAnswer;
use fencepost_core::scan::{Progress, Scan, ScanError, Scanned};
use fencepost_node::io::ProposeError;
use fencepost_node::machine::{Machine, StepBudget};
use fencepost_node::shell::{Found, Freshness, Query, Steps};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Failure, Wrong};
use crate::house::{House, freshness};
use crate::limits;

/// Bytes of a large answer that one permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// The room that reads of many keys have.
pub(crate) struct Scans {
    answers: Gate,
    hashes: Gate,
    builders: Arc<Semaphore>,
}

impl Scans {
    /// Room for the largest answer.
    pub(crate) async fn room(&self) -> Result<OwnedSemaphorePermit, Failure> {
        self.answers.enter(limits::ANSWER_BYTES_MAX / PERMIT_BYTES).await
    }

    /// Room for an answer that is known, from what was taken before it was. Waits for as long as it
    /// takes: the request was done. None if the answer is small.
    pub(crate) async fn room_for(
        &self,
        bytes: usize,
        before: Option<OwnedSemaphorePermit>,
    ) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        let bytes = bytes.min(limits::ANSWER_BYTES_MAX);
        if let Some(permit) = before {
            return Ok(Some(shrunk(permit, bytes)));
        }
        if bytes as u64 <= limits::INLINE_BYTES_MAX {
            return Ok(None);
        }
        self.answers.wait(bytes.div_ceil(PERMIT_BYTES)).await.map(Some)
    }
}

impl Default for Scans {
    fn default() -> Scans {
        let large = limits::LARGE_ANSWERS_BYTES_MAX / PERMIT_BYTES;
        Scans {
            answers: Gate::new("large reads", large, limits::LARGE_READS_WAITING_MAX),
            hashes: Gate::new("hashes", 1, limits::HASHES_WAITING_MAX),
            builders: Arc::new(Semaphore::new(limits::ANSWER_BUILDERS_MAX)),
        }
    }
}

/// Admits so much at a time. The rest waits, up to a bound.
struct Gate {
    what: &'static str,
    permits: Arc<Semaphore>,
    places: Semaphore,
    waiting_max: usize,
}

impl Gate {
    fn new(what: &'static str, permits: usize, waiting_max: usize) -> Gate {
        let permits = Arc::new(Semaphore::new(permits));
        Gate { what, permits, places: Semaphore::new(waiting_max), waiting_max }
    }

    async fn enter(&self, permits: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let many = u32::try_from(permits).expect("a few thousand");
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_many_owned(many) {
            return Ok(permit);
        }
        let place = self.places.try_acquire();
        let _place = place.map_err(|_| Wrong::TooMuchOpen(self.what, self.waiting_max))?;
        self.wait(permits).await
    }

    async fn wait(&self, permits: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let many = u32::try_from(permits).expect("a few thousand");
        let permit = Arc::clone(&self.permits).acquire_many_owned(many).await;
        permit.map_err(|_| Wrong::ShuttingDown.into())
    }
}

/// What has come of the first step of a scan.
enum First {
    Done(Scanned),
    More(Scan),
    Failed(ScanError),
}

/// The first step of a scan.
struct FirstStep(Option<Scan>);

impl Steps for FirstStep {
    fn step(
        &mut self,
        machine: &Machine,
        budget: &mut StepBudget,
    ) -> Option<Result<Found, ProposeError>> {
        let mut scan = self.0.take().expect("there is one first step");
        let first = match scan.step(machine.state(), budget) {
            Progress::More => First::More(scan),
            Progress::Done(scanned) => First::Done(scanned),
            Progress::Failed(why) => First::Failed(why),
        };
        Some(Ok(Box::new(first)))
    }
}

/// All steps of a scan. It ends when its caller has gone.
struct AllSteps {
    scan: Scan,
    caller: Weak<()>,
    /// Given back when the scan ends, whether its caller is still there or not.
    permit: Option<OwnedSemaphorePermit>,
}

/// What a scan has found, and the permit that it was made with.
type Ended = (Result<Scanned, ScanError>, Option<OwnedSemaphorePermit>);

impl Steps for AllSteps {
    fn step(
        &mut self,
        machine: &Machine,
        budget: &mut StepBudget,
    ) -> Option<Result<Found, ProposeError>> {
        if self.caller.strong_count() == 0 {
            return Some(Err(ProposeError::Overloaded));
        }
        let scanned = match self.scan.step(machine.state(), budget) {
            Progress::More => return None,
            Progress::Done(scanned) => Ok(scanned),
            Progress::Failed(why) => Err(why),
        };
        let ended: Ended = (scanned, self.permit.take());
        Some(Ok(Box::new(ended)))
    }
}

impl From<ScanError> for Failure {
    fn from(why: ScanError) -> Failure {
        match why {
            ScanError::Refused(reason) => reason.into(),
            ScanError::TooLarge(max) => Wrong::AnswerTooLarge(max).into(),
            ScanError::Outrun => Wrong::Outrun.into(),
        }
    }
}

/// The keys that a scan has found, for an answer that is still to be built.
pub(crate) struct FoundKeys {
    scanned: Scanned,
    permit: Option<OwnedSemaphorePermit>,
    builders: Arc<Semaphore>,
}

impl FoundKeys {
    pub(crate) fn revision(&self) -> Revision {
        self.scanned.revision()
    }

    /// Builds the answer, beside the I/O workers if it is large.
    pub(crate) async fn build<T: Send + 'static>(
        self,
        build: impl FnOnce(&RangeAnswer) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        self.build_with(|answer, _| build(answer)).await
    }

    /// Builds the bytes of an answer. Large ones keep their room until they are sent.
    pub(crate) async fn build_bytes(
        self,
        build: impl FnOnce(&RangeAnswer) -> Bytes + Send + 'static,
    ) -> Result<Bytes, Failure> {
        self.build_with(|answer, permit| match permit {
            Some(permit) => Bytes::from_owner(Reserved { bytes: build(answer), _permit: permit }),
            None => build(answer),
        })
        .await
    }

    async fn build_with<T: Send + 'static>(
        self,
        build: impl FnOnce(&RangeAnswer, Option<OwnedSemaphorePermit>) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let FoundKeys { scanned, permit, builders } = self;
        let is_short = permit.is_none() && scanned.bytes() <= limits::INLINE_BYTES_MAX;
        let is_small = is_short && !scanned.sorts_by_value();
        let finish = move || {
            let answer = scanned.into_answer();
            let bytes = bytes_of(&answer);
            if bytes > limits::ANSWER_BYTES_MAX {
                return Err(Wrong::AnswerTooLarge(limits::ANSWER_BYTES_MAX as u64).into());
            }
            Ok(build(&answer, permit.map(|permit| shrunk(permit, bytes))))
        };
        if is_small {
            return finish();
        }
        let builder = builders.acquire_owned().await;
        let built = tokio::task::spawn_blocking(move || {
            let _builder = builder;
            finish()
        });
        built.await.unwrap_or_else(|_| Err(Wrong::Unexpected.into()))
    }
}

/// Bytes of an answer with the room that they take.
struct Reserved {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Roughly what an answer takes.
fn bytes_of(answer: &RangeAnswer) -> usize {
    const EACH: usize = 64;
    answer.kvs.iter().map(|kv| EACH + kv.key.len() + kv.value.len()).sum()
}

/// Gives back what an answer of so many bytes does not need.
fn shrunk(mut permit: OwnedSemaphorePermit, bytes: usize) -> OwnedSemaphorePermit {
    let spare = permit.num_permits().saturating_sub(bytes.div_ceil(PERMIT_BYTES));
    drop(permit.split(spare));
    permit
}

impl House {
    /// Reads many keys at one revision.
    pub(crate) async fn scan(&self, is_stale: bool, scan: Scan) -> Result<FoundKeys, Failure> {
        let builders = Arc::clone(&self.scans.builders);
        let first = Query::Steps(Box::new(FirstStep(Some(scan))));
        let scan = match self.calls.ask(freshness(is_stale), first).await? {
            First::Done(scanned) => return Ok(FoundKeys { scanned, permit: None, builders }),
            First::Failed(why) => return Err(why.into()),
            First::More(scan) => scan,
        };
        let permit = self.scans.answers.enter(limits::ANSWER_BYTES_MAX / PERMIT_BYTES).await?;
        // The first step has seen a state that is fresh enough, and later ones are fresher.
        let (scanned, permit) = self.finish_scan(scan, permit).await?;
        Ok(FoundKeys { scanned, permit, builders })
    }

    /// The hash of all keys at a revision; none for the present. As this member has them.
    pub(crate) async fn hash(&self, at: Revision) -> Result<Scanned, Failure> {
        let permit = self.scans.hashes.enter(1).await?;
        let (scanned, _permit) = self.finish_scan(Scan::hash(at), permit).await?;
        Ok(scanned)
    }

    async fn finish_scan(
        &self,
        scan: Scan,
        permit: OwnedSemaphorePermit,
    ) -> Result<(Scanned, Option<OwnedSemaphorePermit>), Failure> {
        let caller = Arc::new(());
        let steps = AllSteps { scan, caller: Arc::downgrade(&caller), permit: Some(permit) };
        let query = Query::Steps(Box::new(steps));
        let (scanned, permit): Ended = self.calls.ask(Freshness::Stale, query).await?;
        drop(caller);
        Ok((scanned?, permit))
    }
}
