//! The same random requests to a real etcd and to this server must have the same answers.
//!
//! Compared are all fields but those that name the cluster, its members and its terms, and the time
//! that a lease has left.

use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::kv_client::KvClient;
use fencepost_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use fencepost_proto::etcd::etcdserverpb::watch_client::WatchClient;
use fencepost_proto::etcd::mvccpb;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::generate::{Ask, Dice, ask};
use crate::real::Etcd;
use crate::support::{channel, soon, world};

/// Requests of one run. A longer run is made by setting this variable.
const REQUESTS: u64 = 20_000;
const REQUESTS_VARIABLE: &str = "FENCEPOST_DIFFERENTIAL_REQUESTS";
const SEED_VARIABLE: &str = "FENCEPOST_DIFFERENTIAL_SEED";

/// One of the two that are compared.
struct Side {
    keys: KvClient<Channel>,
    leases: LeaseClient<Channel>,
    watch: Streaming<pb::WatchResponse>,
    _requests: mpsc::Sender<pb::WatchRequest>,
}

/// An answer, with what may differ taken out.
#[derive(Clone, Debug, PartialEq)]
enum Told {
    Range(pb::RangeResponse),
    Put(pb::PutResponse),
    DeleteRange(pb::DeleteRangeResponse),
    Txn(pb::TxnResponse),
    Compact(pb::CompactionResponse),
    Grant(pb::LeaseGrantResponse),
    Revoke(pb::LeaseRevokeResponse),
    TimeToLive(pb::LeaseTimeToLiveResponse),
    Leases(Vec<i64>),
    Refused(Code, String),
}

fn plain(header: &mut Option<pb::ResponseHeader>) {
    if let Some(header) = header {
        *header = pb::ResponseHeader { revision: header.revision, ..Default::default() };
    }
}

fn plain_txn(told: &mut pb::TxnResponse) {
    use pb::response_op::Response;
    plain(&mut told.header);
    for response in &mut told.responses {
        match &mut response.response {
            Some(Response::ResponseRange(one)) => plain(&mut one.header),
            Some(Response::ResponsePut(one)) => plain(&mut one.header),
            Some(Response::ResponseDeleteRange(one)) => plain(&mut one.header),
            Some(Response::ResponseTxn(one)) => plain_txn(one),
            None => {}
        }
    }
}

fn refused(status: &Status) -> Told {
    Told::Refused(status.code(), status.message().to_owned())
}

/// Calls, takes out what may differ, and gives it its name.
macro_rules! call {
    ($call:expr, $name:ident, $plain:expr) => {
        match $call.await {
            Ok(told) => {
                let mut told = told.into_inner();
                $plain(&mut told);
                Told::$name(told)
            }
            Err(status) => refused(&status),
        }
    };
}

impl Side {
    async fn new(channel: Channel) -> Side {
        let (requests, sent) = mpsc::channel(4);
        let create = pb::WatchCreateRequest {
            key: bytes::Bytes::from_static(b"\0"),
            range_end: bytes::Bytes::from_static(b"\0"),
            prev_kv: true,
            ..Default::default()
        };
        let request_union = Some(pb::watch_request::RequestUnion::CreateRequest(create));
        requests.send(pb::WatchRequest { request_union }).await.expect("it is there");
        let mut watches = WatchClient::new(channel.clone());
        let watch = watches.watch(ReceiverStream::new(sent)).await.expect("it is answered");
        let mut watch = watch.into_inner();
        let created = soon(watch.message()).await.expect("it goes on").expect("it is created");
        assert!(created.created);
        let keys = KvClient::new(channel.clone());
        Side { keys, leases: LeaseClient::new(channel), watch, _requests: requests }
    }

