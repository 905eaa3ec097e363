//! How a node is set up: from flags, the environment and the configuration file to values that can
//! be used.
//!
//! Owns: the flags of `serve`, and the order in which the sources count. Guarantees: every value
//! knows where it came from. Refuses: what contradicts itself, before anything is started.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum as _;
use clap::builder::BoolishValueParser;

use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::logs::Format;
use crate::origin::{Origin, Setting, Sources};

const DATA_DIR: &str = "./fencepost-data";
const LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 7420);
const PEER_LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 7421);
/// Where JSON over TCP is spoken, if it is and nothing else is said.
const JSON_TCP: ([u8; 4], u16) = ([127, 0, 0, 1], 9_000);
/// What `--id` is added to.
const NUMBERED_LISTEN: u16 = 50_050;
const NUMBERED_PEER_LISTEN: u16 = 8_080;
/// Far more than stand on one machine, and no port goes beyond its range.
const ID_MAX: u16 = 9_999;
const _: () = assert!(NUMBERED_LISTEN.checked_add(ID_MAX).is_some());
/// What is logged if nothing is said.
pub(crate) const LOG_LEVEL: &str = "info";

/// How a node is set up. Each of these can also stand in the configuration file, under the name of
/// its variable without the prefix and in lower case.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// Where the node keeps what it must not forget [default: ./fencepost-data]
    #[arg(long, env = "FENCEPOST_DATA_DIR", hide_env_values = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Where clients connect [default: 127.0.0.1:7420]
    #[arg(long, env = "FENCEPOST_LISTEN", hide_env_values = true, value_name = "ADDR")]
    listen: Option<SocketAddr>,

    /// Where other members connect [default: 127.0.0.1:7421]
    #[arg(long, env = "FENCEPOST_PEER_LISTEN", hide_env_values = true, value_name = "ADDR")]
    peer_listen: Option<SocketAddr>,

    /// A number: listen on 127.0.0.1 at the ports 50050+N for clients and 8080+N for other members,
    /// where nothing else is said. Anything else: the same as --name
    #[arg(long, env = "FENCEPOST_ID", hide_env_values = true, value_name = "N|NAME")]
    id: Option<Id>,

    /// Also speak JSON over TCP, one object per line [default address: 127.0.0.1:9000]
    #[arg(
        long,
        env = "FENCEPOST_JSON_TCP",
        hide_env_values = true,
        value_name = "ADDR",
        num_args = 0..=1,
        default_missing_value = "127.0.0.1:9000",
        conflicts_with_all = ["address", "port"]
    )]
    json_tcp: Option<SocketAddr>,

    /// Speak JSON over TCP at this address, with --port or at port 9000
    #[arg(long, value_name = "IP")]
    address: Option<IpAddr>,

    /// Speak JSON over TCP at this port, and call the node node-PORT if it has no other name
    #[arg(long)]
    port: Option<u16>,

    /// Begin with these: a list for --initial-cluster if it names nodes, for --join if it does not
    #[arg(long, value_name = "HOST:PORT,…", conflicts_with_all = ["initial_cluster", "join"])]
    peers: Option<String>,

    /// Where clients are told to connect, if that is not where the node listens
    #[arg(long, env = "FENCEPOST_ADVERTISE", hide_env_values = true, value_name = "HOST:PORT")]
    advertise: Option<String>,

    /// Where other members are told to connect, if that is not where the node listens
    #[arg(
        long,
        env = "FENCEPOST_PEER_ADVERTISE",
        hide_env_values = true,
        value_name = "HOST:PORT"
    )]
    peer_advertise: Option<String>,

    /// What people call the node [default: node-PORT, by the port for clients]
    #[arg(long, env = "FENCEPOST_NAME", hide_env_values = true)]
    name: Option<String>,

    /// Begin a new cluster of one; also what happens without any of these three
    #[arg(long, env = "FENCEPOST_BOOTSTRAP", hide_env_values = true, value_parser = BoolishValueParser::new())]
    bootstrap: bool,

    /// Begin a new cluster with others: the name and the peer address of every node, the same list
    /// for all of them
    #[arg(
        long,
        env = "FENCEPOST_INITIAL_CLUSTER",
        hide_env_values = true,
        value_name = "N1=HOST:PORT,…"
    )]
    initial_cluster: Option<String>,

    /// Join a cluster through the peer addresses of one or more of its members
    #[arg(long, env = "FENCEPOST_JOIN", hide_env_values = true, value_name = "HOST:PORT,…")]
    join: Option<String>,

    /// Listen on addresses that other machines reach, without encryption and without accounts
    #[arg(long, env = "FENCEPOST_INSECURE", hide_env_values = true, value_parser = BoolishValueParser::new())]
    insecure: bool,

    /// Names under which clients over HTTP may reach the node, beside IP addresses, localhost and
    /// the name in --advertise; *.example.com for all below one, * for any
    #[arg(long, env = "FENCEPOST_ALLOWED_HOSTS", hide_env_values = true, value_name = "NAME,…")]
    allowed_hosts: Option<String>,

    /// Client connections that one address may have [default: a quarter of all; from this machine,
    /// three quarters]
    #[arg(
        long,
        env = "FENCEPOST_CONNECTIONS_PER_ADDRESS",
        hide_env_values = true,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    connections_per_address: Option<u32>,

    /// What to log: error, warn, info, debug, trace [default: info]
    #[arg(long, env = "FENCEPOST_LOG_LEVEL", hide_env_values = true, value_name = "LEVEL")]
    log_level: Option<String>,

    /// How log lines look [default: text]
    #[arg(long, env = "FENCEPOST_LOG_FORMAT", hide_env_values = true, value_name = "FORMAT")]
    log_format: Option<Format>,
}

