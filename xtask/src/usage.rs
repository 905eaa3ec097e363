//! What a process uses, as the kernel counts it.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;

/// What a process uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Resident memory in bytes.
    pub(crate) rss: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    pub(crate) mappings: u64,
}

impl Usage {
    pub(crate) fn of(process: u32) -> anyhow::Result<Usage> {
        let home = PathBuf::from(format!("/proc/{process}"));
        let status = fs::read_to_string(home.join("status")).context("the process has ended")?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let digits = line.and_then(|line| line.split_whitespace().next());
            let number = digits.and_then(|digits| digits.parse::<u64>().ok());
            number.with_context(|| format!("no line {name} in /proc/{process}/status"))
        };
        Ok(Usage {
            rss: number("VmRSS:")? << 10,
            threads: number("Threads:")?,
            descriptors: fs::read_dir(home.join("fd"))?.count() as u64,
            mappings: fs::read_to_string(home.join("maps"))?.lines().count() as u64,
        })
    }

    /// Whether no figure is above another one's by more than allowed.
    pub(crate) fn is_within(&self, base: &Usage, growth: &Usage) -> bool {
        self.rss <= base.rss + growth.rss
            && self.descriptors <= base.descriptors + growth.descriptors
            && self.threads <= base.threads + growth.threads
            && self.mappings <= base.mappings + growth.mappings
    }

    /// The greater of each figure.
    pub(crate) fn max(&self, other: &Usage) -> Usage {
        Usage {
            rss: self.rss.max(other.rss),
            descriptors: self.descriptors.max(other.descriptors),
            threads: self.threads.max(other.threads),
            mappings: self.mappings.max(other.mappings),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { rss, descriptors, threads, mappings } = self;
        let mib = rss >> 20;
        write!(f, "{mib} MiB, {descriptors} descriptors, {threads} threads, {mappings} mappings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Usage = Usage { rss: 100, descriptors: 10, threads: 5, mappings: 50 };
    const GROWTH: Usage = Usage { rss: 10, descriptors: 1, threads: 1, mappings: 5 };

    #[test]
    fn growth_of_any_figure_is_seen() {
        assert!(BASE.is_within(&BASE, &GROWTH));
        let greater = [
            Usage { rss: 111, ..BASE },
            Usage { descriptors: 12, ..BASE },
            Usage { threads: 7, ..BASE },
            Usage { mappings: 56, ..BASE },
        ];
        for usage in greater {
            assert!(!usage.is_within(&BASE, &GROWTH), "{usage}");
        }
    }

    #[test]
    fn this_process_uses_something() {
        let usage = Usage::of(std::process::id()).expect("it runs");
        assert!(usage.rss > 0 && usage.threads > 0 && usage.mappings > 0, "{usage}");
    }
}
