//! Questions that both unary calls and sessions ask.

use fencepost_core::query::LockView;
use fencepost_core::range::{Page, PageQuery};
use fencepost_core::{LockName, LogTime, Reason, Revision, State};
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

/// The lock that a question is about.
pub(crate) fn lock_asked(request: &v1::GetLockRequest) -> Result<LockName, Failure> {
    if request.name.is_empty() {
        return Err(Reason::NameEmpty.into());
    }
    Ok(LockName::from(&*request.name))
}

pub(crate) fn get_lock(request: &v1::GetLockRequest) -> Result<Query, Failure> {
    let name = lock_asked(request)?;
    let waiters_max = waiters_max(request.waiters_max);
    Ok(query(move |machine| {
        let state = machine.state();
        Read::Lock(state.revision(), state.now(), Box::new(state.lock(&name, waiters_max)))
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

/// What a message can carry of an answer.
pub(crate) fn show_range((page, count): &(Page, u64)) -> v1::RangeResponse {
    let mut bytes = 0;
    let mut fits = |kv: &fencepost_core::event::KeyValue| {
        let first = bytes == 0;
        bytes += kv.key.len() + kv.value.len() + 32;
        first || bytes <= limits::RANGE_BYTES_MAX
    };
    let kvs: Vec<v1::KeyVal> =
        page.kvs.iter().take_while(|kv| fits(kv)).map(show::key_val).collect();
    let more = page.more || kvs.len() < page.kvs.len();
    v1::RangeResponse { header: None, kvs, more, count: *count }
}
