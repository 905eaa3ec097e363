//! Elections, for threads.

use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;

use super::block_on;
use crate::core::Released;
use crate::election::Leader;
use crate::error::Error;

/// An election. See [`crate::Election`].
#[derive(Clone, Debug)]
pub struct Election {
    inner: crate::Election,
}

impl Election {
    pub(super) fn new(inner: crate::Election) -> Election {
        Election { inner }
    }

    /// As [`crate::Election::ttl`].
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> Election {
        Election { inner: self.inner.ttl(ttl) }
    }

    /// As [`crate::Election::campaign`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn campaign(&self, value: impl Into<Bytes>) -> Result<Leadership, Error> {
        Ok(Leadership { inner: block_on(self.inner.campaign(value))? })
    }

    /// As [`crate::Election::campaign_for`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn campaign_for(
        &self,
        value: impl Into<Bytes>,
        at_most: Duration,
    ) -> Result<Leadership, Error> {
        Ok(Leadership { inner: block_on(self.inner.campaign_for(value, at_most))? })
    }

    /// As [`crate::Election::leader`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn leader(&self) -> Result<Option<Leader>, Error> {
        block_on(self.inner.leader())
    }

    /// As [`crate::Election::observe`], one by one.
    pub fn observe(&self) -> Observer {
        Observer { inner: self.inner.observe() }
    }
}

/// To lead. See [`crate::Leadership`].
#[derive(Debug)]
#[must_use = "dropping it resigns"]
pub struct Leadership {
    inner: crate::Leadership,
}

impl Leadership {
    /// As [`crate::Leadership::proclaim`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn proclaim(&self, value: impl Into<Bytes>) -> Result<i64, Error> {
        block_on(self.inner.proclaim(value))
    }

    /// As [`crate::Leadership::resign`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn resign(self) -> Result<Released, Error> {
        block_on(self.inner.resign())
    }
}

impl Deref for Leadership {
    type Target = crate::Leadership;

    fn deref(&self) -> &crate::Leadership {
        &self.inner
    }
}

/// Who leads, as it changes: an iterator that blocks.
#[derive(Debug)]
#[must_use = "an observer tells nothing until it is asked"]
pub struct Observer {
    inner: crate::Observer,
}

impl Iterator for Observer {
    type Item = Result<Leader, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.inner.next())
    }
}
