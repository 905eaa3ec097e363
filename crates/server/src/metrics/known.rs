//! Counters with a label, found again without a look at all their labels.
//!
//! A family finds a counter by a hash of its labels under a lock, for every request. The few that are
//! counted all the time are kept here by name.

use std::sync::{PoisonError, RwLock};

use prometheus_client::metrics::counter::Counter;

/// Counters by name: a handful.
#[derive(Debug, Default)]
pub(super) struct Known(RwLock<Vec<(&'static str, Counter)>>);

impl Known {
    /// Counts one more under this name. `find` makes its counter known.
    pub(super) fn inc(&self, name: &'static str, find: impl FnOnce() -> Counter) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = known.iter().find(|(known, _)| *known == name) {
            counter.inc();
            return;
        }
        drop(known);
        let counter = find();
        counter.inc();
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Another may have made it known meanwhile: it is the same counter.
        if known.iter().all(|(known, _)| *known != name) {
            known.push((name, counter));
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::family::Family;

    use super::*;

    #[test]
    fn each_name_counts_into_its_counter_of_the_family() {
        let family = Family::<[(&str, &str); 1], Counter>::default();
        let known = Known::default();
        for name in ["acquire", "release", "acquire", "acquire"] {
            known.inc(name, || family.get_or_create(&[("kind", name)]).clone());
        }
        assert_eq!(family.get_or_create(&[("kind", "acquire")]).get(), 3);
        assert_eq!(family.get_or_create(&[("kind", "release")]).get(), 1);
    }
}