    async fn ask(&mut self, ask: Ask) -> Told {
        match ask {
            Ask::Range(one) => {
                call!(self.keys.range(one), Range, |told: &mut pb::RangeResponse| plain(
                    &mut told.header
                ))
            }
            Ask::Put(one) => {
                call!(self.keys.put(one), Put, |told: &mut pb::PutResponse| plain(&mut told.header))
            }
            Ask::DeleteRange(one) => {
                call!(
                    self.keys.delete_range(one),
                    DeleteRange,
                    |told: &mut pb::DeleteRangeResponse| plain(&mut told.header)
                )
            }
            Ask::Txn(one) => call!(self.keys.txn(one), Txn, plain_txn),
            Ask::Compact(one) => {
                call!(self.keys.compact(one), Compact, |told: &mut pb::CompactionResponse| plain(
                    &mut told.header
                ))
            }
            Ask::Grant(one) => {
                call!(self.leases.lease_grant(one), Grant, |told: &mut pb::LeaseGrantResponse| {
                    plain(&mut told.header)
                })
            }
            Ask::Revoke(one) => {
                call!(
                    self.leases.lease_revoke(one),
                    Revoke,
                    |told: &mut pb::LeaseRevokeResponse| plain(&mut told.header)
                )
            }
            Ask::TimeToLive(one) => {
                call!(
                    self.leases.lease_time_to_live(one),
                    TimeToLive,
                    |told: &mut pb::LeaseTimeToLiveResponse| {
                        plain(&mut told.header);
                        told.ttl = told.ttl.signum();
                        told.keys.sort();
                    }
                )
            }
            Ask::Leases => match self.leases.lease_leases(pb::LeaseLeasesRequest {}).await {
                Ok(told) => {
                    let mut leases: Vec<i64> =
                        told.into_inner().leases.iter().map(|lease| lease.id).collect();
                    leases.sort_unstable();
                    Told::Leases(leases)
                }
                Err(status) => refused(&status),
            },
        }
    }

    async fn revision(&mut self) -> i64 {
        let range = pb::RangeRequest { key: "a".into(), ..Default::default() };
        let told = self.keys.range(range).await.expect("it is answered").into_inner();
        told.header.expect("it has a header").revision
    }

    /// All events up to this revision, whole revisions in one answer.
    async fn events(&mut self, upto: i64) -> Vec<mvccpb::Event> {
        let mut events: Vec<mvccpb::Event> = Vec::new();
        let mut reached = 1;
        while reached < upto {
            let told = soon(self.watch.message()).await.expect("it goes on").expect("it goes on");
            assert!(!told.canceled, "{told:?}");
            let first = told.events.first().map_or(reached + 1, at);
            assert!(first > reached, "a revision came in two answers: {told:?}");
            reached = told.events.last().map_or(reached, at).max(reached);
            events.extend(told.events);
        }
        events
    }
}

fn at(event: &mvccpb::Event) -> i64 {
    event.kv.as_ref().map_or(0, |kv| kv.mod_revision)
}

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_requests_have_the_same_answers_as_from_etcd() {
    let Some(etcd) = Etcd::start().await else { return };
    let world = world(1).await;
    let mut theirs = Side::new(etcd.channel().await).await;
    let mut ours = Side::new(channel(&world.servers[0]).await).await;
    let seed = variable(SEED_VARIABLE, 88_172_645_463_325_252);
    let mut dice = Dice(seed);
    let mut now = 1;
    for number in 0..variable(REQUESTS_VARIABLE, REQUESTS) {
        let ask = ask(&mut dice, now);
        let (expected, told) = tokio::join!(theirs.ask(ask.clone()), ours.ask(ask.clone()));
        assert_eq!(told, expected, "request {number} of seed {seed}: {ask:?}");
        if let Told::Put(pb::PutResponse { header: Some(header), .. })
        | Told::Txn(pb::TxnResponse { header: Some(header), .. })
        | Told::DeleteRange(pb::DeleteRangeResponse { header: Some(header), .. }) = &told
        {
            now = header.revision;
        }
    }
    let (expected, revision) = (theirs.revision().await, ours.revision().await);
    assert_eq!(revision, expected);
    let (expected, events) = tokio::join!(theirs.events(revision), ours.events(revision));
    assert_eq!(events.len(), expected.len());
    for (event, expected) in events.iter().zip(&expected) {
        assert_eq!(event, expected);
    }
}
