//! What three servers survive.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use fencepost_client::Client;
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::support::{Done, Plan, Running, Server, folder, page, until};

async fn client(cluster: &Cluster) -> Client {
    let endpoints = cluster.endpoints();
    let builder = Client::builder().endpoints(endpoints.split(',')).name("holder");
    let builder = builder.request_timeout(Duration::from_secs(30));
    builder.connect().await.expect("the cluster answers")
}

// Requirements: S1-095, S4-008, S4-034.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_replaced() {
    let mut cluster = Cluster::form();
    let client = client(&cluster).await;
    let guard = client.lock("held").ttl(Duration::from_secs(60)).acquire().await;
    let guard = guard.expect("it is free");
    let leader = cluster.leader();
    cluster.kill(leader);
    // Requests succeed again, and the lock is held by whom it was.
    until(|| match cluster.run(&["kv", "put", "after", "1"]) {
        done if done.code == 0 => Ok(()),
        done => Err(done),
    });
    let shown = cluster.json(&["show", "held"]);
    assert_eq!(shown["holders"][0]["token"], guard.token().get());
    assert!(guard.is_valid());
    assert_ne!(cluster.leader(), leader);
    guard.release().await.expect("it is held");
    let again = client.lock("held").wait(Duration::from_secs(30)).acquire().await;
    let token = again.expect("it is free").token().get();
    assert!(shown["holders"][0]["token"].as_i64().is_some_and(|before| before < token));
    cluster.start(leader);
    assert_eq!(cluster.at(leader).run(&["kv", "get", "after"]).good(), "1\n");
}

// Requirements: S3-033.
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_was_killed_goes_on_where_it_was() {
    let mut cluster = Cluster::form();
    let client = client(&cluster).await;
    let guard = client.lock("held").ttl(Duration::from_secs(600)).acquire().await;
    let guard = guard.expect("it is free");
    cluster.run(&["kv", "put", "a", "1"]).good();
    let before = cluster.json(&["status"]);
    for place in 0..3 {
        cluster.kill(place);
    }
    // None is ready before it has found another one.
    let begun: Vec<_> = cluster.plans.iter().map(Plan::begin).collect();
    let ready = begun.into_iter().map(|process| Some(Server::ready(process)));
    cluster.servers = ready.collect();
    cluster.leader();
    assert_eq!(cluster.run(&["kv", "get", "a"]).good(), "1\n");
    let shown = cluster.json(&["show", "held"]);
    assert_eq!(shown["holders"][0]["token"], guard.token().get());
    let after = cluster.json(&["status"]);
    assert_eq!(after["cluster_id"], before["cluster_id"]);
    assert_eq!(after["revision"], before["revision"]);
    assert!(guard.is_valid());
}

#[test]
fn a_wiped_follower_comes_back_as_somebody_new() {
    let mut cluster = Cluster::form();
    cluster.run(&["kv", "put", "a", "1"]).good();
    let leader = cluster.leader();
    let lost = (leader + 1) % 3;
    let name = cluster.plans[lost].data.clone();
    let id = |cluster: &Cluster| {
        let listed = cluster.json(&["member", "ls"]);
        let all = listed["members"].as_array().expect("it lists them");
        let found = all.iter().find(|one| one["name"] == name.as_str());
        found.expect("it is a member")["id"].as_str().expect("it has one").to_owned()
    };
    let before = id(&cluster);
    cluster.kill(lost);
    fs::remove_dir_all(cluster.home.path().join(&name)).expect("it is there");
    let peer = cluster.at(leader).peer.clone();
    let old = cluster.plans[lost].clone();
    let plan = Plan { more: Vec::new(), ..old }.with(&["--name", &name, "--join", &peer]);
    // It has forgotten its votes, so it cannot pass for the one that it was.
    let refused = Done::of(plan.command());
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("already a member with another disk"), "{refused:?}");
    assert!(refused.err.contains("remove it, then let it join"), "{refused:?}");
    cluster.run(&["member", "rm", &name]).good();
    cluster.plans[lost] = plan;
    cluster.start(lost);
    cluster.until_voters(3);
    assert_ne!(id(&cluster), before);
    assert_eq!(cluster.at(lost).run(&["kv", "get", "a"]).good(), "1\n");
    // It counts: with it, another one can be missed.
    let other = (leader + 2) % 3;
    cluster.kill(other);
    until(|| match cluster.run(&["kv", "put", "b", "2"]) {
        done if done.code == 0 => Ok(()),
        done => Err(done),
    });
}

// Requirements: S1-033, S3-008, S4-034, S4-035.
#[test]
fn a_member_that_is_left_alone_says_so() {
    let mut cluster = Cluster::form();
    cluster.run(&["kv", "put", "a", "1"]).good();
    let leader = cluster.leader();
    let left = (leader + 1) % 3;
    // The leader may have committed the write without this member.
    let revision = |member: &Server| member.json(&["status"])["revision"].as_i64();
    let written = revision(cluster.at(leader));
    until(|| match revision(cluster.at(left)) {
        known if known >= written => Ok(()),
        known => Err(known),
    });
    cluster.kill(leader);
    cluster.kill((leader + 2) % 3);
    let alone = cluster.at(left);
    until(|| match alone.status() {
        status if status["leader"].is_null() => Ok(()),
        status => Err(status),
    });
    for args in [&["status"][..], &["member", "ls"]] {
        let done = alone.run(args);
        assert!(!done.out.is_empty(), "it is shown all the same");
        assert!(done.refused(1).contains("the cluster has no leader"));
    }
    let refused = |args: &[&str]| alone.run(&[&["--timeout", "1s"], args].concat()).refused(1);
    for args in [&["kv", "put", "a", "2"][..], &["kv", "get", "a"], &["ls"]] {
        let text = refused(args);
        assert!(text.contains("no_leader") || text.contains("in time"), "{text}");
    }
    // What it knows can be saved all the same.
    let home = folder();
    let file = home.path().join("backup");
    let file = file.to_str().expect("it is text");
    refused(&["snapshot", "save", file]);
    alone.run(&["snapshot", "save", "--stale", file]).good();
    assert_eq!(alone.run(&["snapshot", "verify", file, "-o", "json"]).json()["keys"], 1);
    cluster.start(leader);
    assert_eq!(cluster.run(&["kv", "get", "a"]).good(), "1\n");
}

