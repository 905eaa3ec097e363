//! The commands that a busy cluster runs all day, one by one, for comparison between versions.

mod support;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fencepost_core::command::{LeaseRef, LeaseRenew, Renewal};
use fencepost_core::{Action, LockName, Millis, State};

use support::{LEASES, acquire, apply, grant, granted, hold, lease, name, release};

fn cycle(criterion: &mut Criterion) {
    let mut state = support::new_state();
    hold(&mut state, 100_000);
    let fresh: Vec<LockName> = (100_000..110_000).map(name).collect();
    let mut numbers = (0..fresh.len()).cycle();
    criterion.bench_function("acquire and release among 100,000 held locks", |bench| {
        bench.iter(|| {
            let number = numbers.next().expect("a cycle does not end");
            let id = 1 + number as u64 % LEASES;
            let outcome = apply(&mut state, acquire(fresh[number].clone(), id));
            apply(&mut state, release(fresh[number].clone(), id, granted(&outcome)))
        });
    });
}

fn renew(criterion: &mut Criterion) {
    let mut state = support::new_state();
    for id in 1..=10_000 {
        grant(&mut state, id, Millis::from_secs(3_600));
    }
    let renewals: Vec<Renewal> =
        (1..=10_000).map(|id| Renewal { lease: LeaseRef::from(lease(id)), number: id }).collect();
    let mut group = criterion.benchmark_group("renewals");
    group.throughput(Throughput::Elements(10_000));
    group.bench_function("one batch of 10,000", |bench| {
        bench.iter(|| {
            apply(&mut state, Action::LeaseRenew(LeaseRenew { renewals: renewals.clone() }))
        });
    });
    group.finish();
}

fn snapshot(criterion: &mut Criterion) {
    let mut state = support::new_state();
    hold(&mut state, 10_000);
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    criterion.bench_function("encode 10,000 locks", |bench| {
        bench.iter(|| {
            let mut out = Vec::with_capacity(bytes.len());
            state.encode(&mut out);
            out
        });
    });
    criterion.bench_function("decode 10,000 locks", |bench| {
        bench.iter(|| State::decode(&bytes).expect("a state decodes from its own bytes"));
    });
}

criterion_group!(hot, cycle, renew, snapshot);
criterion_main!(hot);
