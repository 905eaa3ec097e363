//! How a store is set up: from flags, the environment and the configuration file to values that
//! can be used.
//!
//! Owns: the flags of `store`. Its variables begin with `FENCEPOST_STORE_`, so that a store and a
//! node can be set up in one place. Refuses: what contradicts itself, before anything is started.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum as _;
use clap::builder::BoolishValueParser;
use fencepost_fence::Repeats;
use serde_json::Value;

use super::data_key;
use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::logs::Format;
use crate::origin::{Origin, Setting, Sources};
use crate::settings::{LOG_LEVEL, Layers};

const LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 8000);
const FILE: &str = "data.txt";
const PREFIX: &str = "data:";

/// How a store is set up. Each of these can also stand in the configuration file, under the name of
/// its variable without the prefix and in lower case.
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Args {
    /// Where clients connect [default: 127.0.0.1:8000]
    #[arg(
        id = "store_listen",
        long = "listen",
        env = "FENCEPOST_STORE_LISTEN",
        hide_env_values = true,
        value_name = "ADDR"
    )]
    listen: Option<SocketAddr>,

    /// The text file with everything in it; it is made if it is not there [default: data.txt]
    #[arg(
        id = "store_file",
        long = "file",
        env = "FENCEPOST_STORE_FILE",
        hide_env_values = true,
        value_name = "FILE"
    )]
    file: Option<PathBuf>,

    /// Keep everything in the cluster at --endpoints instead of a file. Each write is one transaction
    /// with the check that its token holds the lock
    #[arg(
        id = "store_replicated",
        long = "replicated",
        env = "FENCEPOST_STORE_REPLICATED",
        hide_env_values = true,
        value_parser = BoolishValueParser::new()
    )]
    replicated: bool,

    /// What the keys in the cluster begin with. Needs --replicated [default: data:]
    #[arg(
        id = "store_prefix",
        long = "prefix",
        env = "FENCEPOST_STORE_PREFIX",
        hide_env_values = true,
        value_name = "PREFIX"
    )]
    prefix: Option<String>,

    /// Accept signed tokens only. Needs --jwks and --cluster
    #[arg(
        id = "store_require_signed",
        long = "require-signed",
        env = "FENCEPOST_STORE_REQUIRE_SIGNED",
        hide_env_values = true,
        value_parser = BoolishValueParser::new()
    )]
    require_signed: bool,

    /// The public keys of the cluster: a file, or where they are fetched from, as
    /// http://127.0.0.1:7420/.well-known/jwks.json
    #[arg(
        id = "store_jwks",
        long = "jwks",
        env = "FENCEPOST_STORE_JWKS",
        hide_env_values = true,
        value_name = "FILE|URL"
    )]
    jwks: Option<String>,

    /// The cluster whose signatures count, as `fencepost status` shows it
    #[arg(
        id = "store_cluster",
        long = "cluster",
        env = "FENCEPOST_STORE_CLUSTER",
        hide_env_values = true,
        value_name = "ID"
    )]
    cluster: Option<String>,

    /// The name by which signed tokens may be meant for this store alone
    #[arg(
        id = "store_audience",
        long = "audience",
        env = "FENCEPOST_STORE_AUDIENCE",
        hide_env_values = true,
        value_name = "NAME"
    )]
    audience: Option<String>,

    /// Let each exclusive token write once under a key, instead of as often as it likes
    #[arg(
        id = "store_strict",
        long = "strict",
        env = "FENCEPOST_STORE_STRICT",
        hide_env_values = true,
        value_parser = BoolishValueParser::new()
    )]
    strict: bool,

    /// Let an exclusive token write again only what it wrote last: a retry
    #[arg(
        id = "store_same_data",
        long = "same-data",
        env = "FENCEPOST_STORE_SAME_DATA",
        hide_env_values = true,
        value_parser = BoolishValueParser::new(),
        conflicts_with = "store_strict"
    )]
    same_data: bool,

    /// Listen on an address that other machines reach, without encryption and without accounts
    #[arg(
        id = "store_insecure",
        long = "insecure",
        env = "FENCEPOST_STORE_INSECURE",
        hide_env_values = true,
        value_parser = BoolishValueParser::new()
    )]
    insecure: bool,

    /// What to log: error, warn, info, debug, trace [default: info]
    #[arg(long, env = "FENCEPOST_LOG_LEVEL", hide_env_values = true, value_name = "LEVEL")]
    log_level: Option<String>,

    /// How log lines look [default: text]
    #[arg(long, env = "FENCEPOST_LOG_FORMAT", hide_env_values = true, value_name = "FORMAT")]
    log_format: Option<Format>,
}

impl Args {
    /// How log lines look, by a flag or the environment.
    pub(super) fn log_format(&self) -> Option<Format> {
        self.log_format
    }
}

