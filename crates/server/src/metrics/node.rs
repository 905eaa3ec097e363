//! What the node counts by itself, read when somebody asks.

use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fencepost_node::shell::{Handle, SYNC_MICROS};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::dropped_log_lines;

fn count(members: usize) -> i64 {
    i64::try_from(members).unwrap_or(i64::MAX)
}

#[derive(Debug)]
pub(super) struct NodeNumbers(pub(super) Handle);

impl Collector for NodeNumbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let status = self.0.status();
        let counters = [
            ("log_entries", "Entries appended to the log", status.log_entries),
            ("log_syncs", "Syncs of the log", status.syncs),
            (
                "clock_cuts",
                "How often the leader's clock was found to have jumped",
                status.clock_cuts,
            ),
            (
                "logging_dropped_lines",
                "Lines of this process's log that were dropped unread",
                dropped_log_lines().load(Ordering::Relaxed),
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            let encoder = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(encoder)?;
        }
        let bytes = ConstCounter::new(status.log_bytes);
        let kind = bytes.metric_type();
        let help = "Entries appended to the log";
        bytes.encode(encoder.encode_descriptor(
            "log_appended",
            help,
            Some(&Unit::Bytes),
            kind,
        )?)?;
        if let Some(disk) = status.disk {
            let unit = Some(&Unit::Bytes);
            for (name, help, value) in [
                ("disk_free", "Bytes that can still be written to the disk", disk.free),
                ("disk_reserve", "Free bytes below which growth is refused", disk.reserve),
            ] {
                let gauge = ConstGauge::new(crate::show::signed(value));
                gauge.encode(encoder.encode_descriptor(
                    name,
                    help,
                    unit,
                    gauge.metric_type(),
                )?)?;
            }
        }
        let reachable = status.contacts.values().filter(|contact| contact.is_reachable).count();
        let gauges = [
            ("raft_term", "The term", crate::show::signed(status.role.term)),
            ("raft_leads", "Whether this member leads", i64::from(status.role.leads)),
            ("raft_applied_index", "The last entry applied", crate::show::signed(status.applied)),
            ("raft_commit_index", "The last entry committed", crate::show::signed(status.commit)),
            ("raft_peers", "Other members", count(status.contacts.len())),
            ("raft_peers_reachable", "Other members that this one reaches", count(reachable)),
            ("feature_level", "The feature level of the cluster", status.feature_level.into()),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let seconds = |micros| Duration::from_micros(micros).as_secs_f64();
        let bounds = SYNC_MICROS.iter().map(|&micros| seconds(micros)).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(status.sync_latencies).collect();
        let help = "How long a sync of the log takes";
        let kind = MetricType::Histogram;
        let unit = Some(&Unit::Seconds);
        let mut syncs = encoder.encode_descriptor("log_sync", help, unit, kind)?;
        syncs.encode_histogram::<NoLabelSet>(
            seconds(status.sync_micros),
            status.syncs,
            &buckets,
            None,
        )
    }
}