impl Args {
    /// How log lines look, by a flag or the environment.
    pub(crate) fn log_format(&self) -> Option<Format> {
        self.log_format
    }
}

/// How log lines look, as far as that can be known before the settings are, which may be wrong.
pub(crate) fn expected_format(given: Option<Format>, file: &Result<ConfigFile, Failure>) -> Format {
    let filed = || {
        let word = file.as_ref().ok()?.content.log_format.as_deref()?;
        Format::from_str(word, false).ok()
    };
    given.or_else(filed).unwrap_or_default()
}

/// How a node is set up, with where each value came from.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) data_dir: Setting<PathBuf>,
    pub(crate) listen: Setting<SocketAddr>,
    pub(crate) peer_listen: Setting<SocketAddr>,
    pub(crate) id: Setting<Option<u16>>,
    pub(crate) json_tcp: Setting<Option<SocketAddr>>,
    pub(crate) advertise: Setting<Option<String>>,
    pub(crate) peer_advertise: Setting<Option<String>>,
    pub(crate) name: Setting<Option<String>>,
    pub(crate) bootstrap: Setting<bool>,
    pub(crate) initial_cluster: Setting<Option<String>>,
    pub(crate) join: Setting<Option<String>>,
    pub(crate) insecure: Setting<bool>,
    pub(crate) allowed_hosts: Setting<Option<String>>,
    pub(crate) connections_per_address: Setting<Option<u32>>,
    pub(crate) log_level: Setting<String>,
    pub(crate) log_format: Setting<Format>,
}

