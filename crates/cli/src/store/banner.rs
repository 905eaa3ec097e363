//! What a store says when it is ready: where it is, and lines that work when they are pasted.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use fencepost_fence::Repeats;

use super::settings::{Place, Settings};
use crate::logs;

/// Shows it on standard error.
pub(super) fn show(settings: &Settings, at: SocketAddr) {
    let message = format!("fencepost {} store is ready", env!("CARGO_PKG_VERSION"));
    let url = format!("http://{}/", reachable(at));
    let mut text = Vec::new();
    // It fails only if the text does, which grows.
    let _ = write_for_people(&mut text, settings, &message, &url);
    let (label, place) = place(settings);
    let fields = [("url", url), ("tokens", tokens(settings)), (label, place)];
    logs::show(&String::from_utf8_lossy(&text), &message, &fields);
}

fn write_for_people(
    out: &mut impl Write,
    settings: &Settings,
    message: &str,
    url: &str,
) -> io::Result<()> {
    writeln!(out, "{message}")?;
    writeln!(out, "  writes    POST {url} or {url}write")?;
    writeln!(out, "  reads     GET {url}, {url}?key=K")?;
    writeln!(out, "  tokens    {}", tokens(settings))?;
    let (label, place) = place(settings);
    writeln!(out, "  {label:<8}  {place}")?;
    writeln!(out, "\nTry, in another terminal:\n")?;
    match (settings.require_signed, &settings.place) {
        (true, _) => show_under_lock(out, url, "\\\"signed\\\":\\\"$FENCEPOST_SIGNED_TOKEN\\\"")?,
        (false, Place::Cluster(_)) => {
            show_under_lock(out, url, "\\\"value\\\":$FENCEPOST_TOKEN")?;
        }
        (false, Place::File(_)) => show_bare(out, url)?,
    }
    writeln!(out, "  curl -s {url}")
}

/// Where the data is, under its name.
fn place(settings: &Settings) -> (&'static str, String) {
    match &settings.place {
        Place::File(file) => ("file", file.display().to_string()),
        Place::Cluster(prefix) => ("keys", format!("{prefix}... in the cluster")),
    }
}

fn tokens(settings: &Settings) -> String {
    let repeats = match settings.repeats {
        Repeats::Accepted => "",
        Repeats::SameData => "; each writes one thing",
        Repeats::Refused => "; each writes once",
    };
    let kind = match (&settings.trust, settings.require_signed) {
        (None, _) if matches!(settings.place, Place::Cluster(_)) => {
            "those that hold their lock".to_owned()
        }
        (None, _) => "bare numbers, believed as they are".to_owned(),
        (Some(trust), false) => format!("bare numbers, or signed by cluster {}", trust.cluster),
        (Some(trust), true) => format!("signed by cluster {}, and no others", trust.cluster),
    };
    kind + repeats
}

/// The second one is refused: that is what the store is for.
fn show_bare(out: &mut impl Write, url: &str) -> io::Result<()> {
    for (client, token, data) in [("a", 5, "five"), ("b", 4, "four")] {
        let token = format!(r#"{{"key":"k","value":{token}}}"#);
        let body = format!(r#"{{"clientID":"{client}","fencingToken":{token},"data":"{data}"}}"#);
        writeln!(out, "  curl -s -d '{body}' {url}")?;
    }
    Ok(())
}

/// Only a holder has a token that is worth anything.
fn show_under_lock(out: &mut impl Write, url: &str, token: &str) -> io::Result<()> {
    let token = format!(r#"{{\"key\":\"k\",{token}}}"#);
    let body = format!(r#"{{\"clientID\":\"\",\"fencingToken\":{token},\"data\":\"hello\"}}"#);
    writeln!(out, "  fencepost lock k -- sh -c 'curl -s -d \"{body}\" {url}'")
}

/// Nobody can connect to all addresses at once.
fn reachable(at: SocketAddr) -> SocketAddr {
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, at.port())
}
