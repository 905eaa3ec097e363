//! Questions that both unary calls and sessions ask.

use fencepost_core::query::LockView;
use fencepost_core::range::RangeAnswer;
use fencepost_core::{LockName, LogTime, Revision};
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
    /// Keys.
    Range(Revision, RangeAnswer),
}

/// How many waiters are listed if somebody asks for so many.
pub(crate) fn waiters_max(asked: u32) -> usize {
    usize::try_from(asked).unwrap_or(usize::MAX).min(limits::WAITERS_MAX)
}

pub(crate) fn get_lock(request: &v1::GetLockRequest) -> Query {
    let name = LockName::from(&*request.name);
    let waiters_max = waiters_max(request.waiters_max);
    query(move |machine| {
        let state = machine.state();
        Read::Lock(state.revision(), state.now(), Box::new(state.lock(&name, waiters_max)))
    })
}

pub(crate) fn range(request: &v1::RangeRequest) -> Result<Query, Failure> {
    let mut range = parse::range(request)?;
    if range.limit == 0 || range.limit > limits::RANGE_KEYS_MAX {
        range.limit = limits::RANGE_KEYS_MAX;
    }
    Ok(query(move |machine| {
        let state = machine.state();
        Read::Range(state.revision(), state.range(&range))
    }))
}

/// What a message can carry of an answer.
pub(crate) fn show_range(answer: RangeAnswer) -> v1::RangeResponse {
    let mut bytes = 0;
    let mut fits = |kv: &fencepost_core::event::KeyValue| {
        let first = bytes == 0;
        bytes += kv.key.len() + kv.value.len() + 32;
        first || bytes <= limits::RANGE_BYTES_MAX
    };
    let total = answer.kvs.len();
    let kvs: Vec<v1::KeyVal> =
        answer.kvs.iter().take_while(|kv| fits(kv)).map(show::key_val).collect();
    let more = answer.more || kvs.len() < total;
    v1::RangeResponse { header: None, kvs, more, count: answer.count }
}
