//! How endpoints are reached, and what is known of them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use super::link::told;

/// Endpoints of which it is remembered that they only speak gRPC. A cluster has fewer members.
const GRPC_ONLY_MAX: usize = 64;

/// What users change about the way to an endpoint: TLS, limits, headers of the transport.
pub(crate) type Configure = Arc<dyn Fn(Endpoint) -> Endpoint + Send + Sync>;

/// What carries the session between this client and a member.
///
/// Only the session: questions of operators and the like always go over gRPC, on a connection that is
/// made when there is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Messages with their lengths on a plain connection, which costs less than gRPC does. Where an
    /// endpoint turns out to speak only gRPC, for example behind a proxy, that is used instead, and so
    /// it is for `https://` and if the way to endpoints was
    /// [configured](crate::Builder::configure).
    #[default]
    Auto,
    /// Messages with their lengths, and nothing else. An endpoint that does not speak it cannot be
    /// used, and neither can one with `https://`.
    Framed,
    /// A gRPC stream, as every version of the service speaks it.
    Grpc,
}

/// How endpoints are reached.
pub(crate) struct Dialer {
    configure: Configure,
    transport: Transport,
    grpc_only: Mutex<BTreeSet<String>>,
}

/// Where to, and how.
pub(super) enum Route {
    /// To this host and port, without HTTP. Whether gRPC may be tried if that is not understood.
    Framed {
        host: String,
        may_fall_back: bool,
    },
    Grpc,
}

impl Dialer {
    pub(crate) fn new(configure: Option<Configure>, transport: Transport) -> Dialer {
        let transport = match (transport, &configure) {
            // What was configured is gRPC's.
            (Transport::Auto, Some(_)) => Transport::Grpc,
            (transport, _) => transport,
        };
        let configure = configure.unwrap_or_else(|| Arc::new(|endpoint| endpoint));
        Dialer { configure, transport, grpc_only: Mutex::default() }
    }

    pub(super) fn endpoint(&self, address: &str, timeout: Duration) -> Result<Endpoint, String> {
        let endpoint = Endpoint::from_shared(address.to_owned()).map_err(|error| told(&error))?;
        Ok((self.configure)(endpoint.connect_timeout(timeout)))
    }

    /// The way to an endpoint.
    pub(super) fn route(&self, address: &str, endpoint: &Endpoint) -> Result<Route, String> {
        let uri = endpoint.uri();
        let is_plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/");
        let host = uri.host().filter(|_| is_plain);
        let host = host.map(|host| format!("{host}:{}", uri.port_u16().unwrap_or(80)));
        match (self.transport, host) {
            (Transport::Grpc, _) | (Transport::Auto, None) => Ok(Route::Grpc),
            (Transport::Auto, Some(_)) if self.grpc_only().contains(address) => Ok(Route::Grpc),
            (Transport::Auto, Some(host)) => Ok(Route::Framed { host, may_fall_back: true }),
            (Transport::Framed, Some(host)) => Ok(Route::Framed { host, may_fall_back: false }),
            (Transport::Framed, None) => {
                Err("only http:// with a host and a port can be reached without gRPC".to_owned())
            }
        }
    }

    /// An endpoint has answered in another protocol.
    pub(super) fn remember_grpc(&self, address: &str) {
        let mut known = self.grpc_only();
        if known.len() >= GRPC_ONLY_MAX {
            known.clear();
        }
        known.insert(address.to_owned());
    }

    fn grpc_only(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.grpc_only.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of calls that do not go over the session.
#[derive(Clone, Debug)]
pub(super) enum Road {
    Open(Channel),
    /// Nobody has needed it yet.
    Unopened(Box<Endpoint>),
}

impl Road {
    /// Opens it, if it is not. On the session's runtime.
    pub(super) fn channel(&mut self) -> Channel {
        match self {
            Road::Open(channel) => channel.clone(),
            Road::Unopened(endpoint) => {
                let channel = endpoint.connect_lazy();
                *self = Road::Open(channel.clone());
                channel
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(dialer: &Dialer, address: &str) -> Result<String, String> {
        let endpoint = dialer.endpoint(address, Duration::from_secs(1))?;
        Ok(match dialer.route(address, &endpoint)? {
            Route::Framed { host, may_fall_back } => format!("framed {host} {may_fall_back}"),
            Route::Grpc => "grpc".to_owned(),
        })
    }

    #[test]
    fn what_is_not_plain_goes_over_grpc() {
        let auto = Dialer::new(None, Transport::Auto);
        let ways = [
            ("http://127.0.0.1:7420", "framed 127.0.0.1:7420 true"),
            ("http://[::1]:7420/", "framed [::1]:7420 true"),
            ("http://locks.example", "framed locks.example:80 true"),
            ("https://locks.example:7420", "grpc"),
            ("http://gateway.example/locks", "grpc"),
        ];
        for (address, way) in ways {
            assert_eq!(route(&auto, address).as_deref(), Ok(way), "{address}");
        }
        auto.remember_grpc("http://127.0.0.1:7420");
        assert_eq!(route(&auto, "http://127.0.0.1:7420").as_deref(), Ok("grpc"));
        assert_eq!(route(&auto, "http://[::1]:7420/").as_deref(), Ok("framed [::1]:7420 true"));
    }

    #[test]
    fn what_was_chosen_is_done() {
        let address = "http://127.0.0.1:7420";
        let configured: Configure = Arc::new(|endpoint| endpoint);
        let grpc = Dialer::new(None, Transport::Grpc);
        assert_eq!(route(&grpc, address).as_deref(), Ok("grpc"));
        let configured = Dialer::new(Some(configured), Transport::Auto);
        assert_eq!(route(&configured, address).as_deref(), Ok("grpc"));
        let framed = Dialer::new(None, Transport::Framed);
        assert_eq!(route(&framed, address).as_deref(), Ok("framed 127.0.0.1:7420 false"));
        assert!(route(&framed, "https://locks.example").is_err());
    }

    #[test]
    fn no_more_is_remembered_than_may_be() {
        let auto = Dialer::new(None, Transport::Auto);
        for number in 0..3 * GRPC_ONLY_MAX {
            auto.remember_grpc(&format!("http://n{number}"));
        }
        assert!(auto.grpc_only().len() <= GRPC_ONLY_MAX);
    }
}
