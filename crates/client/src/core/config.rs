//! What a session is told once, at its beginning.

use std::time::Duration;

/// How a session behaves.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the client calls itself. No other client may use the same name at the same time.
    pub client_id: String,
    /// Where members of the cluster may be reached.
    pub endpoints: Vec<String>,
    /// What random choices follow from.
    pub seed: u64,
    /// How long one attempt to reach one endpoint may take.
    pub dial_timeout: Duration,
    /// How long a request that does not wait for a lock may take.
    pub request_timeout: Duration,
    /// How long a cancelled acquire may take to be confirmed.
    pub cancel_grace: Duration,
    /// After so long without a frame, the service is asked for one.
    pub ping_every: Duration,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            client_id: String::new(),
            endpoints: Vec::new(),
            seed: 0,
            dial_timeout: Duration::from_secs(2),
            request_timeout: Duration::from_secs(5),
            cancel_grace: Duration::from_secs(1),
            ping_every: Duration::from_secs(5),
        }
    }
}
