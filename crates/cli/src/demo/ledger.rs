//! The data store, as a client of it sees it.

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::json;

use crate::http::{self, Target};

const OK: u16 = 200;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;

/// Reads and writes over HTTP, with the founding document's JSON.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    url: String,
}

/// What the store makes of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    /// In the store's own words.
    Refused(String),
}

#[derive(Deserialize)]
struct Shown {
    data: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Ledger {
    /// At this URL, without a slash at its end.
    pub(super) fn at(url: impl Into<String>) -> Ledger {
        Ledger { url: url.into() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// What stands under a key; empty if nothing does.
    pub(super) async fn read(&self, key: &str) -> anyhow::Result<String> {
        let target = self.target(&format!("/?key={key}"))?;
        let answer = http::get(&target).await;
        let answer = answer.map_err(|why| anyhow::anyhow!("cannot read from the store: {why}"))?;
        match answer.status {
            OK => {
                let shown: Shown = serde_json::from_str(&answer.body)
                    .context("the store answered something else than a key")?;
                Ok(shown.data)
            }
            NOT_FOUND => Ok(String::new()),
            status => bail!("cannot read from the store: it answered {status}: {}", answer.body),
        }
    }

    /// Writes with a token. An error means that it is not known whether it was done.
    pub(super) async fn write(
        &self,
        key: &str,
        client: &str,
        token: i64,
        data: &str,
    ) -> anyhow::Result<Verdict> {
        let target = self.target("/write")?;
        let body = json!({
            "clientID": client,
            "fencingToken": { "key": key, "value": token },
            "data": data,
        });
        let answer = match http::post(&target, body.to_string()).await {
            Ok(answer) => answer,
            Err(why) if why.may_be_done => bail!("it is not known whether this was written: {why}"),
            Err(why) => bail!("cannot reach the store: {why}"),
        };
        match answer.status {
            OK => Ok(Verdict::Accepted),
            CONFLICT => {
                let refusal: Refusal = serde_json::from_str(&answer.body)
                    .context("the store refuses without a reason")?;
                Ok(Verdict::Refused(refusal.error))
            }
            status => bail!("cannot write to the store: it answered {status}: {}", answer.body),
        }
    }

    fn target(&self, path: &str) -> anyhow::Result<Target> {
        Target::parse(&format!("{}{path}", self.url)).map_err(anyhow::Error::msg)
    }
}
