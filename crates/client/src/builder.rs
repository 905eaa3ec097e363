//! How a client is made.

use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Endpoint;

use crate::client::Client;
use crate::core::Config;
use crate::error::Error;
use crate::shell::{Configure, Dialer, Shell, Transport};

/// Where the service is by default.
const ENDPOINT: &str = "http://127.0.0.1:7420";
/// The longest name that people may give. What is appended makes it unique.
const NAME_LEN_MAX: usize = 200;

/// Letters of the host's name that are kept. Each has at most four bytes.
const HOST_LEN_MAX: usize = 40;

/// Makes a [`Client`]. See [`Client::builder`].
#[derive(Clone)]
#[must_use = "a builder does nothing until `connect` is called"]
pub struct Builder {
    endpoints: Vec<String>,
    name: String,
    request_timeout: Duration,
    dial_timeout: Duration,
    configure: Option<Configure>,
    transport: Transport,
}

impl Default for Builder {
    fn default() -> Builder {
        let config = Config::default();
        Builder {
            endpoints: Vec::new(),
            name: own_name(),
            request_timeout: config.request_timeout,
            dial_timeout: config.dial_timeout,
            configure: None,
            transport: Transport::default(),
        }
    }
}

impl Builder {
    /// Where members of the cluster may be reached; `http://127.0.0.1:7420` if none is given. One
    /// that answers is enough: the leader is found from there.
    pub fn endpoints<E: Into<String>>(mut self, endpoints: impl IntoIterator<Item = E>) -> Builder {
        self.endpoints.extend(endpoints.into_iter().map(|one| with_scheme(one.into())));
        self
    }

    /// One more place where the cluster may be reached.
    pub fn endpoint(self, endpoint: impl Into<String>) -> Builder {
        self.endpoints([endpoint.into()])
    }

    /// What people call this client; its host and process if not given. Something random is appended,
    /// because no two clients may have the same name.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = name.into();
        self
    }

    /// How long a request may take that does not wait for a lock. Five seconds if not given.
    pub fn request_timeout(mut self, timeout: Duration) -> Builder {
        self.request_timeout = timeout;
        self
    }

    /// How long one attempt to reach one endpoint may take. Two seconds if not given.
    pub fn dial_timeout(mut self, timeout: Duration) -> Builder {
        self.dial_timeout = timeout;
        self
    }

    /// Changes the way to every endpoint: TLS, window sizes, an origin. Then everything goes over
    /// gRPC, unless [`Builder::transport`] says otherwise.
    pub fn configure(
        mut self,
        configure: impl Fn(Endpoint) -> Endpoint + Send + Sync + 'static,
    ) -> Builder {
        self.configure = Some(Arc::new(configure));
        self
    }

    /// What carries the session. [`Transport::Auto`] if not given.
    pub fn transport(mut self, transport: Transport) -> Builder {
        self.transport = transport;
        self
    }

    /// Connects, and waits until the service has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if no endpoint answers within the request timeout;
    /// [`Error::Invalid`] if a setting makes no sense.
    pub async fn connect(self) -> Result<Client, Error> {
        let client = self.start()?;
        client.shell().ready().await?;
        Ok(client)
    }

    /// The client at once, while it connects by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if a setting makes no sense.
    pub fn connect_lazy(self) -> Result<Client, Error> {
        self.start()
    }

    fn start(self) -> Result<Client, Error> {
        if self.name.is_empty() || self.name.len() > NAME_LEN_MAX {
            return Err(Error::invalid("a client's name has between 1 and 200 bytes"));
        }
        for endpoint in &self.endpoints {
            Endpoint::from_shared(endpoint.clone())
                .map_err(|error| Error::invalid(format!("{endpoint} is no endpoint: {error}")))?;
        }
        let mut endpoints = self.endpoints;
        if endpoints.is_empty() {
            endpoints.push(ENDPOINT.to_owned());
        }
        let mut rng = fastrand::Rng::new();
        let config = Config {
            client_id: format!("{}-{:016x}", self.name, rng.u64(..)),
            endpoints,
            seed: rng.u64(..),
            dial_timeout: self.dial_timeout,
            request_timeout: self.request_timeout,
            ..Config::default()
        };
        let shell = Shell::start(config, Dialer::new(self.configure, self.transport))
            .map_err(|error| Error::unavailable(format!("no thread could be started: {error}")))?;
        Ok(Client::new(shell))
    }
}

/// The host and the process, so that people who look at a lock know where to look on.
fn own_name() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    let is_printable = |letter: &char| !letter.is_control() && !letter.is_whitespace();
    let host: String = host.chars().filter(is_printable).take(HOST_LEN_MAX).collect();
    format!("{host}-{}", std::process::id())
}

fn with_scheme(endpoint: String) -> String {
    if endpoint.contains("://") { endpoint } else { format!("http://{endpoint}") }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("endpoints", &self.endpoints)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
