//! A data directory that a build of feature level 1 wrote goes on.
//!
//! `tests/fixtures/level-1` was written by the last build of level 1: three keys below `app/`, a
//! lease of twenty hours, a lock that was held and released with token 5, 500 keys below `k`, one
//! transaction that reads all keys 1,500 times, and `jobs/held`, which a killed client holds with
//! token 17. The process was killed. The zeros at the end of the log file were cut off.

use std::fs;
use std::path::Path;

use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_core::{LeaseId, LockName, State};
use fencepost_node::machine::Machine;
use fencepost_node::shell::{Freshness, Origin, RunningNode, Settings, start};

use crate::support::{folder, until};

const SEGMENT_BYTES: u64 = 16 << 20;

/// A copy of the directory, as the old build left it.
fn fixture(to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/level-1");
    fs::create_dir(to).expect("it is not there yet");
    for file in fs::read_dir(from).expect("it is in the sources") {
        let file = file.expect("it can be listed");
        let copy = to.join(file.file_name());
        fs::copy(file.path(), &copy).expect("there is room");
        if copy.extension().is_some_and(|extension| extension == "wal") {
            let log = fs::OpenOptions::new().write(true).open(copy).expect("it was just made");
            log.set_len(SEGMENT_BYTES).expect("there is room");
        }
    }
}

fn ask<T: Send + 'static>(
    node: &RunningNode,
    question: impl FnOnce(&State) -> T + Send + 'static,
) -> T {
    let asked = node
        .handle()
        .read_and_wait(Freshness::Linearizable, move |machine: &Machine| question(machine.state()));
    asked.expect("it leads")
}

#[test]
fn directory_of_level_1_goes_on_with_a_costly_transaction_in_its_log() {
    let (_folder, dirs) = folder(1);
    fixture(&dirs[0]);
    let settings = Settings { origin: Origin::Alone, ..Settings::new(dirs[0].clone(), "n1") };
    let node = start(settings).expect("the directory is sound");
    until(&node, |status| status.role.leads);
    until(&node, |status| status.feature_level == 2);
    let counts = ask(&node, |state| {
        let count = |prefix: &[u8]| state.count(&KeyRange::prefix(prefix));
        (count(b"app/"), count(b"k"), state.limits().ttl_max)
    });
    assert_eq!((counts.0, counts.1), (3, 500));
    let view = ask(&node, |state| state.lock(&LockName::from("jobs/held"), 1));
    let tokens: Vec<u64> = view.holders.iter().map(|holder| holder.token.0).collect();
    assert_eq!(tokens, [17]);
    let visits = ask(&node, |state| state.work().key_visits);
    assert!(visits < 10_000, "{visits}: a replay answers nobody");
    let lease = ask(&node, |state| state.lease_key_count(LeaseId(1)));
    assert_eq!(lease, 0);
    let found = ask(&node, |state| state.range(&RangeQuery::from(KeyRange::prefix(b"app/"))));
    assert_eq!(&*found.kvs[2].value, b"value3");
}
