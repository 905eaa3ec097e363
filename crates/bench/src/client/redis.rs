//! The usual lock in Redis: one key that expires, and a script that deletes only one's own.

use std::net::SocketAddr;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::clock;

const TTL_MS: u64 = 3_600_000;
/// Redis has no queue: whoever waits asks again, after 5 to 15 ms.
const POLL_MS: std::ops::Range<u64> = 5..15;
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                       return redis.call('del', KEYS[1]) else return 0 end";

/// One client.
pub struct Redis {
    connection: MultiplexedConnection,
    release: Script,
    name: String,
    ttl_ms: u64,
    polls: u64,
}

impl Redis {
    pub async fn open(address: SocketAddr) -> anyhow::Result<Redis> {
        let client = redis::Client::open(format!("redis://{address}/"))?;
        let connection = client.get_multiplexed_async_connection().await?;
        Ok(Redis::over(connection))
    }

    fn over(connection: MultiplexedConnection) -> Redis {
        let release = Script::new(RELEASE);
        Redis { connection, release, name: String::new(), ttl_ms: TTL_MS, polls: 0 }
    }

    /// Another client over the same connection.
    #[must_use]
    pub fn again(&self) -> Redis {
        Redis::over(self.connection.clone())
    }

    /// What is taken from now on lasts for so long.
    pub fn set_ttl(&mut self, ttl: Duration) {
        self.ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(TTL_MS);
    }

    pub fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }

    pub async fn acquire(&mut self, name: &str) -> anyhow::Result<()> {
        while !self.try_once(name).await? {
            self.polls += 1;
            // Spread over the range without a generator: the golden ratio, in 64 bits.
            let spread = self.polls.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let span = POLL_MS.start + spread % (POLL_MS.end - POLL_MS.start);
            clock::pass(Duration::from_millis(span)).await;
        }
        Ok(())
    }

    async fn try_once(&mut self, name: &str) -> anyhow::Result<bool> {
        let mut command = redis::cmd("SET");
        command.arg(name).arg("me").arg("NX").arg("PX").arg(self.ttl_ms);
        let answer: Option<String> = command.query_async(&mut self.connection).await?;
        name.clone_into(&mut self.name);
        Ok(answer.is_some())
    }

    pub async fn release(&mut self) -> anyhow::Result<()> {
        let mut call = self.release.key(&self.name);
        let _: i64 = call.arg("me").invoke_async(&mut self.connection).await?;
        Ok(())
    }
}
