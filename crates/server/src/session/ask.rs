//! What the frames of a stream ask for.

use fencepost_core::command::{Action, Caller, LeaseRef, Once};
use fencepost_core::{ClientId, Epoch, LeaseId, Reason, Seq};
use fencepost_node::io::{Class, ProposeError, RequestId};
use fencepost_node::machine::Order;
use fencepost_node::shell::{Freshness, Query};
use fencepost_proto::v1;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use super::repeat::with_repeat;
use super::{Kind, Open, OpenAcquire, Session, Signature, State, VERSION, number};
use crate::deletion::Deletion;
use crate::error::{Failure, Wrong};
use crate::house::{Postbox, command, freshness};
use crate::{booth, limits, parse, reads};

/// So much is worth a turn of the node by itself. Whoever brings it looks for more right after it.
const MANY: usize = 8;

/// What one turn wants of the node.
#[derive(Default)]
pub(super) struct Batch {
    ordinary: Vec<(RequestId, Order)>,
    renewals: Vec<(RequestId, Order)>,
    queries: Vec<(RequestId, Freshness, Query)>,
}

/// Whether the stream goes on.
pub(super) enum Next {
    GoOn,
    End,
}

/// How many requests may be open for one more. Those that keep a lock or give it up find room when
/// all the others wait: a session that could not renew would lose everything that it holds.
fn open_max(request: &Request) -> usize {
    match request {
        Request::Renew(_)
        | Request::Cancel(_)
        | Request::Release(_)
        | Request::LeaseRevoke(_)
        | Request::GetLock(_) => limits::REQUESTS_MAX + limits::REQUESTS_RESERVED,
        _ => limits::REQUESTS_MAX,
    }
}

impl Session {
    /// Takes one frame. What it wants of the node is added to the batch.
    pub(super) fn take(&self, frame: v1::SessionRequest, batch: &mut Batch) -> Next {
        let request_id = frame.request_id;
        let mut state = self.state();
        state.frames += 1;
        let is_greeted = state.client.is_some();
        let result = match (frame.request, is_greeted) {
            (Some(Request::Hello(hello)), false) => {
                let result = self.greet(&mut state, &hello);
                drop(state);
                let next = if result.is_ok() { Next::GoOn } else { Next::End };
                self.say(request_id, result);
                return next;
            }
            (_, false) => {
                drop(state);
                self.say(request_id, Err(Wrong::HelloExpected.into()));
                return Next::End;
            }
            (Some(Request::Hello(_)), true) => Err(Wrong::HelloRepeated.into()),
            (None, true) => Err(Wrong::Empty.into()),
            (Some(Request::Ping(_)), true) => {
                drop(state);
                let pong = Response::Pong(v1::Ping {});
                self.say(request_id, Ok((self.header(), pong)));
                return Next::GoOn;
            }
            (Some(Request::Watch(watch)), true) => {
                let result = self.admit(&state, request_id, limits::REQUESTS_MAX);
                result.and_then(|()| self.watch(&mut state, request_id, &watch, batch))
            }
            (Some(request), true) => {
                let result = self.admit(&state, request_id, open_max(&request));
                result.and_then(|()| {
                    self.ask(&mut state, request_id, request, frame.once.as_ref(), batch)
                })
            }
        };
        drop(state);
        if let Err(failure) = result {
            self.house.metrics.request("session", failure.code);
            self.say(request_id, Err(failure));
        }
        Next::GoOn
    }

    /// Whether a request may be opened under this name, beside so many others.
    fn admit(&self, state: &State, request_id: u64, open_max: usize) -> Result<(), Failure> {
        if request_id == 0 {
            return Err(Wrong::Invalid("request_id", "must not be 0").into());
        }
        if state.in_use.contains_key(&request_id) {
            return Err(Wrong::RequestIdInUse(request_id).into());
        }
        if state.open.len() >= open_max {
            return Err(Wrong::TooMuchOpen("requests", open_max).into());
        }
        Ok(())
    }

    fn greet(&self, state: &mut State, hello: &v1::SessionHello) -> super::Answered {
        if hello.client_id.is_empty() {
            return Err(Reason::ClientEmpty.into());
        }
        let len_max = fencepost_core::limits::TEXT_LEN_MAX;
        if hello.client_id.len() > len_max as usize {
            let len = hello.client_id.len() as u64;
            return Err(Reason::TextTooLong(len, len_max).into());
        }
        if !(hello.version_min..=hello.version_max).contains(&VERSION) {
            return Err(Wrong::VersionUnsupported.into());
        }
        state.client = Some(ClientId::from(&*hello.client_id));
        self.house.count_if_ahead(hello.incarnation, hello.seen_revision);
        let requests_max = u32::try_from(limits::REQUESTS_MAX).unwrap_or(u32::MAX);
        let welcome = v1::SessionWelcome { version: VERSION, requests_max };
        Ok((self.header(), Response::Welcome(welcome)))
    }

