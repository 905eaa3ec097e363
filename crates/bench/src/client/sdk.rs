//! The SDK of Fencepost, as a user has it.

use std::net::SocketAddr;

use anyhow::Context as _;
use fencepost_client::{Client, Guard};

/// One logical client.
pub struct Sdk {
    client: Client,
    guard: Option<Guard>,
}

impl Sdk {
    pub async fn open(addresses: &[SocketAddr]) -> anyhow::Result<Sdk> {
        let endpoints = addresses.iter().map(|address| format!("http://{address}"));
        let client = Client::builder().endpoints(endpoints).name("bench").connect().await?;
        Ok(Sdk { client, guard: None })
    }

    /// Another logical client of the same process, over the same session.
    #[must_use]
    pub fn again(&self) -> Sdk {
        Sdk { client: self.client.clone(), guard: None }
    }

    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        self.guard = Some(self.client.lock(name).acquire().await?);
        Ok(())
    }

    pub async fn release(&mut self) -> anyhow::Result<()> {
        self.guard.take().context("nothing is held")?.release().await?;
        Ok(())
    }
}
