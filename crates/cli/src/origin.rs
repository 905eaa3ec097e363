//! Where a value came from: a flag, the environment, the configuration file, or nowhere.
//!
//! Guarantees: flags win over the environment, that over the file, that over the default. Each
//! value keeps where it came from, so that `config show` can say it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::ArgMatches;
use clap::parser::ValueSource;
use serde::{Serialize, Serializer};

/// Where a value came from. The earlier one in this list wins.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// The command line.
    Flag,
    /// The environment.
    Environment,
    /// The configuration file.
    File(PathBuf),
    /// Nobody has said anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment => f.write_str("environment"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let word = match self {
            Origin::Flag => "flag",
            Origin::Environment => "environment",
            Origin::File(_) => "file",
            Origin::Default => "default",
        };
        serializer.serialize_str(word)
    }
}

/// A value, and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// Which arguments were given, and how.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources(BTreeMap<String, Origin>);

impl Sources {
    /// Of the verb that was called. Arguments that may stand before the verb count as its own.
    pub(crate) fn of(matches: &ArgMatches) -> Sources {
        let mut verb = matches;
        while let Some((_, next)) = verb.subcommand() {
            verb = next;
        }
        let given = verb.ids().filter_map(|id| {
            let origin = match verb.value_source(id.as_str())? {
                ValueSource::CommandLine => Origin::Flag,
                ValueSource::EnvVariable => Origin::Environment,
                _ => return None,
            };
            Some((id.as_str().to_owned(), origin))
        });
        Sources(given.collect())
    }

    /// How an argument was given, if it was.
    pub(crate) fn origin(&self, id: &str) -> Option<Origin> {
        self.0.get(id).cloned()
    }
}