/// Every setting of a store but those of its log, as the environment and the file have it.
pub(crate) fn shown(file: &ConfigFile) -> Vec<(&'static str, Setting<Value>)> {
    let listen = SocketAddr::from(LISTEN).to_string();
    let all: [(&'static str, &str, Value); 11] = [
        ("store_listen", "FENCEPOST_STORE_LISTEN", listen.into()),
        ("store_file", "FENCEPOST_STORE_FILE", FILE.into()),
        ("store_replicated", "FENCEPOST_STORE_REPLICATED", false.into()),
        ("store_prefix", "FENCEPOST_STORE_PREFIX", PREFIX.into()),
        ("store_require_signed", "FENCEPOST_STORE_REQUIRE_SIGNED", false.into()),
        ("store_jwks", "FENCEPOST_STORE_JWKS", Value::Null),
        ("store_cluster", "FENCEPOST_STORE_CLUSTER", Value::Null),
        ("store_audience", "FENCEPOST_STORE_AUDIENCE", Value::Null),
        ("store_strict", "FENCEPOST_STORE_STRICT", false.into()),
        ("store_same_data", "FENCEPOST_STORE_SAME_DATA", false.into()),
        ("store_insecure", "FENCEPOST_STORE_INSECURE", false.into()),
    ];
    let filed = serde_json::to_value(&file.content).unwrap_or_default();
    let one = |(key, variable, default): (&'static str, &str, Value)| {
        let given = std::env::var_os(variable).filter(|value| !value.is_empty());
        let setting = match (given, filed.get(key).filter(|value| !value.is_null()), &file.path) {
            (Some(value), ..) => {
                Setting { value: value.to_string_lossy().into(), origin: Origin::Environment }
            }
            (None, Some(value), Some(path)) => {
                Setting { value: value.clone(), origin: Origin::File(path.clone()) }
            }
            _ => Setting { value: default, origin: Origin::Default },
        };
        (key, setting)
    };
    all.into_iter().map(one).collect()
}

/// How a store is set up.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) listen: SocketAddr,
    pub(crate) place: Place,
    pub(crate) require_signed: bool,
    /// Whose signatures count, if any do.
    pub(crate) trust: Option<Trust>,
    /// What to do with a token that has written already.
    pub(crate) repeats: Repeats,
    pub(crate) insecure: bool,
    pub(crate) log_level: String,
}

/// Where the data lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In one file.
    File(PathBuf),
    /// In the cluster, under keys that begin like this.
    Cluster(String),
}

/// Whose signatures count.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    /// A file, or where they are fetched from.
    pub(crate) jwks: String,
    pub(crate) cluster: String,
    pub(crate) audience: Option<String>,
}

impl Settings {
    /// Takes each value from where it counts first.
    pub(crate) fn resolve(
        args: Args,
        sources: &Sources,
        file: &ConfigFile,
    ) -> Result<Settings, Failure> {
        let layers = Layers { sources, file };
        let content = file.content.clone();
        let log_format = |word: &str| Format::from_str(word, false);
        // It counts before the settings do.
        layers.parsed("log_format", content.log_format, log_format)?;
        let jwks = layers.maybe("store_jwks", args.jwks, content.store_jwks).value;
        let strict = layers.flag("store_strict", args.strict, content.store_strict).value;
        let same_data =
            layers.flag("store_same_data", args.same_data, content.store_same_data).value;
        let cluster = layers.maybe("store_cluster", args.cluster, content.store_cluster).value;
        let audience = layers.maybe("store_audience", args.audience, content.store_audience).value;
        let require_signed =
            layers.flag("store_require_signed", args.require_signed, content.store_require_signed);
        let replicated = layers.flag("store_replicated", args.replicated, content.store_replicated);
        let file_setting = layers.maybe("store_file", args.file, content.store_file);
        let prefix = layers.maybe("store_prefix", args.prefix, content.store_prefix);
        let listen =
            layers.address("store_listen", args.listen, content.store_listen, LISTEN)?.value;
        Ok(Settings {
            listen,
            place: place(replicated, file_setting, prefix)?,
            require_signed: require_signed.value,
            trust: trust(jwks, cluster, audience, require_signed.value)?,
            repeats: match (strict, same_data) {
                (true, _) => Repeats::Refused,
                (false, true) => Repeats::SameData,
                (false, false) => Repeats::Accepted,
            },
            insecure: layers.flag("store_insecure", args.insecure, content.store_insecure).value,
            log_level: layers
                .pick("log_level", args.log_level, content.log_level, LOG_LEVEL.into())
                .value,
        })
    }
}

/// A setting that contradicts another counts less only if it comes from a place that counts less.
fn place(
    replicated: Setting<bool>,
    file: Setting<Option<PathBuf>>,
    prefix: Setting<Option<String>>,
) -> Result<Place, Failure> {
    let refused = |why: String, remedy: &str| {
        Err(Failure::usage("cannot tell where the data is to be kept", why, remedy))
    };
    match (replicated.value, file.value, prefix.value) {
        (true, Some(_), _) if file.origin <= replicated.origin => {
            refused("--file and --replicated contradict each other".to_owned(), "leave one out")
        }
        (false, _, Some(_)) => {
            refused("--prefix says nothing without --replicated".to_owned(), "add --replicated")
        }
        (false, file, None) => Ok(Place::File(file.unwrap_or_else(|| FILE.into()))),
        (true, _, prefix) => {
            let prefix = prefix.unwrap_or_else(|| PREFIX.to_owned());
            match data_key::check_prefix(&prefix) {
                Ok(()) => Ok(Place::Cluster(prefix)),
                Err(why) => refused(format!("the prefix {prefix:?}: {why}"), "end it with a colon"),
            }
        }
    }
}

