//! From what the node says to what the client is told.

use fencepost_core::command::LeaseRef;
use fencepost_core::outcome::{Denial, Place, RenewResult};
use fencepost_core::{Command, Outcome, Reason, Reply, Revision};
use fencepost_node::io::{Class, ProposeError, RequestId};
use fencepost_node::machine::Order;
use fencepost_node::shell::{Delivery, Found};
use fencepost_proto::v1;
use fencepost_proto::v1::session_acquired::State as Stage;
use fencepost_proto::v1::session_response::Response;

use super::turn::Say;
use super::{Answered, Kind, Open, OpenAcquire, Session, State, number};
use crate::error::Failure;
use crate::house::unexpected;
use crate::outbox::Item;
use crate::pending::Verdict;
use crate::reads::{self, Read};
use crate::watch::Look;
use crate::{parse, show};

/// Where answers go: each becomes a message as it is told.
struct Told<'a, 'b> {
    session: &'a Session,
    say: &'a mut Say<'b>,
}

impl Told<'_, '_> {
    fn push(&mut self, (request_id, answer): (u64, Answered)) {
        (self.say)(self.session.response(request_id, answer));
    }

    fn extend(&mut self, answers: impl IntoIterator<Item = (u64, Answered)>) {
        answers.into_iter().for_each(|answer| self.push(answer));
    }
}

impl Session {
    /// Turns one item into messages.
    pub(super) fn answer(&self, item: Item, say: &mut Say<'_>) {
        let mut state = self.state();
        let mut told = Told { session: self, say };
        match item {
            Item::Response(mut response) => {
                response.header.get_or_insert_with(|| self.header());
                (told.say)(*response);
            }
            Item::Delivery(request, delivery) => {
                self.delivered(&mut state, request, delivery, &mut told);
            }
            Item::Verdict(request, verdict) => {
                told.extend(self.decided(&mut state, request, &verdict));
            }
            Item::Place(request, place) => {
                told.extend(self.moved_up(&mut state, request, &place));
            }
            Item::Signed(request, signed) => told.extend(self.signed(&mut state, request, *signed)),
            Item::Events(events) => told.extend(self.watched(&mut state, &events)),
            Item::WatchCut(watch, resume) => {
                told.extend(self.watch_cut(&mut state, watch, resume));
            }
            Item::WatchBehind(watch, cursor) => self.look_again(&mut state, watch, cursor),
            Item::Progress(watch, at) => told.extend(self.progressed(&state, watch, at)),
            // A session never asks for it.
            Item::Mark(_) => {}
        }
        self.end_if_done(&state);
    }

    /// A client that sends nothing more and waits for nothing is done.
    pub(super) fn end_if_done(&self, state: &State) {
        if state.is_done && state.open.is_empty() && state.watches.is_empty() {
            self.outbox.finish(None);
        }
    }

    fn delivered(
        &self,
        state: &mut State,
        request: RequestId,
        delivery: Delivery,
        told: &mut Told<'_, '_>,
    ) {
        let Some(open) = state.open.remove(&number(request)) else { return };
        if let Kind::Look(watch) = open.kind {
            let found = match delivery {
                Delivery::Found(found) => found.and_then(look),
                Delivery::Answer(Err(why)) => Err(why),
                _ => Err(ProposeError::NoLeader),
            };
            told.extend(self.looked(state, watch, found));
            return;
        }
        let reply = match delivery {
            Delivery::Answer(Ok(reply)) => reply,
            Delivery::Answer(Err(why)) | Delivery::Found(Err(why)) => {
                told.push(self.close(state, open, Err(why.into())));
                return;
            }
            Delivery::Found(Ok(found)) => {
                let answer = self.found(&open.kind, found);
                told.push(self.close(state, open, answer));
                return;
            }
            Delivery::Changed(_) | Delivery::Saved(_) => {
                told.push(self.close(state, open, Err(unexpected())));
                return;
            }
        };
        if let Kind::Acquire(_) = open.kind {
            self.acquired(state, request, open, reply, told);
            return;
        }
        if let Kind::DeleteRange(_) = open.kind {
            told.extend(self.deleted(state, open, reply));
            return;
        }
        let answer = self.done(state, &open.kind, reply);
        told.push(self.close(state, open, answer));
    }

    /// The reply to a removal. If more of the range is left, the next command follows.
    fn deleted(&self, state: &mut State, mut open: Open, reply: Reply) -> Option<(u64, Answered)> {
        let header = self.header_at(reply.revision);
        let Kind::DeleteRange(deletion) = &mut open.kind else { return None };
        let answer = match deletion.take(reply.outcome) {
            Ok(true) => Ok((header, Response::Deleted(deletion.show()))),
            Err(failure) => Err(failure),
            Ok(false) => {
                let request = self.line.draw();
                let order = Order::from(Command::from(deletion.action()));
                match self.line.propose(request, Class::Ordinary, order) {
                    Ok(()) => {
                        state.open.insert(number(request), open);
                        return None;
                    }
                    Err(why) => Err(deletion.failed(why.into())),
                }
            }
        };
        Some(self.close(state, open, answer))
    }

