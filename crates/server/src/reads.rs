//! Questions that both unary calls and sessions ask.

use fencepost_core::event::KeyValue;
use fencepost_core::query::{LockView, Sight};
use fencepost_core::range::{Page, PageQuery};
use fencepost_core::{LeaseId, LockName, LogTime, Reason, Revision, State};
use fencepost_node::shell::Query;
use fencepost_proto::v1;

use crate::calls::query;
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

pub(crate) fn get_lock(request: &v1::GetLockRequest) -> Result<Query, Failure> {
    let look = look(request)?;
    Ok(query(move |machine| {
        let state = machine.state();
        Read::Lock(state.revision(), state.now(), Box::new(look(state)))
    }))
}

pub(crate) fn range(request: &v1::RangeRequest) -> Result<Query, Failure> {
    let (range, counts) = (parse::range(request)?, request.count);
    Ok(query(move |machine| {
        let state = machine.state();
        Read::Range(state.revision(), page(state, &range, counts))
    }))
}

/// A page, and how many keys the range holds, if that is to be counted or known anyway.
pub(crate) fn page(state: &State, query: &PageQuery, counts: bool) -> (Page, u64) {
    let page = state.page(query);
    let count = match counts {
        true => state.count(&query.range),
        false if query.after.is_none() && !page.more => page.kvs.len() as u64,
        false => 0,
    };
    (page, count)
}

pub(crate) fn show_range((page, count): &(Page, u64)) -> v1::RangeResponse {
    let kvs = page.kvs.iter().map(show::key_val).collect();
    v1::RangeResponse { header: None, kvs, more: page.more, count: *count }
}

/// What a message can carry of the keys that were deleted, and whether that is all.
pub(crate) fn show_deleted(deleted: u64, prev: &[KeyValue]) -> v1::DeleteRangeResponse {
    let mut bytes = 0;
    let fits = |kv: &&KeyValue| {
        let is_first = bytes == 0;
        bytes += kv.key.len() + kv.value.len() + 32;
        is_first || bytes <= limits::RANGE_BYTES_MAX
    };
    let prev_kvs: Vec<v1::KeyVal> = prev.iter().take_while(fits).map(show::key_val).collect();
    let prev_kvs_cut = prev_kvs.len() < prev.len();
    v1::DeleteRangeResponse { header: None, deleted, prev_kvs, prev_kvs_cut }
}
