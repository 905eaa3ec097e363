//! What `lock` says while the cluster refuses it, and goes on trying.

use rustix::process::Signal;

use crate::cluster::Cluster;

#[test]
fn lock_says_once_why_the_cluster_refuses_it() {
    let cluster = Cluster::form();
    let leader = cluster.leader();
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    others.iter().for_each(|&place| cluster.at(place).process.signal(Signal::STOP));
    let alone = cluster.at(leader);
    let arguments = ["--timeout", "1s", "lock", "job", "--", "echo", "ran"];
    let mut waiter = alone.begin(&arguments);
    waiter.err.wait_for("waiting for job: ");
    others.iter().for_each(|&place| cluster.at(place).process.signal(Signal::CONT));
    waiter.out.wait_for("ran");
    assert_eq!(waiter.wait().code(), Some(0));
    let told = waiter.err.all();
    assert!(told[0].contains("the request is repeated"), "{told:#?}");
    let quiet = alone.run(&["lock", "job", "--quiet", "--", "true"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
}
