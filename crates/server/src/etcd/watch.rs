//! Watch: several watches on one stream.
//!
//! Guarantees: a watch is said to be created before its first event, and watches are said to be
//! created in the order in which they were asked for.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use fencepost_core::history::Watch;
use fencepost_core::range::KeyRange;
use fencepost_core::{Event, Key, Revision};
use fencepost_proto::etcd::etcdserverpb as pb;
use fencepost_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use fencepost_proto::etcd::etcdserverpb::watch_server::Watch as WatchService;
use prost::Message as _;
use tokio::sync::mpsc::{self, Sender};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::watching::{News, Reader};
use super::{Answer, EtcdDoor, refuse, show, wants_leader};
use crate::error::Failure;
use crate::grpc::Answers;
use crate::limits;
use crate::show::signed;
use crate::watch::Cursor;

/// Answers that may wait for the client to read them. Then its watches wait too, and go on from
/// the history.
const ANSWERS_MAX: usize = 16;
/// A watch that is not there.
const NO_WATCH: i64 = -1;
/// How large an answer may be before it is sent in parts, if that was asked for.
const FRAGMENT_BYTES: usize = 1 << 20;

#[tonic::async_trait]
impl WatchService for EtcdDoor {
    type WatchStream = Answers<pb::WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Answer<Self::WatchStream> {
        self.check_leader(&request)?;
        let wants_leader = wants_leader(&request);
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        let stream = Stream {
            door: self.clone(),
            reader: Reader::new(&self.0),
            watches: HashMap::new(),
            numbers: BTreeMap::new(),
            next_id: 0,
            behind: VecDeque::new(),
            asks_progress: false,
            answers,
        };
        tokio::spawn(stream.serve(request.into_inner(), wants_leader));
        Ok(Response::new(Box::pin(ReceiverStream::new(answered))))
    }
}

/// The watches of one stream.
struct Stream {
    door: EtcdDoor,
    reader: Reader,
    /// By their numbers in this process.
    watches: HashMap<u64, Watching>,
    /// Their numbers, by the ids that the client knows.
    numbers: BTreeMap<i64, u64>,
    next_id: i64,
    /// Those that look at the history, each from where.
    behind: VecDeque<(u64, Option<Cursor>)>,
    /// The client wants to know how far all are, which is told when none is behind.
    asks_progress: bool,
    answers: Sender<Result<pb::WatchResponse, Status>>,
}

struct Watching {
    id: i64,
    shows_prev: bool,
    fragment: bool,
}

/// The stream is over, and why, if the client is to hear it.
struct Over(Option<Status>);

impl Stream {
    async fn serve(mut self, mut requests: Streaming<pb::WatchRequest>, wants_leader: bool) {
        let idle_timeout = self.door.0.idle_patience;
        let idle = tokio::time::sleep(idle_timeout);
        tokio::pin!(idle);
        loop {
            let step = tokio::select! {
                biased;
                () = self.answers.closed() => return,
                () = self.door.0.closed() => {
                    Err(Over(Some(Status::unavailable("etcdserver: server stopped"))))
                }
                () = self.door.leaderless(), if wants_leader => {
                    Err(Over(Some(refuse::no_leader())))
                }
                request = requests.next() => match request {
                    Some(Ok(request)) => {
                        idle.set(tokio::time::sleep(idle_timeout));
                        self.hear(request).await
                    }
                    Some(Err(status)) => Err(Over(Some(status))),
                    None => Err(Over(None)),
                },
                news = self.reader.next() => match news {
                    Some(news) => self.tell(news).await,
                    None => Err(Over(Some(Status::unavailable("etcdserver: server stopped")))),
                },
                () = std::future::ready(()), if !self.behind.is_empty() => self.catch_up().await,
                // A stream without watches must not keep its connection from counting as idle.
                () = &mut idle => {
                    idle.set(tokio::time::sleep(idle_timeout));
                    if self.watches.is_empty() { Err(Over(Some(refuse::idle()))) } else { Ok(()) }
                }
            };
            if let Err(Over(status)) = step {
                if let Some(status) = status {
                    // The client may be gone.
                    drop(self.answers.send(Err(status)).await);
                }
                return;
            }
        }
    }

    async fn send(&self, response: pb::WatchResponse) -> Result<(), Over> {
        self.answers.send(Ok(response)).await.map_err(|_| Over(None))
    }

