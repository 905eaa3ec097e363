//! Looking at locks, giving them back by their number, and taking them away.

use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::lock_service_client::LockServiceClient;
use fencepost_proto::v1::session_request::Request;
use fencepost_proto::v1::session_response::Response;

use crate::client::Client;
use crate::core::from_wire_ms;
use crate::error::Error;
use crate::guard::Token;
use crate::kv::{call, wrong};
use crate::shell::ANSWER_LEN_MAX;

/// How many waiters of a lock are listed.
const WAITERS_MAX: u32 = 1_000;

/// What came of a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// The lock is free for the next.
    Released,
    /// The holder was asked. The lock passes on when it lets go, or after this at the latest.
    Pending(Duration),
    /// Nobody held it.
    NotHeld,
}

impl Client {
    /// Who holds a lock, and who waits for it.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn get_lock(&self, name: impl Into<String>) -> Result<pb::Lock, Error> {
        let name = name.into();
        let request = pb::GetLockRequest { name, waiters_max: WAITERS_MAX, ..Default::default() };
        let answer = call(self.shell(), Request::GetLock(request), true).await?;
        match answer.response {
            Some(Response::Lock(pb::GetLockResponse { lock: Some(lock), .. })) => Ok(lock),
            _ => Err(wrong()),
        }
    }

    /// The locks whose names begin with `prefix` and come after `after`, at most `limit` of them, and
    /// whether there are more.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn list_locks(
        &self,
        prefix: impl Into<String>,
        after: impl Into<String>,
        limit: u32,
    ) -> Result<(Vec<pb::Lock>, bool), Error> {
        let (prefix, after) = (prefix.into(), after.into());
        let request = pb::ListLocksRequest { prefix, after, limit, stale: false };
        let answer = self.shell().unary(true, move |channel| {
            let request = request.clone();
            async move {
                let client = LockServiceClient::new(channel);
                client.max_decoding_message_size(ANSWER_LEN_MAX).list_locks(request).await
            }
        });
        let answer = answer.await?;
        Ok((answer.locks, answer.more))
    }

    /// Why a lock is not granted, the most important reason first. With a lease: why that one waits.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn explain(
        &self,
        name: impl Into<String>,
        lease_id: Option<i64>,
    ) -> Result<Vec<String>, Error> {
        let request = pb::ExplainRequest { name: name.into(), lease_id: lease_id.unwrap_or(0) };
        let answer = self.shell().unary(true, move |channel| {
            let request = request.clone();
            async move { LockServiceClient::new(channel).explain(request).await }
        });
        Ok(answer.await?.reasons)
    }

    /// Gives back a lock that was acquired under a lease by whomever: with a [`Guard`](crate::Guard)
    /// there is a better way. Returns whether there was anything to give back. Repeating it does no
    /// harm.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if the lease has ended, or holds the lock with another token or not at
    /// all; [`Error::Indeterminate`] if there was no answer.
    pub async fn unlock(
        &self,
        name: impl Into<String>,
        lease_id: i64,
        token: Token,
    ) -> Result<bool, Error> {
        let (name, fencing_token) = (name.into(), token.get());
        let request = pb::UnlockRequest { name, lease_id, fencing_token, lease_epoch: 0 };
        let answer = self.shell().unary(false, move |channel| {
            let request = request.clone();
            async move { LockServiceClient::new(channel).unlock(request).await }
        });
        Ok(answer.await?.released)
    }

    /// Does a lock command that is written as text: `ACQUIRE:<lock>:<client>:<ttl in ms>`,
    /// `RELEASE:<lock>:<client>` or `HEARTBEAT:<lock>:<client>`. What makes no sense is a result as
    /// well. Locks by owner name are weaker than a [`Guard`](crate::Guard): this is for people.
    ///
    /// # Errors
    ///
    /// [`Error::Indeterminate`] if there was no answer.
    pub async fn text_command(
        &self,
        line: impl Into<String>,
    ) -> Result<pb::TextCommandResponse, Error> {
        let request = pb::TextCommandRequest { line: line.into() };
        let answer = self.shell().unary(false, move |channel| {
            let request = request.clone();
            async move { LockServiceClient::new(channel).text_command(request).await }
        });
        answer.await
    }

    /// Takes a lock from its holder, as an operator. `token` names the holder that is meant, so that
    /// its successor is safe.
    ///
    /// With `now`, the lock passes on at once, although the holder may still believe in it: only
    /// resources that check tokens are safe then.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if somebody else holds it; [`Error::Indeterminate`] if there was no answer.
    pub async fn force_release(
        &self,
        name: impl Into<String>,
        token: Token,
        reason: impl Into<String>,
        now: bool,
    ) -> Result<Forced, Error> {
        self.force_release_signed(name, token, reason, now).await.map(|(forced, _)| forced)
    }

    /// As [`Client::force_release`], with a signed statement of what was taken away, for resources
    /// that verify tokens. It is `None` if nothing was, or if the member could not sign: a forced
    /// release does not wait for that, and may be repeated to get the statement.
    ///
    /// # Errors
    ///
    /// As [`Client::force_release`].
    pub async fn force_release_signed(
        &self,
        name: impl Into<String>,
        token: Token,
        reason: impl Into<String>,
        now: bool,
    ) -> Result<(Forced, Option<String>), Error> {
        let (name, reason, fencing_token) = (name.into(), reason.into(), token.get());
        let client_id = self.name().to_owned();
        let signed = true;
        let request =
            pb::ForceReleaseRequest { name, fencing_token, reason, now, signed, client_id };
        let answer = self.shell().unary(false, move |channel| {
            let request = request.clone();
            async move { LockServiceClient::new(channel).force_release(request).await }
        });
        let answer = answer.await?;
        let forced = match (answer.released, answer.pending_ms) {
            (true, _) => Forced::Released,
            (false, 1..) => Forced::Pending(from_wire_ms(answer.pending_ms)),
            (false, _) => Forced::NotHeld,
        };
        Ok((forced, Some(answer.signed_floor).filter(|signed| !signed.is_empty())))
    }
}
