//! Questions that both unary calls and sessions ask.

use std::any::Any;

use fencepost_core::query::{LockView, Sight};
use fencepost_core::range::{Page, PageQuery};
use fencepost_core::scan::{Progress, Scan};
use fencepost_core::{LeaseId, LockName, LogTime, Reason, Revision, State};
use fencepost_node::io::ProposeError;
use fencepost_node::machine::{Machine, StepBudget};
use fencepost_node::shell::{Found, Query, Steps};
use fencepost_proto::v1;

use crate::error::Failure;
use crate::{limits, parse, show};

/// What such a question finds, and the revision of the state that it was put to.
#[derive(Debug)]
pub(crate) enum Read {
    /// One lock.
    Lock(Revision, LogTime, Box<LockView>),
    /// Keys, and how many there are.
    Range(Revision, (Page, u64)),
}

impl Read {
    /// Roughly what it takes to keep.
    pub(crate) fn bytes(&self) -> usize {
        const EACH: usize = 128;
        match self {
            Read::Lock(_, _, view) => {
                let metadata: usize = view.holders.iter().map(|one| one.metadata.len()).sum();
                metadata + EACH * (view.holders.len() + view.waiters.len() + view.foreign.len())
            }
            Read::Range(_, (page, _)) => {
                page.kvs.iter().map(|kv| EACH + kv.key.len() + kv.value.len()).sum()
            }
        }
    }
}

/// How many waiters are listed if somebody asks for so many.
pub(crate) fn waiters_max(asked: u32) -> usize {
    usize::try_from(asked).unwrap_or(usize::MAX).min(limits::WAITERS_MAX)
}

/// What somebody wants to see of a lock: all of it, as far as a message can carry it, or what
/// concerns one lease.
pub(crate) fn look(
    request: &v1::GetLockRequest,
) -> Result<impl FnOnce(&State) -> LockView + Send + use<>, Failure> {
    if request.name.is_empty() {
        return Err(Reason::NameEmpty.into());
    }
    let (name, lease) = (LockName::from(&*request.name), LeaseId(request.lease_id));
    let sight = Sight {
        holders_max: limits::HOLDERS_MAX,
        waiters_max: waiters_max(request.waiters_max),
        metadata_bytes_max: limits::RANGE_BYTES_MAX,
    };
    Ok(move |state: &State| match lease.is_none() {
        true => state.look(&name, &sight),
        false => state.look_of(&name, lease),
    })
}

/// Spends what a look at a lock costs.
fn spend_on_lock(budget: &mut StepBudget, view: &LockView) {
    let keys = 1 + view.holders.len() + view.waiters.len() + view.foreign.len();
    budget.spend_on_answer(keys, 0);
}

pub(crate) fn get_lock(request: &v1::GetLockRequest) -> Result<Query, Failure> {
    let look = look(request)?;
    Ok(Query::measured(move |machine, budget| {
        let state = machine.state();
        let view = look(state);
        spend_on_lock(budget, &view);
        Read::Lock(state.revision(), state.now(), Box::new(view))
    }))
}

/// A page of a range, and how many keys the range holds, if that is to be counted or known anyway.
/// The answer is what `found` makes of them and of their revision.
pub(crate) fn range<T: Any + Send>(
    request: &v1::RangeRequest,
    found: impl FnOnce(Revision, (Page, u64)) -> T + Send + 'static,
) -> Result<Query, Failure> {
    let query = parse::range(request)?;
    if request.count {
        let count = Scan::count(query.range.clone());
        return Ok(Query::Steps(Box::new(CountedPage { count, query, found: Some(found) })));
    }
    Ok(Query::measured(move |machine, budget| {
        let state = machine.state();
        let page = page(state, &query, budget);
        let is_all = query.after.is_none() && !page.more;
        let count = if is_all { page.kvs.len() as u64 } else { 0 };
        found(state.revision(), (page, count))
    }))
}

fn page(state: &State, query: &PageQuery, budget: &mut StepBudget) -> Page {
    let page = state.page(query);
    let bytes = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    budget.spend_on_answer(page.kvs.len(), bytes);
    page
}

/// Counts a range in steps. The last one reads the page.
struct CountedPage<F> {
    count: Scan,
    query: PageQuery,
    found: Option<F>,
}

impl<T: Any + Send, F: FnOnce(Revision, (Page, u64)) -> T + Send> Steps for CountedPage<F> {
    fn step(
        &mut self,
        machine: &Machine,
        budget: &mut StepBudget,
    ) -> Option<Result<Found, ProposeError>> {
        let state = machine.state();
        let count = match self.count.step(state, budget) {
            Progress::More => return None,
            Progress::Done(scanned) => scanned.count(),
            // The keys have changed too fast.
            Progress::Failed(_) => return Some(Err(ProposeError::Overloaded)),
        };
        let page = page(state, &self.query, budget);
        let found = self.found.take().expect("there is one last step");
        Some(Ok(Box::new(found(state.revision(), (page, count)))))
    }
}

pub(crate) fn show_range((page, count): &(Page, u64)) -> v1::RangeResponse {
    let kvs = page.kvs.iter().map(show::key_val).collect();
    v1::RangeResponse { header: None, kvs, more: page.more, count: *count }
}
