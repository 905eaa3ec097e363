//! Electing a leader: a lock whose holder has something to say.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use fencepost_proto::v1 as pb;
use fencepost_proto::v1::event::Type;
use futures_core::Stream;

use crate::client::Client;
use crate::core::Released;
use crate::error::Error;
use crate::guard::{Guard, Token};
use crate::lock::LockBuilder;
use crate::watch::Watch;

/// How often the leader is looked for again when it changes while being looked at.
const LOOKS_MAX: u32 = 8;

/// An election: whoever holds the lock of this name leads. See [`Client::election`].
#[derive(Clone)]
pub struct Election {
    client: Client,
    name: String,
    ttl: Option<Duration>,
}

/// Who leads, and what it has proclaimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The name of its client.
    pub client: String,
    /// Its fencing token: greater than that of every earlier leader.
    pub token: Token,
    /// The key that stands for it.
    pub key: String,
    /// Its lease.
    pub lease_id: i64,
    /// What it has proclaimed last.
    pub value: Bytes,
    /// The revision at which it was proclaimed.
    pub revision: i64,
}

impl Election {
    pub(crate) fn new(client: Client, name: String) -> Election {
        Election { client, name, ttl: None }
    }

    /// How long a leader that has gone silent is waited for.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Election {
        self.ttl = Some(ttl);
        self
    }

    /// Stands for election with something to say, and waits until elected.
    ///
    /// # Errors
    ///
    /// As [`LockBuilder::acquire`].
    pub async fn campaign(&self, value: impl Into<Bytes>) -> Result<Leadership, Error> {
        let mut lock = self.client.lock(self.name.clone()).value(value);
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        self.campaign_as(lock).await
    }

    /// The same, with a wait that ends.
    ///
    /// # Errors
    ///
    /// As [`LockBuilder::acquire`].
    pub async fn campaign_for(
        &self,
        value: impl Into<Bytes>,
        at_most: Duration,
    ) -> Result<Leadership, Error> {
        let mut lock = self.client.lock(self.name.clone()).value(value).wait(at_most);
        if let Some(ttl) = self.ttl {
            lock = lock.ttl(ttl);
        }
        self.campaign_as(lock).await
    }

    async fn campaign_as(&self, lock: LockBuilder) -> Result<Leadership, Error> {
        Ok(Leadership { client: self.client.clone(), guard: lock.acquire().await? })
    }

    /// Who leads now.
    ///
    /// # Errors
    ///
    /// If the service cannot be reached, or refuses.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        for _ in 0..LOOKS_MAX {
            let lock = self.client.get_lock(self.name.clone()).await?;
            let Some(holder) = lock.holders.into_iter().next() else { return Ok(None) };
            // It may have gone between the two questions: then there is another one by now.
            if let Some(kv) = self.client.kv().get(holder.key.clone()).await?
                && kv.create_revision == holder.fencing_token
            {
                return Ok(Some(leader(holder, kv)));
            }
        }
        Err(Error::unavailable("the leader changed each time that it was looked at"))
    }

    /// Tells who leads, whenever that or its value changes. Begins with the present leader.
    pub fn observe(&self) -> Observer {
        let watch = self.client.watch_prefix(format!("{}/", self.name)).lock_events();
        Observer::new(self.clone(), watch)
    }
}

fn leader(holder: pb::Holder, kv: pb::KeyVal) -> Leader {
    Leader {
        client: holder.client_id,
        token: Token(holder.fencing_token),
        key: holder.key,
        lease_id: holder.lease_id,
        value: kv.value,
        revision: kv.mod_revision,
    }
}

/// To lead, for as long as the [`guard`](Leadership::guard) is valid.
#[must_use = "dropping it resigns"]
pub struct Leadership {
    client: Client,
    guard: Guard,
}

impl Leadership {
    /// What is held. Its token goes along with every write.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The fencing token.
    pub fn token(&self) -> Token {
        self.guard.token()
    }