    fn ask(
        &self,
        state: &mut State,
        request_id: u64,
        request: Request,
        once: Option<&v1::Once>,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let (kind, action, by) = match request {
            Request::Acquire(acquire) => {
                return self.acquire(state, request_id, &acquire, once, batch);
            }
            Request::GetLock(get) => {
                let query = reads::get_lock(&get)?;
                self.read(state, request_id, Kind::GetLock, get.stale, query, batch);
                return Ok(());
            }
            Request::Range(range) => {
                let query = reads::range(&range, reads::Read::Range)?;
                self.read(state, request_id, Kind::Range, range.stale, query, batch);
                return Ok(());
            }
            Request::LeaseGrant(grant) => {
                let client = state.client.clone().unwrap_or_default();
                let grant = parse::lease_grant(&grant, &client, self.address.clone())?;
                let kind = Kind::LeaseGrant { revoke: grant.revoke_on_disconnect.is_some() };
                (kind, Action::LeaseGrant(grant), Some(Caller::Client(client)))
            }
            Request::Renew(many) => {
                let action = parse::renewals(&many.renewals)?;
                for one in &many.renewals {
                    let lease = LeaseRef { id: LeaseId(one.id), epoch: Epoch(one.epoch) };
                    self.name_lease(state, lease, None, Some(one.number));
                }
                (Kind::Renew, action, None)
            }
            Request::LeaseRevoke(revoke) => {
                let kind = Kind::LeaseRevoke(LeaseId(revoke.id));
                let by = Caller::Client(state.client.clone().unwrap_or_default());
                (kind, parse::lease_revoke(&revoke)?, Some(by))
            }
            Request::Cancel(cancel) => {
                let by = Caller::Lease(LeaseId(cancel.lease_id));
                (Kind::Cancel, parse::cancel(&cancel)?, Some(by))
            }
            Request::Release(release) => {
                let by = Caller::Lease(LeaseId(release.lease_id));
                (Kind::Release, parse::release(&release)?, Some(by))
            }
            Request::Put(put) => (Kind::Put, parse::put(&self.house, &put)?, None),
            Request::DeleteRange(delete) => {
                let deletion = Box::new(Deletion::new(parse::delete_range(&delete)?));
                let action = deletion.action();
                (Kind::DeleteRange(deletion), action, None)
            }
            Request::Hello(_) | Request::Watch(_) | Request::Ping(_) => {
                return Err(Wrong::Unexpected.into());
            }
        };
        let request = self.line.draw();
        let order = Order::from(command(action, by.and_then(|by| counted(once, by))));
        match kind {
            Kind::Renew => batch.renewals.push((request, order)),
            _ => batch.ordinary.push((request, order)),
        }
        state.opened(request, request_id, kind);
        Ok(())
    }

    fn read(
        &self,
        state: &mut State,
        request_id: u64,
        kind: Kind,
        is_stale: bool,
        query: Query,
        batch: &mut Batch,
    ) {
        let request = self.line.draw();
        state.opened(request, request_id, kind);
        batch.queries.push((request, freshness(is_stale), query));
    }

    fn acquire(
        &self,
        state: &mut State,
        request_id: u64,
        acquire: &v1::SessionAcquire,
        once: Option<&v1::Once>,
        batch: &mut Batch,
    ) -> Result<(), Failure> {
        let (action, names, lease) = parse::acquire(acquire)?;
        let signature = match (acquire.signed_if_possible, acquire.signed) {
            (true, _) => Signature::Welcome,
            (false, true) if !self.house.signing.can_sign() => {
                return Err(Wrong::Unsigned.into());
            }
            (false, true) => Signature::Required,
            (false, false) => Signature::Unwanted,
        };
        let epoch = Epoch(acquire.lease_epoch);
        self.name_lease(state, LeaseRef { id: lease, epoch }, None, None);
        let once = counted(once, Caller::Lease(lease));
        let (order, repeat) = with_repeat(action, once);
        let request = self.line.draw();
        // Before it is proposed: the grant may be seen before the reply.
        let postbox = Postbox::Stream(std::sync::Arc::clone(&self.outbox), request);
        let first = names.first().ok_or(Reason::NamesEmpty)?;
        let key = parse::contender_key_of(first, lease);
        let ticket = self.house.pending().register(key, postbox);
        let acquire = OpenAcquire { ticket, names, lease, command: repeat, told: None, signature };
        state.opened(request, request_id, Kind::Acquire(Box::new(acquire)));
        batch.ordinary.push((request, order));
        Ok(())
    }

    /// Hands a batch to the node.
    pub(super) fn send(&self, batch: Batch) {
        let len = batch.len();
        if len == 0 {
            return;
        }
        self.bring_all(Class::Renewal, batch.renewals);
        self.bring_all(Class::Ordinary, batch.ordinary);
        for (request, freshness, query) in batch.queries {
            if let Err(why) = self.line.bring_query(request, freshness, query) {
                self.refuse(request, &why);
            }
        }
        if len >= MANY {
            self.line.work();
        } else {
            booth::work_off(&self.line);
        }
    }

    fn bring_all(&self, class: Class, commands: Vec<(RequestId, Order)>) {
        if commands.is_empty() {
            return;
        }
        let all: Vec<RequestId> = commands.iter().map(|(request, _)| *request).collect();
        let (refused, why) = match self.line.bring_all(class, commands) {
            Ok(refused) => (refused, ProposeError::Overloaded),
            Err(why) => (all, why),
        };
        for request in refused {
            self.refuse(request, &why);
        }
    }

    /// A request that the node did not take is answered as if it had refused it.
    pub(super) fn refuse(&self, request: RequestId, why: &ProposeError) {
        let delivery = fencepost_node::shell::Delivery::Answer(Err(why.clone()));
        self.outbox.push(crate::outbox::Item::Delivery(request, delivery));
    }
}

/// How a repeat is recognised, if the client wants that.
fn counted(once: Option<&v1::Once>, by: Caller) -> Option<Once> {
    once.map(|once| Once { by, seq: Seq(once.seq), ack_upto: Seq(once.ack_upto) })
}

impl Batch {
    fn len(&self) -> usize {
        self.ordinary.len() + self.renewals.len() + self.queries.len()
    }

    pub(super) fn query(&mut self, request: RequestId, query: Query) {
        self.queries.push((request, Freshness::Stale, query));
    }
}

impl State {
    pub(super) fn opened(&mut self, request: RequestId, request_id: u64, kind: Kind) {
        self.in_use.insert(request_id, ());
        self.open.insert(number(request), Open { request_id, kind });
    }
}
