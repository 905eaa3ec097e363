//! Session frames, as they come in.

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use super::store::{Kept, Store, refusal};

impl Store {
    /// One frame of one stream. Its answers are among the frames to be taken.
    pub(crate) fn receive(&mut self, stream: u64, frame: pb::SessionRequest) {
        let (request_id, once) = (frame.request_id, frame.once);
        let Some(request) = frame.request else { return };
        let Some(client) = self.streams.get(&stream).cloned() else { return };
        if let Request::Hello(hello) = request {
            self.streams.insert(stream, Some(hello.client_id));
            let welcome = pb::SessionWelcome { version: 1, requests_max: self.requests_max };
            self.send(stream, request_id, Response::Welcome(welcome));
            return;
        }
        let Some(client) = client else {
            self.fail(stream, request_id, refusal("no_hello"));
            return;
        };
        if self.is_leaderless && !matches!(request, Request::Ping(_)) {
            let failure = pb::Failure { retryable: true, ..refusal("no_leader") };
            self.fail(stream, request_id, failure);
            return;
        }
        let answer = match request {
            Request::Hello(_) => return,
            Request::Ping(_) => Ok(Response::Pong(pb::Ping {})),
            Request::Renew(many) => {
                let renewed = many.renewals.iter().map(|one| self.renew(one)).collect();
                Ok(Response::Renewed(pb::RenewedMany { renewed }))
            }
            Request::Watch(ask) => return self.watch(stream, request_id, ask),
            Request::GetLock(ask) => Ok(Response::Lock(pb::GetLockResponse {
                header: Some(self.header()),
                lock: Some(self.lock_part(&ask)),
            })),
            Request::Put(ask) => self.put(&ask),
            Request::Range(ask) => Ok(self.range(&ask)),
            Request::DeleteRange(ask) => Ok(self.delete_range(&ask)),
            numbered => {
                let to = (stream, request_id);
                match self.numbered(&client, once, numbered, to) {
                    Ok(Some(response)) => Ok(response),
                    Ok(None) => return,
                    Err(failure) => Err(failure),
                }
            }
        };
        match answer {
            Ok(response) => self.send(stream, request_id, response),
            Err(failure) => self.fail(stream, request_id, failure),
        }
    }

    /// A request whose repeats act once.
    fn numbered(
        &mut self,
        client: &str,
        once: Option<pb::Once>,
        request: Request,
        to: (u64, u64),
    ) -> Result<Option<Response>, pb::Failure> {
        let lease = match &request {
            Request::Acquire(ask) => Some((ask.lease_id, ask.lease_epoch)),
            Request::Cancel(ask) => Some((ask.lease_id, ask.lease_epoch)),
            Request::Release(ask) => Some((ask.lease_id, ask.lease_epoch)),
            _ => None,
        };
        let seq = once.as_ref().map_or(0, |once| once.seq);
        if let Some(once) = &once {
            let window = match lease {
                Some((id, epoch)) => &mut self.live(id, epoch)?.window,
                None => self.clients.entry(client.to_owned()).or_default(),
            };
            window.admit(once)?;
            if let Some(kept) = window.answers.get(&seq).cloned() {
                if let Request::Acquire(_) = request {
                    self.acquire_again(kept, to);
                    return Ok(None);
                }
                let Kept::Final(response) = kept else { return Err(refusal("seq_reused")) };
                return Ok(Some(response));
            }
        }
        let response = match request {
            Request::Acquire(ask) => {
                self.acquire(&ask, seq, to)?;
                return Ok(None);
            }
            Request::Cancel(ask) => {
                self.live(ask.lease_id, ask.lease_epoch)?;
                self.cancel(ask.lease_id, ask.seq)?
            }
            Request::Release(ask) => self.release(&ask)?,
            Request::LeaseGrant(ask) => {
                let ttl_ms = if ask.ttl_ms == 0 { ask.ttl * 1_000 } else { ask.ttl_ms };
                self.grant_lease(ask.id, ttl_ms, client)?
            }
            Request::LeaseRevoke(ask) => self.revoke(ask.id, ask.epoch)?,
            _ => return Err(refusal("invalid_command")),
        };
        if seq > 0 {
            match lease {
                Some((id, _)) => self.keep(id, seq, Kept::Final(response.clone())),
                None => {
                    let window = self.clients.entry(client.to_owned()).or_default();
                    window.answers.insert(seq, Kept::Final(response.clone()));
                }
            }
        }
        Ok(Some(response))
    }
}
