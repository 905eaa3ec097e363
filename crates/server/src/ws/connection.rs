//! One WebSocket, from its first message to its end.
//!
//! Guarantees: what waits for a lock waits without holding up other requests; a request of one owner
//! for one lock is not overtaken by its next one; a client that is gone, silent or too slow to read
//! is cut off, and what it waited for is given up. What it holds stays until its TTL is over.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use fencepost_core::query::Sight;
use fencepost_core::range::{KeyRange, RangeQuery};
use fencepost_node::io::ChangeError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::answer;
use super::partial::PartialMessage;
use super::request::{Asked, Label, Request};
use crate::arrival::Arrivals;
use crate::error::{Failure, Wrong};
use crate::grpc::members;
use crate::house::House;
use crate::limits;
use crate::owners::{self, Ask, Taken, Turns};
use crate::parse;
use crate::serve::Tuning;

/// The longest reason that fits into the frame which ends a connection.
const REASON_BYTES_MAX: usize = 123;

/// How long a client may take to agree that it is over.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// An answer on its way out.
struct Outgoing {
    text: String,
    taken: Taken,
}

/// Talks with a client until one of both ends it.
pub(super) async fn converse(
    house: Arc<House>,
    socket: WebSocket,
    (arrivals, partial): (Arrivals, Arc<PartialMessage>),
    tuning: Tuning,
    only_leader: bool,
) {
    let (sender, answers) = mpsc::channel(limits::WS_ANSWERS_MAX);
    let mut talk = Talk {
        wire: Wire { socket, patience: tuning.answer_patience },
        requests: Requests {
            house,
            arrivals,
            sender,
            tasks: JoinSet::new(),
            turns: Turns::default(),
        },
        only_leader,
        partial,
        was_heard: true,
        has_asked: false,
    };
    let end = talk.run(answers, &tuning).await;
    let Talk { mut wire, requests, .. } = talk;
    // With the tasks end the waits: their places are given up.
    drop(requests);
    match end {
        End::Cut => {}
        End::Closed => wire.hear_out().await,
        End::Close(code, reason) => {
            wire.close(code, reason).await;
            wire.hear_out().await;
        }
    }
}

/// How a connection ends.
enum End {
    /// There is nobody to be told.
    Cut,
    /// The client has closed it.
    Closed,
    /// The client is told why.
    Close(u16, String),
}

struct Talk {
    wire: Wire,
    requests: Requests,
    only_leader: bool,
    partial: Arc<PartialMessage>,
    /// Whether the client has said anything since it was asked whether it is there.
    was_heard: bool,
    /// Whether the client has asked for anything since that was looked at last.
    has_asked: bool,
}

impl Talk {
    async fn run(&mut self, mut answers: mpsc::Receiver<Outgoing>, tuning: &Tuning) -> End {
        let house = Arc::clone(&self.requests.house);
        let mut changes = house.head.changes();
        let closed = house.closed();
        let late = late(Arc::clone(&self.partial), tuning.body_patience);
        let idle = tokio::time::sleep(tuning.idle_patience);
        tokio::pin!(closed, late, idle);
        let mut pings = tokio::time::interval(tuning.ping_interval);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        if self.only_leader && !self.leads() {
            return self.send_away().await;
        }
        loop {
            tokio::select! {
                heard = self.wire.socket.recv() => match heard {
                    Some(Ok(Message::Close(_))) => return End::Closed,
                    Some(Ok(message)) => {
                        self.was_heard = true;
                        if !self.hear(message).await {
                            return End::Cut;
                        }
                    }
                    Some(Err(why)) => return End::Close(close_code::PROTOCOL, why.to_string()),
                    None => return End::Cut,
                },
                Some(Outgoing { text, taken }) = answers.recv() => {
                    if !self.wire.say(Message::text(text)).await {
                        return End::Cut;
                    }
                    taken.done();
                }
                Some(_) = self.requests.tasks.join_next() => {}
                () = &mut late => {
                    return End::Close(close_code::POLICY, Failure::from(Wrong::Unfinished).message);
                }
                () = &mut idle => {
                    if !self.has_asked && self.requests.tasks.is_empty() {
                        return End::Close(close_code::AWAY, Failure::from(Wrong::Idle).message);
                    }
                    self.has_asked = false;
                    idle.set(tokio::time::sleep(tuning.idle_patience));
                }
                _ = pings.tick() => {
                    if !self.was_heard {
                        tracing::debug!("a silent websocket is cut off");
                        return End::Cut;
                    }
                    self.was_heard = false;
                    if !self.wire.say(Message::Ping(Bytes::new())).await {
                        return End::Cut;
                    }
                }
                Ok(()) = changes.changed(), if self.only_leader => {
                    if !self.leads() {
                        return self.send_away().await;
                    }
                }
                () = &mut closed => {
                    let failure = Failure::from(Wrong::ShuttingDown);
                    return End::Close(close_code::AWAY, failure.message);
                }
            }
        }
    }

    fn leads(&self) -> bool {
        let house = &self.requests.house;
        house.head.leader() == Some(house.node.0)
    }

    /// Tells a client who wants the leader, and only it, where it is.
    async fn send_away(&mut self) -> End {
        let who = answer::who_leads(&self.requests.house);
        let failure = Failure::from(ChangeError::NotLeader { leader: None });
        match self.wire.say(Message::text(who)).await {
            true => End::Close(close_code::AGAIN, failure.message),
            false => End::Cut,
        }
    }

