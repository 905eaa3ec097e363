//! Snapshots that are asked for all at once, and read slowly or never.

use std::time::Duration;

use fencepost_node::config::NodeConfig;
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient;
use fencepost_proto::v1;
use fencepost_proto::v1::cluster_service_client::ClusterServiceClient;
use fencepost_server::Tuning;
use sha2::{Digest as _, Sha256};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

use crate::support::{World, soon, world, world_with};

/// How many are sent at once.
const AT_ONCE: usize = 4;

/// Stores more than waits anywhere on the way to a client that does not read.
async fn fill(world: &World) {
    let mut locks = world.locks(0).await;
    for number in 0..8 {
        let value = vec![number; 1 << 20].into();
        let put = v1::PutRequest { key: format!("k{number}"), value, ..Default::default() };
        locks.put(put).await.expect("it fits");
    }
}

/// A client that takes a little, and no more before it reads.
async fn slow(world: &World) -> Channel {
    let address = format!("http://{}", world.servers[0].address());
    let endpoint = Endpoint::from_shared(address).expect("it is an address");
    endpoint.initial_stream_window_size(1_024).connect().await.expect("it listens")
}

async fn snapshot(channel: &Channel) -> Result<Streaming<pb::SnapshotResponse>, Status> {
    let asked = MaintenanceClient::new(channel.clone()).snapshot(pb::SnapshotRequest {}).await;
    asked.map(tonic::Response::into_inner)
}

async fn backup(channel: &Channel) -> Result<Streaming<v1::SnapshotChunk>, Status> {
    let mut admin = ClusterServiceClient::new(channel.clone());
    let asked = admin.snapshot(v1::SnapshotRequest::default()).await;
    asked.map(tonic::Response::into_inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_and_backups_share_a_bound() {
    let world = world(1).await;
    fill(&world).await;
    let channel = slow(&world).await;
    let mut snapshots = vec![snapshot(&channel).await.expect("there is room")];
    let backups = [backup(&channel).await, backup(&channel).await];
    backups.iter().for_each(|made| assert!(made.is_ok(), "{made:?}"));
    snapshots.push(snapshot(&channel).await.expect("there is room"));
    assert_eq!(snapshots.len() + backups.len(), AT_ONCE);
    let refused = snapshot(&channel).await.expect_err("there is no room");
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    let refused = backup(&channel).await.expect_err("there is no room");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    drop(backups);
    soon(async { while snapshot(&channel).await.is_err() {} }).await;
    // What was asked for before is whole.
    let (mut file, mut left) = (Vec::new(), None);
    while let Some(chunk) = soon(snapshots[0].message()).await.expect("it goes on") {
        let here = chunk.blob.len() as u64;
        assert!(left.is_none_or(|left| left == here + chunk.remaining_bytes), "{left:?}");
        left = Some(chunk.remaining_bytes);
        file.extend_from_slice(&chunk.blob);
    }
    assert_eq!(left, Some(0));
    let (database, sum) = file.split_at(file.len() - 32);
    assert_eq!(database.len() % 4_096, 0);
    assert_eq!(Sha256::digest(database).as_slice(), sum);
    assert!(database.len() > 8 << 20, "all values are in it");
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_that_takes_nothing_loses_its_snapshot() {
    let tuning = Tuning { body_patience: Duration::from_millis(500), ..Tuning::default() };
    let world = world_with(1, &NodeConfig::new(0), tuning).await;
    fill(&world).await;
    let channel = slow(&world).await;
    let mut stalled = Vec::new();
    // As many as want one, whether or not those before have been cut off already.
    while stalled.len() < 2 * AT_ONCE {
        match snapshot(&channel).await {
            Ok(stream) => stalled.push(stream),
            Err(refused) => assert_eq!(refused.code(), Code::Unavailable, "{refused:?}"),
        }
    }
    // None of those before can have been sent to its end.
    for stream in &mut stalled[..AT_ONCE] {
        let end = soon(async {
            loop {
                match stream.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(status) => return Some(status),
                }
            }
        });
        assert!(end.await.is_some(), "it must not look whole");
    }
}
