//! Queries in steps, on a node that does other things meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fencepost_node::io::{ProposeError, RequestId};
use fencepost_node::machine::{Machine, StepBudget};
use fencepost_node::shell::{Delivery, Found, Freshness, Mailbox, Query, Steps};

use crate::support::{cluster, has, write};

/// Takes steps until it is ended. The answer is how many entries were applied meanwhile.
struct Endless {
    begun_at: Option<u64>,
    steps: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Steps for Endless {
    fn step(
        &mut self,
        machine: &Machine,
        _budget: &mut StepBudget,
    ) -> Option<Result<Found, ProposeError>> {
        let begun_at = *self.begun_at.get_or_insert(machine.applied());
        self.steps.fetch_add(1, Ordering::Relaxed);
        let is_over = self.is_over.load(Ordering::Acquire);
        if !is_over {
            return None;
        }
        Some(Ok(Box::new(machine.applied() - begun_at)))
    }
}

/// If the query kept the loop for itself, nothing would ever end it.
#[test]
fn query_in_steps_keeps_neither_writes_nor_reads_waiting() {
    for freshness in [Freshness::Stale, Freshness::Linearizable] {
        let (_folder, _, cluster) = cluster(1);
        let handle = cluster.nodes()[0].handle();
        let (steps, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let endless =
            Endless { begun_at: None, steps: Arc::clone(&steps), is_over: Arc::clone(&is_over) };
        let caller = handle.caller();
        let asker = std::thread::spawn(move || {
            caller.ask::<u64>(freshness, Query::Steps(Box::new(endless)))
        });
        while steps.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        for number in 0..20 {
            let key = format!("k{number}");
            write(handle, &key);
            assert_eq!(has(handle, &key, freshness), Ok(true), "{key}");
        }
        is_over.store(true, Ordering::Release);
        let applied = asker.join().expect("it does not panic").expect("it is answered");
        assert!(applied >= 20, "{applied} entries");
    }
}

#[test]
fn query_in_steps_ends_with_its_line() {
    let (_folder, _, cluster) = cluster(1);
    let handle = cluster.nodes()[0].handle();
    let (steps, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let endless =
        Endless { begun_at: None, steps: Arc::clone(&steps), is_over: Arc::clone(&is_over) };
    let line = handle.line(Box::new(Sink));
    let query = Query::Steps(Box::new(endless));
    line.read(line.draw(), Freshness::Stale, query).expect("there is room");
    while steps.load(Ordering::Relaxed) < 3 {
        std::thread::yield_now();
    }
    drop(line);
    // The query holds the other one, until the loop drops it.
    while Arc::strong_count(&is_over) > 1 {
        std::thread::yield_now();
    }
}

/// Takes answers and drops them.
struct Sink;

impl Mailbox for Sink {
    fn deliver(&self, _: Vec<(RequestId, Delivery)>) {}
}