    /// Whether the connection goes on.
    async fn hear(&mut self, message: Message) -> bool {
        let bytes = match &message {
            Message::Text(text) => text.as_bytes(),
            Message::Binary(bytes) => bytes,
            // The socket would answer by itself, without waiting for the client to take the answer: a
            // client that sends pings and reads nothing could fill the memory with pongs.
            Message::Ping(payload) => {
                self.partial.end_control(payload.len());
                let pong = Message::Pong(payload.clone());
                return self.wire.say(pong).await;
            }
            Message::Pong(payload) => {
                self.partial.end_control(payload.len());
                return true;
            }
            // The end is seen above.
            Message::Close(_) => return true,
        };
        self.partial.end_message();
        self.has_asked = true;
        let Request { label, asked } = Request::read(bytes);
        let refused = match asked {
            Ok(asked) => self.requests.begin(&label, asked).err(),
            Err(failure) => Some(failure),
        };
        match refused {
            Some(failure) => {
                self.requests.house.metrics.request("websocket", failure.code);
                self.wire.say(Message::text(answer::failed(&label, &failure))).await
            }
            None => true,
        }
    }
}

/// Waits until a message was received in part for so long, up to twice as long.
async fn late(partial: Arc<PartialMessage>, patience: Duration) {
    let mut before = None;
    loop {
        tokio::time::sleep(patience).await;
        let begun = partial.begun_behind();
        if begun.is_some() && begun == before {
            return;
        }
        before = begun;
    }
}

/// The socket, and how long the client may take to read from it.
struct Wire {
    socket: WebSocket,
    patience: Duration,
}

impl Wire {
    /// Whether it was sent.
    async fn say(&mut self, message: Message) -> bool {
        let sent = tokio::time::timeout(self.patience, self.socket.send(message)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// Lets both ends agree that it is over, so that the client does not take it for a fault.
    async fn hear_out(&mut self) {
        let heard = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        // Whoever does not agree is cut off.
        drop(tokio::time::timeout(CLOSE_PATIENCE, heard).await);
    }

    async fn close(&mut self, code: u16, mut reason: String) {
        let fits = (0..=REASON_BYTES_MAX.min(reason.len())).rev();
        let end = fits.into_iter().find(|&end| reason.is_char_boundary(end)).unwrap_or_default();
        reason.truncate(end);
        self.say(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    }
}

/// The requests of one connection that are open.
struct Requests {
    house: Arc<House>,
    arrivals: Arrivals,
    sender: mpsc::Sender<Outgoing>,
    tasks: JoinSet<()>,
    turns: Turns,
}

impl Requests {
    /// Begins one, unless too many are open.
    fn begin(&mut self, label: &Label, asked: Asked) -> Result<(), Failure> {
        if self.tasks.len() >= limits::WS_REQUESTS_MAX {
            return Err(Wrong::TooMuchOpen("requests", limits::WS_REQUESTS_MAX).into());
        }
        let (house, label) = (Arc::clone(&self.house), label.clone());
        let (sender, arrival) = (self.sender.clone(), self.arrivals.next());
        match asked {
            Asked::Lock(Ask::Release(release)) if label.id.is_none() => {
                let turn = self.turns.next(Ask::Release(release.clone()).pair());
                self.go_on(async move {
                    owners::release_silently(&house, release, &arrival, turn).await;
                });
            }
            Asked::Lock(ask) => {
                let turn = self.turns.next(ask.pair());
                let waits = matches!(ask, Ask::Acquire(_));
                let work = async move {
                    let is_release = matches!(ask, Ask::Release(_));
                    let answer = owners::serve(&house, ask, Some(&arrival), turn).await;
                    let told = answer.told.and_then(|(_, told)| told.or_failure(is_release));
                    let told = told.map(|told| answer::lock(&label, told));
                    tell(&house, &sender, &label, told, answer.taken).await;
                };
                match waits {
                    true => drop(self.tasks.spawn(work)),
                    false => self.go_on(work),
                }
            }
            other => self.go_on(async move {
                let told = ask_cluster(&house, &label, other).await;
                tell(&house, &sender, &label, told, Taken::default()).await;
            }),
        }
        Ok(())
    }

    /// Does something that is done to its end, whether or not the connection lasts: a client may say
    /// that it gives a lock back, and go.
    fn go_on(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        let work = tokio::spawn(work);
        self.tasks.spawn(async move { drop(work.await) });
    }
}

/// Has everything done that is not about a lock.
async fn ask_cluster(house: &House, label: &Label, asked: Asked) -> Result<String, Failure> {
    match asked {
        Asked::Append(put) => {
            let (header, _) = house.act(parse::plain_put(house, put)).await?;
            Ok(answer::appended(label, &header))
        }
        Asked::Read(key) => {
            let query = RangeQuery::from(KeyRange::One(key));
            let ask = house.ask(false, move |state| state.range(&query));
            let (header, found) = ask.await?;
            Ok(answer::read(label, &header, found.kvs.first()))
        }
        Asked::Show(name, token) => {
            let sight = Sight { holders_max: usize::MAX, waiters_max: 0, metadata_bytes_max: 0 };
            let ask = house.ask(false, move |state| (state.now(), state.look(&name, &sight)));
            let (_, (now, view)) = ask.await?;
            Ok(answer::shown(label, &view, now, token))
        }
        Asked::Change(change) => Ok(answer::changed(label, &members::change(house, change).await?)),
        Asked::Peers | Asked::Lock(_) => Ok(answer::peers(label, house)),
    }
}

/// Puts an answer on its way.
async fn tell(
    house: &House,
    sender: &mpsc::Sender<Outgoing>,
    label: &Label,
    told: Result<String, Failure>,
    taken: Taken,
) {
    let code = told.as_ref().map_or_else(|failure| failure.code, |_| "ok");
    house.metrics.request("websocket", code);
    let text = told.unwrap_or_else(|failure| answer::failed(label, &failure));
    // The connection may have ended; then nobody was told.
    drop(sender.send(Outgoing { text, taken }).await);
}