    async fn hear(&mut self, request: pb::WatchRequest) -> Result<(), Over> {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => self.cancel(cancel.watch_id).await,
            Some(RequestUnion::ProgressRequest(_)) => {
                self.asks_progress = true;
                self.ask_progress();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Asks how far all are, unless some are behind.
    fn ask_progress(&mut self) {
        if self.asks_progress && self.behind.is_empty() {
            self.asks_progress = false;
            self.reader.ask_progress();
        }
    }

    async fn create(&mut self, create: pb::WatchCreateRequest) -> Result<(), Over> {
        let id = match create.watch_id {
            0 => {
                while self.numbers.contains_key(&self.next_id) {
                    self.next_id += 1;
                }
                self.next_id
            }
            id => id,
        };
        let refusal = if self.numbers.contains_key(&id) {
            Some("mvcc: duplicate watch ID provided on the WatchStream")
        } else if self.reader.len() >= limits::WATCHES_MAX {
            Some("fencepost: too many watches on one stream")
        } else if is_empty(&create) {
            Some("mvcc: the range of the watch is empty")
        } else {
            None
        };
        if let Some(why) = refusal {
            return self
                .send(pb::WatchResponse {
                    header: Some(self.door.header_now()),
                    watch_id: NO_WATCH,
                    created: true,
                    canceled: true,
                    cancel_reason: why.to_owned(),
                    ..pb::WatchResponse::default()
                })
                .await;
        }
        if create.watch_id == 0 {
            self.next_id += 1;
        }
        let number = self.reader.add(wanted(&create), create.progress_notify);
        let (shows_prev, fragment) = (create.prev_kv, create.fragment);
        self.watches.insert(number, Watching { id, shows_prev, fragment });
        self.numbers.insert(id, number);
        self.begin(number).await
    }

    /// The first look says where the watch begins, so it comes before the watch is said to be
    /// created.
    async fn begin(&mut self, number: u64) -> Result<(), Over> {
        let Some(id) = self.watches.get(&number).map(|watching| watching.id) else { return Ok(()) };
        let found = self.look(number, None).await?;
        let Some(found) = found else { return Ok(()) };
        let created = pb::WatchResponse {
            header: Some(self.door.header_at(found.revision)),
            watch_id: id,
            created: true,
            ..pb::WatchResponse::default()
        };
        self.send(created).await?;
        self.looked(number, found).await
    }

    async fn look(
        &self,
        number: u64,
        cursor: Option<Cursor>,
    ) -> Result<Option<crate::watch::Look>, Over> {
        let looked = self.reader.look(number, cursor).await;
        looked.map_err(|failure: Failure| Over(Some(refuse::status(&failure))))
    }

    /// Lets one of those that are behind look again.
    async fn catch_up(&mut self) -> Result<(), Over> {
        let Some((number, cursor)) = self.behind.pop_front() else { return Ok(()) };
        if let Some(found) = self.look(number, cursor).await? {
            self.looked(number, found).await?;
        }
        self.ask_progress();
        Ok(())
    }

    async fn looked(&mut self, number: u64, found: crate::watch::Look) -> Result<(), Over> {
        if let Some(oldest) = found.compacted {
            let Some(watching) = self.drop_watch(number) else { return Ok(()) };
            return self
                .send(pb::WatchResponse {
                    header: Some(self.door.header_at(found.revision)),
                    watch_id: watching.id,
                    canceled: true,
                    compact_revision: signed(oldest.0),
                    cancel_reason: "etcdserver: mvcc: required revision has been compacted"
                        .to_owned(),
                    ..pb::WatchResponse::default()
                })
                .await;
        }
        self.tell_events(number, &found.events).await?;
        if !found.is_present {
            self.behind.push_back((number, Some(found.cursor)));
        }
        Ok(())
    }

    async fn cancel(&mut self, id: i64) -> Result<(), Over> {
        let number = self.numbers.get(&id).copied();
        let Some(watching) = number.and_then(|number| self.drop_watch(number)) else {
            return Ok(());
        };
        self.send(pb::WatchResponse {
            header: Some(self.door.header_now()),
            watch_id: watching.id,
            canceled: true,
            ..pb::WatchResponse::default()
        })
        .await
    }

    fn drop_watch(&mut self, number: u64) -> Option<Watching> {
        self.reader.end(number);
        self.behind.retain(|(one, _)| *one != number);
        let watching = self.watches.remove(&number)?;
        self.numbers.remove(&watching.id);
        Some(watching)
    }

    async fn tell(&mut self, news: News) -> Result<(), Over> {
        match news {
            News::Events(number, events) => self.tell_events(number, &events).await,
            News::Behind(number, cursor) => {
                self.behind.push_back((number, Some(cursor)));
                Ok(())
            }
            News::Progress(number, revision) => {
                let Some(watching) = self.watches.get(&number) else { return Ok(()) };
                self.tell_progress(watching.id, revision).await
            }
            News::Mark(revision) => self.tell_progress(NO_WATCH, revision).await,
        }
    }

    async fn tell_progress(&self, watch_id: i64, revision: Revision) -> Result<(), Over> {
        let header = Some(self.door.header_at(revision));
        self.send(pb::WatchResponse { header, watch_id, ..pb::WatchResponse::default() }).await
    }

    /// Tells events of whole revisions.
    async fn tell_events(&self, number: u64, events: &[Arc<Event>]) -> Result<(), Over> {
        let Some(watching) = self.watches.get(&number) else { return Ok(()) };
        let Some(last) = events.last() else { return Ok(()) };
        let shown = show::events(events, watching.shows_prev);
        let whole = pb::WatchResponse {
            header: Some(self.door.header_at(last.revision)),
            watch_id: watching.id,
            events: shown,
            ..pb::WatchResponse::default()
        };
        if !watching.fragment || whole.encoded_len() <= FRAGMENT_BYTES {
            return self.send(whole).await;
        }
        for part in parts(whole) {
            self.send(part).await?;
        }
        Ok(())
    }
}

/// An answer in parts; all but the last say that there is more.
fn parts(whole: pb::WatchResponse) -> Vec<pb::WatchResponse> {
    let empty = pb::WatchResponse { events: Vec::new(), ..whole.clone() };
    let mut parts = vec![empty.clone()];
    let mut bytes = 0;
    for event in whole.events {
        let len = event.encoded_len();
        if bytes > 0 && bytes + len > FRAGMENT_BYTES {
            parts.push(empty.clone());
            bytes = 0;
        }
        bytes += len;
        if let Some(part) = parts.last_mut() {
            part.events.push(event);
        }
    }
    let rest = parts.len() - 1;
    for part in &mut parts[..rest] {
        part.fragment = true;
    }
    parts
}

/// Whether no key can lie in the range.
fn is_empty(create: &pb::WatchCreateRequest) -> bool {
    let end = &create.range_end;
    !end.is_empty() && **end != [0] && *end <= create.key
}

fn wanted(create: &pb::WatchCreateRequest) -> Watch {
    use pb::watch_create_request::FilterType;
    let has = |filter: FilterType| create.filters.contains(&i32::from(filter));
    // No key at all means the first one.
    let key = if create.key.is_empty() { &b"\0"[..] } else { &*create.key };
    let range = match (&*create.key, &*create.range_end) {
        (b"", b"\0") => KeyRange::From(Key::default()),
        (_, end) => KeyRange::from_etcd(key, end),
    };
    let from = Revision(u64::try_from(create.start_revision).unwrap_or(0));
    Watch {
        no_put: has(FilterType::Noput),
        no_delete: has(FilterType::Nodelete),
        keys_only: true,
        prev: create.prev_kv,
        ..Watch::new(range, from)
    }
}

#[cfg(test)]
mod tests {
    use fencepost_proto::etcd::mvccpb;

    use super::*;

    #[test]
    fn a_large_answer_comes_in_parts_if_that_was_asked_for() {
        let value = bytes::Bytes::from(vec![7; FRAGMENT_BYTES / 2]);
        let kv = mvccpb::KeyValue { value, ..mvccpb::KeyValue::default() };
        let event = mvccpb::Event { kv: Some(kv), ..mvccpb::Event::default() };
        let events = vec![event; 5];
        let whole = pb::WatchResponse { watch_id: 3, events, ..pb::WatchResponse::default() };
        let parts = parts(whole);
        let lens: Vec<usize> = parts.iter().map(|part| part.events.len()).collect();
        assert_eq!(lens.iter().sum::<usize>(), 5);
        let more: Vec<bool> = parts.iter().map(|part| part.fragment).collect();
        assert!(more.iter().rev().skip(1).all(|&more| more) && !more[more.len() - 1]);
        assert!(parts.iter().all(|part| part.watch_id == 3));
    }
}
