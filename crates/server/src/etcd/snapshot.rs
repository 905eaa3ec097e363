//! Snapshot: all keys and leases, as a database of etcd.

use bytes::Bytes;
use fencepost_core::range::{KeyRange, PageQuery};
use fencepost_core::{Key, LeaseId, State};
use fencepost_proto::etcd::etcdserverpb as pb;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::bolt::{self, Pair};
use super::{EtcdDoor, header, refuse, show};
use crate::error::{Failure, Wrong};
use crate::grpc::Answers;

/// Bytes of one message, and how many of them wait for the client.
const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS_AHEAD: usize = 4;

/// Buckets that etcd expects to find, whatever is in them.
const EMPTY_BUCKETS: [&str; 6] =
    ["alarm", "auth", "authRoles", "authUsers", "members", "members_removed"];

impl EtcdDoor {
    /// A snapshot of this moment.
    pub(super) async fn snapshot_now(&self) -> Result<Answers<pb::SnapshotResponse>, Failure> {
        // A member that follows may not have applied yet what was answered elsewhere.
        let (head, ()) = self.0.ask(false, |_| ()).await?;
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD);
        let (header, handle) = (header(head), self.0.handle.clone());
        // The disk is waited for and a file is built, so this is done beside the tasks.
        tokio::task::spawn_blocking(move || {
            let file = match handle.replica() {
                Ok(replica) => database(replica.machine.state()),
                Err(why) => {
                    let failure = Failure::from(Wrong::NoBackup(why.to_string()));
                    // The client may have gone.
                    drop(sender.blocking_send(Err(refuse::status(&failure))));
                    return;
                }
            };
            let mut rest = Bytes::from(file);
            while !rest.is_empty() {
                let blob = rest.split_to(rest.len().min(CHUNK_BYTES));
                let remaining_bytes = rest.len() as u64;
                let chunk = pb::SnapshotResponse { header: Some(header), remaining_bytes, blob };
                if sender.blocking_send(Ok(chunk)).is_err() {
                    return;
                }
            }
        });
        Ok(Box::pin(ReceiverStream::new(chunks)))
    }
}

/// A database, and behind it the sum that whoever saves it checks.
fn database(state: &State) -> Vec<u8> {
    let mut buckets = vec![("key", keys(state)), ("lease", leases(state)), ("meta", meta())];
    buckets.extend(EMPTY_BUCKETS.map(|name| (name, Vec::new())));
    let mut file = bolt::database(&buckets);
    let sum = Sha256::digest(&file);
    file.extend_from_slice(&sum);
    file
}

/// etcd keeps a key under the revision of its last write: `revision_place`, each of eight bytes.
fn keys(state: &State) -> Vec<Pair> {
    let range = KeyRange::From(Key::default());
    let (limit, bytes_max) = (usize::MAX, usize::MAX);
    let everything = PageQuery { range, after: None, limit, bytes_max, keys_only: false };
    let mut kvs = state.page(&everything).kvs;
    kvs.sort_by(|a, b| (a.mod_revision, &a.key).cmp(&(b.mod_revision, &b.key)));
    let (mut last, mut place) = (0, 0_u64);
    let pair = |kv: &fencepost_core::event::KeyValue| {
        place = if kv.mod_revision.0 == last { place + 1 } else { 0 };
        last = kv.mod_revision.0;
        let key = [&last.to_be_bytes()[..], b"_", &place.to_be_bytes()].concat();
        (key, show::key_value(kv).encode_to_vec())
    };
    kvs.iter().map(pair).collect()
}

/// A lease as etcd keeps it.
#[derive(prost::Message)]
struct Lease {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    ttl: i64,
}

fn leases(state: &State) -> Vec<Pair> {
    let all = state.leases(LeaseId(0), usize::MAX);
    let pair = |lease: &fencepost_core::query::LeaseInfo| {
        let kept = Lease { id: lease.id.0, ttl: super::leases::secs(lease.granted_ttl) };
        (lease.id.0.to_be_bytes().to_vec(), kept.encode_to_vec())
    };
    all.iter().map(pair).collect()
}

/// How far the log was applied: not at all, because the log is not part of it.
fn meta() -> Vec<Pair> {
    vec![(b"consistent_index".to_vec(), 0_u64.to_be_bytes().to_vec())]
}