impl Settings {
    /// Takes each value from where it counts first.
    pub(crate) fn resolve(
        mut args: Args,
        sources: &Sources,
        file: &ConfigFile,
    ) -> Result<Settings, Failure> {
        let layers = Layers { sources, file };
        let content = file.content.clone();
        let log_format = |word: &str| Format::from_str(word, false);
        let (number, called) = match args.id.take() {
            Some(Id::Number(number)) => (Some(number), None),
            Some(Id::Name(name)) => (None, Some(name)),
            None => (None, None),
        };
        let id = layers.maybe("id", number, layers.bounded("id", content.id, ID_MAX)?);
        let json_tcp = layers.json_tcp(&args, content.json_tcp)?;
        let name = layers.maybe("name", args.name.take(), content.name);
        let name = layers.or_other("id", called, name);
        let name = layers.or_other("port", args.port.map(|port| format!("node-{port}")), name);
        let (listed, joined) = match args.peers.take().filter(|peers| !peers.is_empty()) {
            Some(peers) if peers.contains('=') => (Some(peers), None),
            peers => (None, peers),
        };
        let numbered = |first: u16| id.value.map(|id| (LISTEN.0, first + id));
        let listen = numbered(NUMBERED_LISTEN).unwrap_or(LISTEN);
        let peer_listen = numbered(NUMBERED_PEER_LISTEN).unwrap_or(PEER_LISTEN);
        let mut settings = Settings {
            data_dir: layers.pick("data_dir", args.data_dir, content.data_dir, DATA_DIR.into()),
            listen: layers.address("listen", args.listen, content.listen, listen)?,
            peer_listen: layers.address(
                "peer_listen",
                args.peer_listen,
                content.peer_listen,
                peer_listen,
            )?,
            id,
            json_tcp,
            advertise: layers.maybe("advertise", args.advertise, content.advertise),
            peer_advertise: layers.maybe(
                "peer_advertise",
                args.peer_advertise,
                content.peer_advertise,
            ),
            name,
            bootstrap: layers.flag("bootstrap", args.bootstrap, content.bootstrap),
            initial_cluster: layers.given_or(
                "peers",
                listed,
                layers.maybe("initial_cluster", args.initial_cluster, content.initial_cluster),
            ),
            join: layers.given_or("peers", joined, layers.maybe("join", args.join, content.join)),
            insecure: layers.flag("insecure", args.insecure, content.insecure),
            allowed_hosts: layers.maybe("allowed_hosts", args.allowed_hosts, content.allowed_hosts),
            connections_per_address: layers.maybe(
                "connections_per_address",
                args.connections_per_address,
                layers.positive("connections_per_address", content.connections_per_address)?,
            ),
            log_level: layers.pick(
                "log_level",
                args.log_level,
                content.log_level,
                LOG_LEVEL.into(),
            ),
            log_format: layers.pick(
                "log_format",
                args.log_format,
                layers.parsed("log_format", content.log_format, log_format)?,
                Format::default(),
            ),
        };
        settings.choose_beginning()?;
        Ok(settings)
    }

    /// The three ways to begin exclude each other. One that was given closer to the command line
    /// wins over the others; two that were given in the same place contradict each other.
    fn choose_beginning(&mut self) -> Result<(), Failure> {
        let mut given: Vec<(Origin, &str)> = Vec::new();
        if self.bootstrap.value {
            given.push((self.bootstrap.origin.clone(), "--bootstrap"));
        }
        let lists = [(&self.initial_cluster, "--initial-cluster"), (&self.join, "--join")];
        for (setting, flag) in lists {
            if setting.value.is_some() {
                given.push((setting.origin.clone(), flag));
            }
        }
        let Some((closest, _)) = given.iter().min().cloned() else { return Ok(()) };
        let same: Vec<&str> =
            given.iter().filter(|(origin, _)| *origin == closest).map(|(_, flag)| *flag).collect();
        if same.len() > 1 {
            return Err(Failure::usage(
                "cannot tell how the cluster is to begin",
                format!("{} contradict each other", same.join(" and ")),
                "give only one of them: a node begins alone, with others, or joins",
            ));
        }
        let is_closest = |origin: &Origin| *origin == closest;
        if !is_closest(&self.bootstrap.origin) {
            self.bootstrap = Setting { value: false, origin: Origin::Default };
        }
        for setting in [&mut self.initial_cluster, &mut self.join] {
            if !is_closest(&setting.origin) {
                *setting = Setting { value: None, origin: Origin::Default };
            }
        }
        Ok(())
    }
}

/// How a node is called: by a number, which also chooses its ports, or by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    Number(u16),
    Name(String),
}

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Id, String> {
        if text.is_empty() {
            return Err("a number or a name is needed".to_owned());
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(Id::Name(text.to_owned()));
        }
        let number = text.parse().ok().filter(|&number: &u16| number <= ID_MAX);
        number.map(Id::Number).ok_or_else(|| format!("a number is at most {ID_MAX}"))
    }
}

/// The places that a value may come from.
pub(crate) struct Layers<'a> {
    pub(crate) sources: &'a Sources,
    pub(crate) file: &'a ConfigFile,
}