    /// Whether it still leads.
    pub fn is_valid(&self) -> bool {
        self.guard.is_valid()
    }

    /// Says something else, without a new election.
    ///
    /// # Errors
    ///
    /// [`Error::LeaseLost`] if it leads no more; [`Error::Indeterminate`] if there was no answer.
    pub async fn proclaim(&self, value: impl Into<Bytes>) -> Result<i64, Error> {
        let request = pb::PutRequest {
            key: self.guard.key().to_owned(),
            value: value.into(),
            lease_id: self.guard.lease_id(),
            prev_kv: false,
            create_revision: self.guard.token().get(),
        };
        match self.client.kv().put_as(request).await {
            Err(Error::Rejected { code, message, .. })
                if code == "key_not_found" || code == "lease_not_found" =>
            {
                Err(Error::LeaseLost { message })
            }
            outcome => outcome,
        }
    }

    /// Leads no more, and says what came of it.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`].
    pub async fn resign(self) -> Result<Released, Error> {
        self.guard.release().await
    }
}

/// Who leads, as it changes: a stream. See [`Election::observe`].
///
/// It ends after an error, which says why.
#[must_use = "an observer tells nothing until it is polled"]
pub struct Observer {
    name: String,
    /// The step that is under way. None after the end.
    step: Option<Step>,
}

type Step = Pin<Box<dyn Future<Output = (Option<Result<Leader, Error>>, Look)> + Send>>;

impl Observer {
    fn new(election: Election, watch: Watch) -> Observer {
        let name = election.name.clone();
        let look = Look { election, watch, told: None, has_begun: false };
        Observer { name, step: Some(Box::pin(look.step())) }
    }

    /// The next leader, or the next thing that the leader says; nothing after the end.
    pub async fn next(&mut self) -> Option<Result<Leader, Error>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Observer {
    type Item = Result<Leader, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(step) = &mut self.step else { return Poll::Ready(None) };
        let (item, look) = std::task::ready!(step.as_mut().poll(context));
        self.step = match &item {
            Some(Ok(_)) => Some(Box::pin(look.step())),
            Some(Err(_)) | None => None,
        };
        Poll::Ready(item)
    }
}

/// Somebody who looks at the leader whenever something has happened.
struct Look {
    election: Election,
    watch: Watch,
    told: Option<Leader>,
    has_begun: bool,
}

impl Look {
    async fn step(mut self) -> (Option<Result<Leader, Error>>, Look) {
        let item = self.next().await;
        (item.transpose(), self)
    }

    async fn next(&mut self) -> Result<Option<Leader>, Error> {
        if !self.has_begun {
            // First the watch, then the look: a change in between is told by the watch.
            self.watch.started().await?;
            self.has_begun = true;
            if let Some(leader) = self.look().await? {
                return Ok(Some(leader));
            }
        }
        while let Some(event) = self.watch.next().await {
            if self.is_of_interest(&event?)
                && let Some(leader) = self.look().await?
            {
                return Ok(Some(leader));
            }
        }
        Ok(None)
    }

    /// Nothing if nobody leads, or it was told of before.
    async fn look(&mut self) -> Result<Option<Leader>, Error> {
        let found = self.election.leader().await?;
        if found.is_none() || found == self.told {
            return Ok(None);
        }
        self.told.clone_from(&found);
        Ok(found)
    }

    /// Somebody was elected, or the leader has said something. Who joins the queue does not matter.
    fn is_of_interest(&self, event: &pb::Event) -> bool {
        match event.r#type() {
            Type::Granted => true,
            Type::Put => {
                let key = event.kv.as_ref().map(|kv| kv.key.as_str());
                self.told.as_ref().is_some_and(|told| Some(told.key.as_str()) == key)
            }
            _ => false,
        }
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("name", &self.name).finish_non_exhaustive()
    }
}