/// Waits until the leader does not reach the member of this name.
fn until_unreachable(server: &Server, name: &str) -> Value {
    until_shown_as(server, name, false)
}

fn until_shown_as(server: &Server, name: &str, is_reachable: bool) -> Value {
    until(|| {
        let status = server.status();
        let members = status["members"].as_array().expect("it lists them");
        let member = members.iter().find(|member| member["name"] == name);
        let member = member.expect("it is a member").clone();
        if member["reachable"] == is_reachable { Ok(member) } else { Err(status) }
    })
}

// Requirements: S3-008.
#[test]
fn member_that_is_down_is_shown_as_unreachable() {
    let mut cluster = Cluster::form();
    let leader = cluster.leader();
    let (down, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let name = cluster.plans[down].data.clone();
    // A connection that is still being made could stand for a moment afterwards.
    for place in [leader, other] {
        until_shown_as(cluster.at(place), &name, true);
    }
    cluster.kill(down);
    for place in [leader, other] {
        let member = until_unreachable(cluster.at(place), &name);
        assert!(member["silent_ms"].as_i64().is_some(), "{member}");
        let table = cluster.at(place).run(&["member", "ls"]).good();
        let row = table.lines().find(|line| line.contains(&name)).expect("it is listed");
        assert!(row.contains("no, for "), "{table}");
        assert_eq!(table.matches(" yes ").count(), 2, "{table}");
        let address = cluster.at(place).endpoint.trim_start_matches("http://").to_owned();
        let metrics = page(&address, "/metrics");
        assert!(metrics.contains("fencepost_raft_peers_reachable 1\n"), "{metrics}");
        let members = page(&address, "/v1/members");
        assert_eq!(members.matches("\"reachable\":false").count(), 1, "{members}");
    }
    // Without a majority nothing is decided any more.
    cluster.kill(other);
    let lost = until(|| match cluster.at(leader).run(&["status"]) {
        done if done.code == 1 => Ok(done),
        done => Err(done),
    });
    let text = lost.refused(1);
    assert!(text.contains("no quorum") || text.contains("no leader"), "{text}");
}

#[test]
fn leadership_is_not_handed_to_a_stopped_member() {
    let cluster = Cluster::form();
    let leader = cluster.leader();
    let (stopped, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let name = cluster.plans[stopped].data.clone();
    cluster.at(stopped).process.signal(Signal::STOP);
    until_unreachable(cluster.at(leader), &name);
    let term = |cluster: &Cluster| cluster.at(leader).status()["term"].clone();
    let before = term(&cluster);
    for place in [leader, other] {
        let text = cluster.at(place).run(&["move-leader", &name]).refused(1);
        assert!(text.contains("member_unreachable"), "{text}");
    }
    // Nothing was tried: trying stops writes.
    assert_eq!(term(&cluster), before);
    cluster.at(leader).run(&["kv", "put", "a", "1"]).good();
}

/// etcd's own command, with all members as its endpoints. Nothing if it is not installed.
fn etcdctl(cluster: &Cluster, arguments: &[&str]) -> Option<Command> {
    let mut command = Command::new("etcdctl");
    if Command::new("etcdctl").arg("version").output().is_err() {
        fencepost_testkit::skip("etcdctl is missing", "apt-get install etcd-client");
        return None;
    }
    let endpoints = cluster.endpoints().replace("http://", "");
    command.env("ETCDCTL_API", "3").env("ETCDCTL_ENDPOINTS", endpoints);
    command.args(arguments).stdin(Stdio::null());
    Some(command)
}

#[test]
fn etcds_lock_passes_on_although_the_leader_is_killed() {
    let mut cluster = Cluster::form();
    let pipe = cluster.home.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it is there").success());
    let holds = format!("echo held; cat {}", pipe.display());
    let Some(first) = etcdctl(&cluster, &["lock", "m", "sh", "--", "-c", &holds]) else { return };
    let mut first = Running::start(first);
    first.out.wait_for("held");
    let Some(second) = etcdctl(&cluster, &["lock", "m", "echo", "next"]) else { return };
    let mut second = Running::start(second);
    let waiters = |cluster: &Cluster| {
        let shown = cluster.json(&["show", "m"]);
        shown["waiters"].as_array().map_or(0, Vec::len)
    };
    until(|| match waiters(&cluster) {
        1 => Ok(()),
        other => Err(other),
    });
    let leader = cluster.leader();
    cluster.kill(leader);
    cluster.leader();
    assert_eq!(waiters(&cluster), 1, "it keeps its place");
    assert!(second.out.all().is_empty(), "nobody else has it");
    fs::write(&pipe, "").expect("it is read");
    assert_eq!(first.wait().code(), Some(0));
    assert_eq!(second.wait().code(), Some(0));
    assert_eq!(second.out.all(), ["next"]);
}