    /// The last answer of a request.
    pub(super) fn close(&self, state: &mut State, open: Open, answer: Answered) -> (u64, Answered) {
        state.in_use.remove(&open.request_id);
        let code = answer.as_ref().map_or_else(|failure| failure.code, |_| "ok");
        self.house.metrics.request(open.kind.name(), code);
        if let Kind::Acquire(acquire) = open.kind {
            self.house.pending().forget(&acquire.ticket);
        }
        (open.request_id, answer)
    }

    fn found(&self, kind: &Kind, found: Found) -> Answered {
        let found = found.downcast::<Read>().map_err(|_| unexpected())?;
        let header = self.header_at(found.revision());
        let response = match (*found, kind) {
            (Read::Lock(_, now, view), Kind::GetLock) => {
                let lock = Some(show::lock(&view, now));
                Response::Lock(v1::GetLockResponse { header: None, lock })
            }
            (Read::Range(_, answer), Kind::Range) => Response::Range(reads::show_range(&answer)),
            _ => return Err(unexpected()),
        };
        Ok((header, response))
    }

    /// The answer to a command that is done at once.
    fn done(&self, state: &mut State, kind: &Kind, reply: Reply) -> Answered {
        let header = self.header_at(reply.revision);
        let response = match (kind, reply.outcome) {
            // What is not held cannot be given back, and that does no harm.
            (Kind::Release, Outcome::Rejected(Reason::NotHolder | Reason::TokenMismatch(..))) => {
                released(false)
            }
            (_, Outcome::Rejected(reason)) => return Err(reason.into()),
            (Kind::LeaseGrant { revoke }, Outcome::LeaseGranted(granted)) => {
                let lease = LeaseRef { id: granted.id, epoch: granted.epoch };
                self.name_lease(state, lease, Some(*revoke), None);
                let mut shown = show::lease_granted(header.clone(), &granted);
                shown.header = None;
                Response::LeaseGranted(shown)
            }
            (Kind::Renew, Outcome::LeasesRenewed(renewed)) => {
                let gone = renewed.iter().filter(|one| one.result == RenewResult::Gone);
                let gone = gone.inspect(|one| self.unname_lease(state, one.id)).count() as u64;
                self.house.metrics.renewed(renewed.len() as u64 - gone, gone);
                let renewed = renewed.iter().map(|one| show::renewed(None, one)).collect();
                Response::Renewed(v1::RenewedMany { renewed })
            }
            (Kind::LeaseRevoke(lease), Outcome::LeaseRevoked(keys)) => {
                self.unname_lease(state, *lease);
                Response::LeaseRevoked(v1::LeaseRevokeResponse { header: None, keys })
            }
            (Kind::Cancel, Outcome::Ended(cause)) => {
                Response::Acquired(show::ended(show::cause(cause)))
            }
            // There was nothing left to end.
            (Kind::Cancel, Outcome::NotFound) => Response::Acquired(show::ended("")),
            (Kind::Release, Outcome::Released) => released(true),
            (Kind::Release, Outcome::NotFound) => released(false),
            (Kind::Put, outcome) => {
                let prev_kv = parse::put_outcome(outcome)?.as_deref().map(show::key_val);
                Response::Put(v1::PutResponse { header: None, prev_kv })
            }
            _ => return Err(unexpected()),
        };
        Ok((header, response))
    }

    /// The reply to an acquire. If it waits, it stays open.
    fn acquired(
        &self,
        state: &mut State,
        request: RequestId,
        mut open: Open,
        reply: Reply,
        told: &mut Told<'_, '_>,
    ) {
        let Kind::Acquire(acquire) = &mut open.kind else { return };
        let mut token = None;
        let shown = match reply.outcome {
            Outcome::Queued(place) | Outcome::Reserved(place) => {
                acquire.told = Some((place.position, place.holder.clone()));
                let queued = Response::Acquired(show::queued(&place));
                let header = self.header_at(reply.revision);
                told.push((open.request_id, Ok((header, queued))));
                let verdict = self.house.pending().queued(&acquire.ticket, reply.revision);
                state.open.insert(number(request), open);
                if let Some(verdict) = verdict {
                    told.extend(self.decided(state, request, &verdict));
                }
                return;
            }
            Outcome::Acquired(grant) => {
                token = Some(grant.token);
                held(acquire, Stage::Acquired, &grant)
            }
            Outcome::Renewed(grant) => {
                token = Some(grant.token);
                held(acquire, Stage::Renewed, &grant)
            }
            Outcome::AcquiredMany(many) => {
                token = Some(many.token);
                held(acquire, Stage::Acquired, &grant_of(acquire, many.token, many.remaining))
            }
            Outcome::Denied(denial) => denied(&denial),
            Outcome::Ended(cause) => show::ended(show::cause(cause)),
            Outcome::Rejected(reason) => {
                told.push(self.close(state, open, Err(reason.into())));
                return;
            }
            _ => {
                told.push(self.close(state, open, Err(unexpected())));
                return;
            }
        };
        let header = self.header_at(reply.revision);
        told.extend(self.end_acquire(state, request, open, header, shown, token));
    }

