//! Where the service is, and how a verb reaches it.

use std::path::PathBuf;
use std::time::Duration;

use fencepost_client::Client;

use crate::config_file::ConfigFile;
use crate::failure::{Failure, Told as _};
use crate::origin::{Origin, Setting};
use crate::words::parse_length;

/// Where the service is if nothing else is said.
const ENDPOINT: &str = "http://127.0.0.1:7420";

/// How long to wait for an answer if nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Which service is meant. Every verb that talks to one takes these.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Endpoints {
    /// Where members of the cluster are, separated by commas [default: http://127.0.0.1:7420]
    #[arg(
        long,
        env = "FENCEPOST_ENDPOINTS",
        hide_env_values = true,
        global = true,
        value_delimiter = ',',
        value_name = "URL,…",
        help_heading = "Global options"
    )]
    endpoints: Option<Vec<String>>,

    /// How long to wait for an answer, other than for a lock [default: 5s]
    #[arg(
        long,
        env = "FENCEPOST_TIMEOUT",
        hide_env_values = true,
        global = true,
        value_parser = parse_length,
        value_name = "TIME",
        help_heading = "Global options"
    )]
    timeout: Option<Duration>,

    /// Read this configuration file [default: ./fencepost.toml or /etc/fencepost/fencepost.toml, if
    /// there is one]
    #[arg(
        long,
        env = "FENCEPOST_CONFIG",
        hide_env_values = true,
        global = true,
        value_name = "FILE",
        help_heading = "Global options"
    )]
    config: Option<PathBuf>,
}

impl Endpoints {
    /// Connects, and waits until the service has answered. `name` says which verb it is, so that
    /// people who look at a queue see what stands in it. An answer may take `patience`, if that is
    /// longer than what the user has said.
    pub(crate) async fn connect(&self, name: &str, patience: Duration) -> anyhow::Result<Client> {
        let file = self.file()?;
        let endpoints = self.resolve(None, &file)?.value;
        let timeout = self.timeout(None, &file)?.value;
        let doing = format!("reach the service at {}", endpoints.join(", "));
        let builder = Client::builder().endpoints(endpoints).name(name);
        let builder = builder.request_timeout(timeout.max(patience));
        Ok(builder.connect().await.told(doing)?)
    }

    /// The same, with this address in the place of all others.
    pub(crate) fn only(&self, address: &str) -> Endpoints {
        Endpoints { endpoints: Some(vec![address.to_owned()]), ..self.clone() }
    }

    /// The configuration file.
    pub(crate) fn file(&self) -> Result<ConfigFile, Failure> {
        ConfigFile::load(self.config.as_deref())
    }

    /// How long to wait for an answer, and where that was said.
    pub(crate) fn timeout(
        &self,
        given: Option<Origin>,
        file: &ConfigFile,
    ) -> Result<Setting<Duration>, Failure> {
        Ok(match (self.timeout, &file.content.timeout, &file.path) {
            (Some(value), ..) => {
                Setting { value, origin: given.unwrap_or_else(|| given_by("--timeout")) }
            }
            (None, Some(text), Some(path)) => {
                let value = file.parsed("timeout", text, parse_length)?;
                Setting { value, origin: Origin::File(path.clone()) }
            }
            _ => Setting { value: TIMEOUT, origin: Origin::Default },
        })
    }

    /// Where the service is, and who said so. `given` is how the argument was given, if anybody
    /// wants to know.
    pub(crate) fn resolve(
        &self,
        given: Option<Origin>,
        file: &ConfigFile,
    ) -> Result<Setting<Vec<String>>, Failure> {
        let named = |value, origin| Setting { value, origin };
        let found = match (&self.endpoints, &file.content.endpoints, &file.path) {
            (Some(listed), ..) => {
                named(listed.clone(), given.unwrap_or_else(|| given_by("--endpoints")))
            }
            (None, Some(listed), Some(path)) => {
                named(listed.clone().into(), Origin::File(path.clone()))
            }
            _ => named(vec![ENDPOINT.to_owned()], Origin::Default),
        };
        let value: Vec<String> = found.value.iter().map(|one| one.trim().to_owned()).collect();
        if value.is_empty() || value.iter().any(String::is_empty) {
            let why = format!("the list of endpoints has an empty place in it ({})", found.origin);
            let remedy = "name them as http://HOST:PORT, separated by commas";
            return Err(Failure::usage("cannot tell where the service is", why, remedy));
        }
        let scheme = |one: &&String| one.split_once("://").map(|(scheme, _)| scheme.to_owned());
        if let Some(other) = value.iter().find(|one| scheme(one).is_some_and(|it| it != "http")) {
            let why = "only http:// is spoken: there is no encryption yet";
            let remedy = "name the endpoint as http://HOST:PORT";
            return Err(Failure::usage(format!("cannot use the endpoint {other}"), why, remedy));
        }
        Ok(Setting { value, origin: found.origin })
    }
}

/// Where an argument came from that was given and has a variable too.
fn given_by(flag: &str) -> Origin {
    let is_flag = |word: &std::ffi::OsString| word.as_encoded_bytes().starts_with(flag.as_bytes());
    match std::env::args_os().take_while(|word| word != "--").any(|word| is_flag(&word)) {
        true => Origin::Flag,
        false => Origin::Environment,
    }
}
