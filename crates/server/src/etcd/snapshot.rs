//! Snapshot: all keys and leases, as a database of etcd.
//!
//! Guarantees: as many snapshots and backups are sent at once as there may be, and one of them is
//! made at a time; a client that does not read loses its turn. While it is sent, a snapshot is a file
//! on the disk: it takes memory only while it is made. Refuses: a snapshot that would take the disk
//! reserve.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};

use fencepost_core::range::{KeyRange, PageQuery};
use fencepost_core::{Key, LeaseId, State};
use fencepost_proto::etcd::etcdserverpb as pb;
use prost::Message as _;
use sha2::{Digest as _, Sha256};

use super::bolt::{Database, Pair};
use super::{EtcdDoor, header, refuse, show};
use crate::backups::{self, Chunks};
use crate::error::Failure;
use crate::grpc::Answers;
use crate::house::House;
use crate::limits;

/// Buckets that etcd expects to find, whatever is in them.
const EMPTY_BUCKETS: [&str; 6] =
    ["alarm", "auth", "authRoles", "authUsers", "members", "members_removed"];

impl EtcdDoor {
    /// A snapshot of this moment.
    pub(super) async fn snapshot_now(&self) -> Result<Answers<pb::SnapshotResponse>, Failure> {
        let turn = backups::turn(&self.0)?;
        // A member that follows may not have applied yet what was answered elsewhere.
        let (head, bytes) = self.0.ask(false, State::used_bytes).await?;
        backups::check_disk(&self.0, bytes)?;
        let header = header(head);
        Ok(backups::serve(
            &self.0,
            turn,
            move |house, chunks| send(house, header, chunks),
            |failure| refuse::status(&failure),
        ))
    }
}

/// Sends a database, and behind it the sum that its reader checks.
fn send(
    house: &House,
    header: pb::ResponseHeader,
    chunks: &Chunks<pb::SnapshotResponse>,
) -> Result<(), String> {
    let mut file = make(house, chunks)?;
    let told = |why: io::Error| why.to_string();
    let len = file.seek(io::SeekFrom::End(0)).map_err(told)?;
    file.rewind().map_err(told)?;
    let mut sum = Sha256::new();
    let mut left = len;
    loop {
        let mut blob = Vec::new();
        let most = limits::BACKUP_CHUNK_BYTES as u64;
        Read::by_ref(&mut file).take(most).read_to_end(&mut blob).map_err(told)?;
        sum.update(&blob);
        left = left.saturating_sub(blob.len() as u64);
        let is_last = left == 0 || blob.is_empty();
        let remaining_bytes = if is_last {
            blob.extend_from_slice(&sum.finalize_reset());
            0
        } else {
            left + Sha256::output_size() as u64
        };
        let chunk =
            pb::SnapshotResponse { header: Some(header), remaining_bytes, blob: blob.into() };
        if !chunks.send(chunk) || is_last {
            return Ok(());
        }
    }
}

/// A database of this moment, in a file without a name: the system removes it with its last user.
fn make(house: &House, chunks: &Chunks<pb::SnapshotResponse>) -> Result<File, String> {
    let _turn = chunks.wait_to_make(house)?;
    let file = backups::scratch_file(house).map_err(|why| why.to_string())?;
    let replica = house.handle.replica().map_err(|why| why.to_string())?;
    let written = write(replica.machine.state(), BufWriter::new(file));
    let file = written.and_then(|file| file.into_inner().map_err(io::IntoInnerError::into_error));
    file.map_err(|why| why.to_string())
}

fn write<W: Write + Seek>(state: &State, to: W) -> io::Result<W> {
    let mut database = Database::new(to)?;
    database.bucket("key", keys(state))?;
    database.bucket("lease", leases(state))?;
    database.bucket("meta", meta())?;
    for name in EMPTY_BUCKETS {
        database.bucket(name, Vec::new())?;
    }
    database.finish()
}

/// etcd keeps a key under the revision of its last write: `revision_place`, each of eight bytes.
/// Keys and values are shared with the state; only one of them at a time is copied.
fn keys(state: &State) -> impl Iterator<Item = Pair> {
    let range = KeyRange::From(Key::default());
    let (limit, bytes_max) = (usize::MAX, usize::MAX);
    let everything = PageQuery { range, after: None, limit, bytes_max, keys_only: false };
    let mut kvs = state.page(&everything).kvs;
    kvs.sort_by(|a, b| a.mod_revision.cmp(&b.mod_revision).then_with(|| a.key.cmp(&b.key)));
    let (mut last, mut place) = (0, 0_u64);
    kvs.into_iter().map(move |kv| {
        place = match kv.mod_revision.0.cmp(&last) {
            Ordering::Equal => place + 1,
            _ => 0,
        };
        last = kv.mod_revision.0;
        let key = [&last.to_be_bytes()[..], b"_", &place.to_be_bytes()].concat();
        (key, show::key_value(&kv).encode_to_vec())
    })
}

/// A lease as etcd keeps it.
#[derive(prost::Message)]
struct Lease {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    ttl: i64,
}

fn leases(state: &State) -> impl Iterator<Item = Pair> {
    let all = state.leases(LeaseId(0), usize::MAX);
    all.into_iter().map(|lease| {
        let kept = Lease { id: lease.id.0, ttl: super::leases::secs(lease.granted_ttl) };
        (lease.id.0.to_be_bytes().to_vec(), kept.encode_to_vec())
    })
}

/// How far the log was applied: not at all, because the log is not part of it.
fn meta() -> Vec<Pair> {
    vec![(b"consistent_index".to_vec(), 0_u64.to_be_bytes().to_vec())]
}
