//! What the state counts by itself, taken over when somebody asks.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fencepost_core::work::{BATCH_BOUNDS, Work};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// What all states of this process have done together. A snapshot that is installed is a new state,
/// which begins at zero.
#[derive(Clone, Debug, Default)]
pub(super) struct StateNumbers(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    total: Work,
    last: Work,
}

impl StateNumbers {
    /// The present state has done this.
    pub(super) fn see(&self, work: &Work) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = work.entries() < seen.last.entries();
        let before = if is_new { Work::default() } else { seen.last };
        let total = &mut seen.total;
        total.commands += work.commands - before.commands;
        total.leases_granted += work.leases_granted - before.leases_granted;
        total.leases_expired += work.leases_expired - before.leases_expired;
        total.leases_revoked += work.leases_revoked - before.leases_revoked;
        for (at, count) in total.batches.iter_mut().enumerate() {
            *count += work.batches[at] - before.batches[at];
        }
        seen.last = *work;
    }
}

impl Collector for StateNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let total = self.0.lock().unwrap_or_else(PoisonError::into_inner).total;
        let counters = [
            ("lease_grants", "Leases made", total.leases_granted),
            ("lease_expiries", "Leases that ran out", total.leases_expired),
            ("lease_revocations", "Leases ended before they ran out", total.leases_revoked),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(encoder)?;
        }
        let bounds = BATCH_BOUNDS.iter().map(|&one| whole(one)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(total.batches).collect();
        let help = "Commands in one entry of the log";
        let mut batches =
            encoder.encode_descriptor("log_batch_commands", help, None, MetricType::Histogram)?;
        batches.encode_histogram::<NoLabelSet>(
            whole(total.commands),
            total.entries(),
            &buckets,
            None,
        )
    }
}

/// A count as this format wants it: high half and low half, each of which is exact.
fn whole(count: u64) -> f64 {
    let half = |bits: u64| f64::from(u32::try_from(bits & u64::from(u32::MAX)).unwrap_or_default());
    half(count >> 32) * 4_294_967_296.0 + half(count)
}