/// Keys say nothing without the cluster that they belong to, and the other way round.
fn trust(
    jwks: Option<String>,
    cluster: Option<String>,
    audience: Option<String>,
    is_required: bool,
) -> Result<Option<Trust>, Failure> {
    let missing = match (&jwks, &cluster) {
        (Some(_), Some(_)) => None,
        (Some(_), None) => Some(("--jwks", "--cluster ID, as `fencepost status` shows it")),
        (None, _) if is_required => Some(("--require-signed", "--jwks FILE|URL and --cluster ID")),
        (None, Some(_)) => Some(("--cluster", "--jwks FILE|URL")),
        (None, None) if audience.is_some() => Some(("--audience", "--jwks FILE|URL")),
        (None, None) => None,
    };
    if let Some((given, needed)) = missing {
        return Err(Failure::usage(
            "cannot tell whose signatures count",
            format!("{given} alone does not say it"),
            format!("add {needed}"),
        ));
    }
    Ok(jwks.zip(cluster).map(|(jwks, cluster)| Trust { jwks, cluster, audience }))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;
    use crate::config_file::Content;

    /// Parses a command line without looking at the environment.
    fn resolved(argv: &[&str], content: Content) -> Result<Settings, Failure> {
        let command = Args::augment_args(Command::new("store").no_binary_name(true));
        let command = command.mut_args(|arg| arg.env(None::<&str>));
        let matches = command.try_get_matches_from(argv).expect("the arguments are known");
        let args = Args::from_arg_matches(&matches).expect("the arguments are known");
        let file = ConfigFile { path: Some(Path::new("a.toml").to_owned()), content };
        Settings::resolve(args, &Sources::of(&matches), &file)
    }

    // Requirements: S1-001.
    #[test]
    fn a_store_has_settings_of_its_own() {
        let content = Content {
            store_listen: Some("127.0.0.1:1".to_owned()),
            store_file: Some("filed.txt".into()),
            store_strict: Some(true),
            // These are a node's, and not a store's.
            listen: Some("127.0.0.1:9".to_owned()),
            insecure: Some(true),
            ..Content::default()
        };
        let settings = resolved(&["--listen", "127.0.0.1:2"], content).expect("it makes sense");
        assert_eq!(settings.listen.port(), 2);
        assert_eq!(settings.place, Place::File("filed.txt".into()));
        assert_eq!((settings.repeats, settings.insecure), (Repeats::Refused, false));
        let settings = resolved(&[], Content::default()).expect("it makes sense");
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8000");
        assert_eq!(settings.place, Place::File("data.txt".into()));
        assert!(settings.trust.is_none() && !settings.require_signed);
    }

    #[test]
    fn a_replicated_store_has_a_prefix_and_no_file() {
        let place = |argv: &[&str], content| resolved(argv, content).map(|one| one.place);
        let cluster = |prefix: &str| Ok(Place::Cluster(prefix.to_owned()));
        assert_eq!(place(&["--replicated"], Content::default()), cluster("data:"));
        let prefixed = ["--replicated", "--prefix", "team/a:"];
        assert_eq!(place(&prefixed, Content::default()), cluster("team/a:"));
        // The flag counts before the file of settings.
        let content = || Content { store_file: Some("f".into()), ..Content::default() };
        assert_eq!(place(&["--replicated"], content()), cluster("data:"));
        for argv in [
            &["--replicated", "--file", "f"][..],
            &["--prefix", "data:"],
            &["--replicated", "--prefix", ""],
            &["--replicated", "--prefix", "data/"],
            &["--replicated", "--prefix", "cafe"],
        ] {
            let refused = place(argv, Content::default()).expect_err("it contradicts itself");
            let text = refused.to_string();
            assert!(text.starts_with("cannot tell where the data is to be kept"), "{text}");
        }
        let content = Content { store_replicated: Some(true), ..content() };
        assert!(place(&[], content).is_err());
    }

    #[test]
    fn half_of_a_trust_is_refused() {
        let halves = [
            &["--require-signed"][..],
            &["--require-signed", "--cluster", "c"],
            &["--require-signed", "--jwks", "f"],
            &["--jwks", "f"],
            &["--cluster", "c"],
            &["--audience", "a"],
        ];
        for argv in halves {
            let refused = resolved(argv, Content::default()).expect_err("one alone says nothing");
            assert!(refused.to_string().contains("add --"), "{argv:?}: {refused}");
        }
        let whole = ["--jwks", "f", "--cluster", "c"];
        let settings = resolved(&whole, Content::default()).expect("it makes sense");
        assert!(settings.trust.is_some() && !settings.require_signed);
    }
}