impl Layers<'_> {
    pub(crate) fn pick<T>(
        &self,
        id: &str,
        given: Option<T>,
        filed: Option<T>,
        default: T,
    ) -> Setting<T> {
        let found = self.maybe(id, given, filed);
        Setting { value: found.value.unwrap_or(default), origin: found.origin }
    }

    pub(crate) fn maybe<T>(
        &self,
        id: &str,
        given: Option<T>,
        filed: Option<T>,
    ) -> Setting<Option<T>> {
        if let (Some(origin), Some(value)) = (self.sources.origin(id), given) {
            return Setting { value: Some(value), origin };
        }
        match (filed, &self.file.path) {
            (Some(value), Some(path)) => {
                Setting { value: Some(value), origin: Origin::File(path.clone()) }
            }
            _ => Setting { value: None, origin: Origin::Default },
        }
    }

    /// What was given by another flag, and otherwise what was found.
    fn given_or(
        &self,
        id: &str,
        given: Option<String>,
        found: Setting<Option<String>>,
    ) -> Setting<Option<String>> {
        match (self.sources.origin(id), given) {
            (Some(origin), Some(value)) => Setting { value: Some(value), origin },
            _ => found,
        }
    }

    /// What was found, and otherwise what another flag stands for.
    fn or_other(
        &self,
        id: &str,
        given: Option<String>,
        found: Setting<Option<String>>,
    ) -> Setting<Option<String>> {
        if found.value.is_some() { found } else { self.given_or(id, given, found) }
    }

    /// Where JSON over TCP is spoken: as one address, or as its two parts.
    fn json_tcp(
        &self,
        args: &Args,
        filed: Option<String>,
    ) -> Result<Setting<Option<SocketAddr>>, Failure> {
        let filed = self.parsed("json_tcp", filed, SocketAddr::from_str)?;
        let parts = self.sources.origin("port").or_else(|| self.sources.origin("address"));
        if let (Some(origin), None) = (parts, args.json_tcp) {
            let usual = SocketAddr::from(JSON_TCP);
            let ip = args.address.unwrap_or(usual.ip());
            let value = Some(SocketAddr::new(ip, args.port.unwrap_or(usual.port())));
            return Ok(Setting { value, origin });
        }
        Ok(self.maybe("json_tcp", args.json_tcp, filed))
    }

    pub(crate) fn flag(&self, id: &str, given: bool, filed: Option<bool>) -> Setting<bool> {
        self.pick(id, self.sources.origin(id).map(|_| given), filed, false)
    }

    pub(crate) fn address(
        &self,
        id: &str,
        given: Option<SocketAddr>,
        filed: Option<String>,
        default: ([u8; 4], u16),
    ) -> Result<Setting<SocketAddr>, Failure> {
        let filed = self.parsed(id, filed, SocketAddr::from_str)?;
        Ok(self.pick(id, given, filed, SocketAddr::from(default)))
    }

    fn bounded(&self, id: &str, filed: Option<u16>, most: u16) -> Result<Option<u16>, Failure> {
        let within = |_: &str| match filed {
            Some(number) if number > most => Err(format!("it is at most {most}")),
            number => Ok(number),
        };
        let found = self.parsed(id, filed.map(|number| number.to_string()), within)?;
        Ok(found.flatten())
    }

    fn positive(&self, id: &str, filed: Option<u32>) -> Result<Option<u32>, Failure> {
        let above_zero = |_: &str| match filed {
            Some(0) => Err("it is at least 1"),
            number => Ok(number),
        };
        let found = self.parsed(id, filed.map(|number| number.to_string()), above_zero)?;
        Ok(found.flatten())
    }

    /// What stands in the file, understood.
    pub(crate) fn parsed<T, E: Display>(
        &self,
        id: &str,
        filed: Option<String>,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Failure> {
        let Some(text) = filed else { return Ok(None) };
        let path = self.file.path.as_deref().unwrap_or("the configuration file".as_ref());
        parse(&text).map(Some).map_err(|why| {
            Failure::usage(
                format!("cannot use the configuration file {}", path.display()),
                format!("{id} = {text:?}: {why}"),
                format!("correct the value of {id}"),
            )
        })
    }
}

#[cfg(test)]
mod tests;
