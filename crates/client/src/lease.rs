//! Leases for purposes of the user's own.
//!
//! A lock makes a lease by itself; these are for keys that should go away with their owner, and for
//! tools.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use fencepost_proto::v1 as pb;
use fencepost_proto::v1::lock_service_client::LockServiceClient;

use crate::boot_time::BootTime;
use crate::client::Client;
use crate::core::{AdoptedLease, Input, LeaseMade, LeaseSpec, from_wire_ms};
use crate::error::Error;
use crate::shell::{LeaseState, Order, Reply, Shell};

/// A lease that is being described. Awaiting it makes it. See [`Client::lease`].
#[must_use = "no lease is made until it is awaited"]
pub struct LeaseBuilder {
    shell: Arc<Shell>,
    spec: LeaseSpec,
}

impl LeaseBuilder {
    pub(crate) fn new(shell: Arc<Shell>, ttl: Duration) -> LeaseBuilder {
        let spec = LeaseSpec { ttl, keep_alive: true, ..LeaseSpec::default() };
        LeaseBuilder { shell, spec }
    }

    /// The id that is wanted. Without this the service chooses.
    pub fn id(mut self, id: i64) -> LeaseBuilder {
        self.spec.id = id;
        self
    }

    /// Do not renew it by itself: only [`Lease::renew`] does.
    pub fn without_keep_alive(mut self) -> LeaseBuilder {
        self.spec.keep_alive = false;
        self
    }

    /// End it so long after this client's connection is lost, without waiting for the TTL.
    pub fn revoke_on_disconnect(mut self, after: Duration) -> LeaseBuilder {
        self.spec.revoke_on_disconnect = after;
        self
    }

    /// Makes the lease.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if the service refuses; [`Error::Indeterminate`] if it did not answer, in
    /// which case a lease that nobody renews may be there until its TTL is over.
    pub async fn grant(self) -> Result<Lease, Error> {
        let op = self.shell.next_op();
        let input = Input::GrantLease(op, self.spec);
        let (made, state) = self.shell.ask(op, input, Reply::LeaseMade).await?;
        Ok(Lease { shell: self.shell, made, state })
    }
}

impl IntoFuture for LeaseBuilder {
    type Output = Result<Lease, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.grant())
    }
}

/// A lease. Renewed by itself unless asked otherwise, for as long as this exists.
///
/// Dropping it stops the renewals and leaves the lease to run out; [`revoke`](Lease::revoke) ends it
/// at once.
#[must_use = "dropping a lease stops its renewal"]
pub struct Lease {
    shell: Arc<Shell>,
    made: LeaseMade,
    state: Arc<LeaseState>,
}

impl Lease {
    /// Its id.
    pub fn id(&self) -> i64 {
        self.made.id
    }

    /// Which grant of the id this is.
    pub fn epoch(&self) -> u64 {
        self.made.epoch
    }

    /// How long it lives without a renewal.
    pub fn ttl(&self) -> Duration {
        self.made.ttl
    }

    /// Until when it may be believed in.
    pub fn deadline(&self) -> BootTime {
        self.state.deadline()
    }

    /// Whether it may be believed in now.
    pub fn is_valid(&self) -> bool {
        self.state.is_valid()
    }

    /// Resolves when the service says that it has ended.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let state = Arc::clone(&self.state);
        async move { state.gone().await }
    }

    /// Whether to renew it by itself.
    pub fn keep_alive(&self, keep: bool) {
        self.shell.order(Order::Tell(Input::KeepAlive(self.state.no, keep)));
    }

    /// Renews it once, and returns how long it may be believed in from now on.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if it has ended; [`Error::Indeterminate`] if there was no answer.
    pub async fn renew(&self) -> Result<Duration, Error> {
        let op = self.shell.next_op();
        let input = Input::RenewLease(op, self.state.no);
        self.shell.ask(op, input, Reply::LeaseRenewed).await?;
        Ok(self.deadline().remaining())
    }

    /// Ends it, and every key with it. Returns how many those were.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if it had ended before; [`Error::Indeterminate`] if there was no answer.
    pub async fn revoke(self) -> Result<u64, Error> {
        let op = self.shell.next_op();
        let input = Input::RevokeLease(op, self.state.no);
        self.shell.ask(op, input, Reply::LeaseRevoked).await
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shell.order(Order::Tell(Input::ForgetLease(self.state.no)));
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("made", &self.made).finish_non_exhaustive()
    }
}

impl fmt::Debug for LeaseBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseBuilder").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Client {
    /// Takes over the renewal of a lease that exists, made by whomever.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if there is no such lease.
    pub async fn adopt_lease(&self, id: i64) -> Result<Lease, Error> {
        let found = self.get_lease(id).await?;
        let ttl = from_wire_ms(found.ttl_ms);
        let adopted = AdoptedLease { id, epoch: found.epoch, ttl, keep_alive: true };
        let shell = Arc::clone(self.shell());
        let op = shell.next_op();
        let input = Input::AdoptLease(op, adopted);
        let (made, state) = shell.ask(op, input, Reply::LeaseMade).await?;
        Ok(Lease { shell, made, state })
    }

    /// Ends a lease by its id, whoever has made it. Returns how many keys went with it.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if there is no such lease; [`Error::Indeterminate`] if there was no answer.
    pub async fn revoke_lease(&self, id: i64) -> Result<u64, Error> {
        let answer = self.shell().unary(false, move |channel| async move {
            let request = pb::LeaseRevokeRequest { id, epoch: 0 };
            LockServiceClient::new(channel).lease_revoke(request).await
        });
        Ok(answer.await?.keys)
    }

    /// One lease.
    ///
    /// # Errors
    ///
    /// [`Error::Rejected`] if there is no such lease.
    pub async fn get_lease(&self, id: i64) -> Result<pb::Lease, Error> {
        let answer = self.shell().unary(true, move |channel| async move {
            LockServiceClient::new(channel).get_lease(pb::GetLeaseRequest { id }).await
        });
        let missing = || Error::protocol("an answer without the lease");
        answer.await?.lease.ok_or_else(missing)
    }

    /// Leases with ids after `after`, at most `limit` of them, and whether there are more.
    ///
    /// # Errors
    ///
    /// As every question: if the service cannot be reached, or refuses.
    pub async fn list_leases(
        &self,
        after: i64,
        limit: u32,
    ) -> Result<(Vec<pb::Lease>, bool), Error> {
        let answer = self.shell().unary(true, move |channel| async move {
            let request = pb::ListLeasesRequest { after, limit };
            LockServiceClient::new(channel).list_leases(request).await
        });
        let answer = answer.await?;
        Ok((answer.leases, answer.more))
    }
}