    /// How a wait stands. It is told only if that is news.
    fn moved_up(
        &self,
        state: &mut State,
        request: RequestId,
        place: &Place,
    ) -> Option<(u64, Answered)> {
        let open = state.open.get_mut(&number(request))?;
        let Kind::Acquire(acquire) = &mut open.kind else { return None };
        let news = (place.position, place.holder.clone());
        if acquire.told.replace(news.clone()) == Some(news) {
            return None;
        }
        let queued = Response::Acquired(show::queued(place));
        Some((open.request_id, Ok((self.header(), queued))))
    }

    /// A wait has ended.
    fn decided(
        &self,
        state: &mut State,
        request: RequestId,
        verdict: &Verdict,
    ) -> Option<(u64, Answered)> {
        let mut open = state.open.remove(&number(request))?;
        let Kind::Acquire(acquire) = &mut open.kind else { return None };
        let mut granted = None;
        let shown = match verdict {
            Verdict::Granted { token, remaining } => {
                granted = Some(*token);
                held(acquire, Stage::Acquired, &grant_of(acquire, *token, *remaining))
            }
            Verdict::Ended(cause) => show::ended(show::cause(*cause)),
            Verdict::Gone => {
                if acquire.command.is_some() {
                    return self.acquire_again(state, open);
                }
                show::ended("unknown")
            }
        };
        self.end_acquire(state, request, open, self.header(), shown, granted)
    }

    /// What became of a wait was not seen. The answer that the state has kept says it.
    fn acquire_again(&self, state: &mut State, mut open: Open) -> Option<(u64, Answered)> {
        let Kind::Acquire(acquire) = &mut open.kind else { return None };
        let bytes = acquire.command.clone()?;
        let request = self.line.draw();
        let key = parse::contender_key(acquire.names.first()?, acquire.lease);
        let outbox = std::sync::Arc::clone(&self.outbox);
        let postbox = crate::house::Postbox::Stream(outbox, request);
        acquire.ticket = self.house.pending().register(key, postbox);
        match self.line.propose(request, Class::Ordinary, bytes) {
            Ok(()) => {
                state.open.insert(number(request), open);
                None
            }
            // It waited, so the acquire itself was done; what came of it is not known.
            Err(_) => {
                let failure = Failure::from(ProposeError::Indeterminate);
                Some(self.close(state, open, Err(failure)))
            }
        }
    }
}

fn look(found: Found) -> Result<Look, ProposeError> {
    found.downcast::<Look>().map(|found| *found).map_err(|_| ProposeError::Malformed)
}

fn released(released: bool) -> Response {
    Response::Released(v1::UnlockResponse { header: None, released })
}

fn grant_of(
    acquire: &OpenAcquire,
    token: fencepost_core::Token,
    remaining: fencepost_core::Millis,
) -> fencepost_core::outcome::Grant {
    let key = acquire.names.first().map(|name| parse::contender_key(name, acquire.lease));
    let key = key.unwrap_or_default();
    fencepost_core::outcome::Grant { key, token, lease: acquire.lease, remaining }
}

fn held(
    acquire: &OpenAcquire,
    stage: Stage,
    grant: &fencepost_core::outcome::Grant,
) -> v1::SessionAcquired {
    let keys = match &*acquire.names {
        [_] => vec![show::text(&grant.key)],
        names => {
            let keys = names.iter().map(|name| parse::contender_key(name, acquire.lease));
            keys.map(|key| show::text(&key)).collect()
        }
    };
    v1::SessionAcquired {
        state: stage.into(),
        keys,
        fencing_token: show::signed(grant.token.0),
        remaining_ms: show::millis(grant.remaining),
        ..v1::SessionAcquired::default()
    }
}

fn denied(denial: &Denial) -> v1::SessionAcquired {
    let mut shown =
        v1::SessionAcquired { state: Stage::Denied.into(), ..v1::SessionAcquired::default() };
    match denial {
        Denial::Held(client) => shown.holder = client.as_str().to_owned(),
        Denial::Delayed(_) => shown.cause = "delayed".to_owned(),
        Denial::NotOwner => {}
    }
    shown
}

impl Read {
    fn revision(&self) -> Revision {
        match self {
            Read::Lock(revision, ..) | Read::Range(revision, _) => *revision,
        }
    }
}
