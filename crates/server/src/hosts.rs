//! Under which names requests over HTTP may reach this server.
//!
//! A page in a browser may send anything to the host that it came from. Its owner can let the name of
//! that host resolve to an address that only the browser reaches, this server's for example (DNS
//! rebinding). The request then still names the owner's host. Guarantees: a request that names a host
//! is served only if the host is an IP address, `localhost`, or one of the names that were given.
//! Refuses: to look at gRPC over HTTP/2, which browsers cannot speak without TLS, and at what is
//! public anyway.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use hyper::Request;
use hyper::header::HOST;

use crate::error::{Failure, Wrong};

/// What is served under every name, because it changes nothing and says nothing that is not public.
const PUBLIC: [&str; 3] = ["/livez", "/readyz", "/.well-known/jwks.json"];
/// Stands for every name.
const ANY: &str = "*";

/// The names that requests may use beside IP addresses and `localhost`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts(Arc<[String]>);

impl AllowedHosts {
    /// With these names, each with or without a port. `*` allows every name, `*.example.com` those
    /// below `example.com`.
    pub fn new<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> AllowedHosts {
        let names = names.into_iter().map(|name| without_port(name.as_ref()).to_ascii_lowercase());
        AllowedHosts(names.filter(|name| !name.is_empty()).collect())
    }

    /// Refuses a request to a host that is not allowed.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Failure> {
        if PUBLIC.contains(&request.uri().path()) {
            return Ok(());
        }
        let headers = request.headers().get_all(HOST).iter().map(|host| host.as_bytes());
        // HTTP/2 and requests for proxies have it here. Browsers always send one of both.
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        for host in headers.chain(authority) {
            let host = String::from_utf8_lossy(host);
            if !self.allows(&host) {
                return Err(Wrong::HostUnknown(host.into_owned()).into());
            }
        }
        Ok(())
    }

    fn allows(&self, host: &str) -> bool {
        let name = without_port(host).to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        let is_address = name.parse::<IpAddr>().is_ok();
        is_address || name == "localhost" || self.0.iter().any(|allowed| matches(allowed, name))
    }
}

fn matches(allowed: &str, name: &str) -> bool {
    match allowed.strip_prefix(ANY) {
        Some("") => true,
        Some(below) => below.starts_with('.') && name.len() > below.len() && name.ends_with(below),
        None => allowed == name,
    }
}

/// A host without its port, and an IPv6 address without its brackets.
fn without_port(host: &str) -> &str {
    if let Some((address, port)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        // Anything else behind an address makes a name of it.
        return if port.is_empty() || port.starts_with(':') { address } else { host };
    }
    match host.rsplit_once(':') {
        Some((name, _)) if host.parse::<Ipv6Addr>().is_err() => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_always_allowed() {
        let hosts = AllowedHosts::default();
        for host in
            ["127.0.0.1", "10.0.0.7:7420", "[::1]:7420", "[::1]", "LocalHost:1", "localhost."]
        {
            assert!(hosts.allows(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7420",
            "localhost.evil.example",
            "1.2.3.4.evil",
            "127.0.0.1@evil.example",
            "0x7f.1",
            "2130706433",
            "[evil.example]:1",
            "[::1].evil.example",
        ] {
            assert!(!hosts.allows(host), "{host}");
        }
    }

    #[test]
    fn given_names_are_allowed_and_no_others() {
        let hosts = AllowedHosts::new(["locks.example.com:7420", "*.cluster.local", ""]);
        for host in ["locks.example.com", "LOCKS.example.com.:80", "a.b.cluster.local"] {
            assert!(hosts.allows(host), "{host}");
        }
        for host in ["example.com", "alocks.example.com", "cluster.local", ".cluster.local", ""] {
            assert!(!hosts.allows(host), "{host}");
        }
        assert!(AllowedHosts::new(["*"]).allows("evil.example"));
    }

    #[test]
    fn every_host_of_a_request_must_be_allowed() {
        let request = |uri: &str, host: Option<&str>| {
            let mut request = Request::new(());
            *request.uri_mut() = uri.parse().expect("it is one");
            if let Some(host) = host {
                request.headers_mut().insert(HOST, host.parse().expect("it is one"));
            }
            AllowedHosts::default().check(&request)
        };
        for (uri, host) in
            [("/v1/kv", Some("127.0.0.1")), ("/v1/kv", None), ("/livez", Some("evil.example"))]
        {
            request(uri, host).expect("it is allowed");
        }
        for (uri, host) in [
            ("/v1/kv", Some("evil.example")),
            ("/metrics", Some("evil.example")),
            ("http://evil.example/v1/kv", Some("127.0.0.1")),
        ] {
            let refused = request(uri, host).expect_err("it is refused");
            assert_eq!((refused.code, refused.http), ("host_not_allowed", 421));
        }
    }
}
