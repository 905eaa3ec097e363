//! The configuration file: TOML, flat, with the names of the environment in lower case.
//!
//! Owns: which file is read, and what may stand in it. Refuses: keys that it does not know, because
//! a setting with a spelling mistake would silently not count.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Looked at in this order if no file is named. The first one that exists counts, alone.
pub(crate) const USUAL_PLACES: [&str; 2] = ["fencepost.toml", "/etc/fencepost/fencepost.toml"];

/// What may stand in the file.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Content {
    pub(crate) endpoints: Option<Endpoints>,
    pub(crate) timeout: Option<String>,
    pub(crate) output: Option<String>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) listen: Option<String>,
    pub(crate) peer_listen: Option<String>,
    pub(crate) id: Option<u16>,
    pub(crate) json_tcp: Option<String>,
    pub(crate) advertise: Option<String>,
    pub(crate) peer_advertise: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) bootstrap: Option<bool>,
    pub(crate) initial_cluster: Option<String>,
    pub(crate) join: Option<String>,
    pub(crate) insecure: Option<bool>,
    pub(crate) allowed_hosts: Option<String>,
    pub(crate) connections_per_address: Option<u32>,
    pub(crate) log_level: Option<String>,
    pub(crate) log_format: Option<String>,
    pub(crate) store_listen: Option<String>,
    pub(crate) store_file: Option<PathBuf>,
    pub(crate) store_replicated: Option<bool>,
    pub(crate) store_prefix: Option<String>,
    pub(crate) store_require_signed: Option<bool>,
    pub(crate) store_jwks: Option<String>,
    pub(crate) store_cluster: Option<String>,
    pub(crate) store_audience: Option<String>,
    pub(crate) store_strict: Option<bool>,
    pub(crate) store_same_data: Option<bool>,
    pub(crate) store_insecure: Option<bool>,
}

/// Where members are: a list, or a text with commas, as the flag takes it.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(untagged, expecting = "expected a text with commas, or a list of texts")]
pub(crate) enum Endpoints {
    Text(String),
    List(Vec<String>),
}

impl From<Endpoints> for Vec<String> {
    fn from(endpoints: Endpoints) -> Vec<String> {
        match endpoints {
            Endpoints::Text(text) => text.split(',').map(str::to_owned).collect(),
            Endpoints::List(list) => list,
        }
    }
}

/// A configuration file that was read; without a path, there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigFile {
    pub(crate) path: Option<PathBuf>,
    pub(crate) content: Content,
}

impl ConfigFile {
    /// Reads the file that was named, or the first one at a usual place.
    pub(crate) fn load(named: Option<&Path>) -> Result<ConfigFile, Failure> {
        match named {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|why| unreadable(path, &why))?;
                ConfigFile::parse(path, &text)
            }
            None => ConfigFile::find(),
        }
    }

    /// What stands in the file under `key`, understood.
    pub(crate) fn parsed<T>(
        &self,
        key: &str,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let path = self.path.as_deref().unwrap_or("the configuration file".as_ref());
        parse(text).map_err(|why| {
            Failure::usage(
                format!("cannot use the configuration file {}", path.display()),
                format!("{key} = {text:?}: {why}"),
                format!("correct the value of {key}"),
            )
        })
    }

    fn find() -> Result<ConfigFile, Failure> {
        for place in USUAL_PLACES.map(Path::new) {
            match fs::read_to_string(place) {
                Ok(text) => return ConfigFile::parse(place, &text),
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                Err(why) => return Err(unreadable(place, &why)),
            }
        }
        Ok(ConfigFile::default())
    }

    fn parse(path: &Path, text: &str) -> Result<ConfigFile, Failure> {
        let content = toml::from_str(text).map_err(|why| {
            let before = why.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            Failure::usage(
                format!("cannot use the configuration file {}", path.display()),
                format!("line {line}: {}", why.message()),
                "correct the line; `serve --help` and `store --help` list every key",
            )
        })?;
        Ok(ConfigFile { path: Some(path.to_owned()), content })
    }
}

fn unreadable(path: &Path, why: &io::Error) -> Failure {
    Failure::usage(
        format!("cannot read the configuration file {}", path.display()),
        format!("the system says: {why}"),
        "name another file with --config or FENCEPOST_CONFIG, or make this one readable",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<ConfigFile, Failure> {
        ConfigFile::parse(Path::new("a.toml"), text)
    }

    #[test]
    fn every_key_is_read() {
        let text = "endpoints = [\"http://a:1\"]\ntimeout = \"1s\"\noutput = \"json\"\ndata_dir = \"d\"\nlisten = \"127.0.0.1:1\"\n\
                    peer_listen = \"127.0.0.1:2\"\nid = 3\nadvertise = \"a:1\"\npeer_advertise = \"a:2\"\n\
                    name = \"n\"\nbootstrap = true\ninitial_cluster = \"n=a:2\"\njoin = \"b:2\"\n\
                    insecure = true\nallowed_hosts = \"h\"\nconnections_per_address = 9\nlog_level = \"warn\"\nlog_format = \"json\"\n\
                    store_listen = \"127.0.0.1:3\"\nstore_file = \"f\"\nstore_require_signed = true\n\
                    store_jwks = \"j\"\nstore_cluster = \"c\"\nstore_audience = \"a\"\n\
                    store_strict = true\nstore_same_data = true\nstore_insecure = false\n\
                    store_replicated = true\nstore_prefix = \"p\"\n";
        let content = parsed(text).expect("every key is known").content;
        assert_eq!(content.endpoints, Some(Endpoints::List(vec!["http://a:1".to_owned()])));
        assert_eq!(content.timeout.as_deref(), Some("1s"));
        assert_eq!((content.bootstrap, content.insecure), (Some(true), Some(true)));
        assert_eq!(content.id, Some(3));
        assert_eq!(content.allowed_hosts.as_deref(), Some("h"));
        assert_eq!(content.connections_per_address, Some(9));
        assert_eq!(content.log_format.as_deref(), Some("json"));
        assert_eq!((content.store_strict, content.store_insecure), (Some(true), Some(false)));
        assert_eq!((content.store_same_data, content.store_replicated), (Some(true), Some(true)));
        assert_eq!(content.store_prefix.as_deref(), Some("p"));
        assert_eq!(content.store_jwks.as_deref(), Some("j"));
    }

    #[test]
    fn an_unknown_key_is_refused_by_name_and_place() {
        let refused = parsed("name = \"n\"\nlistn = \"x\"\n").expect_err("nobody knows it");
        let text = refused.to_string();
        assert!(text.contains("a.toml") && text.contains("`listn`"), "{text}");
        assert!(text.contains("line 2"), "{text}");
    }

    #[test]
    fn endpoints_are_a_list_or_a_text() {
        let content = parsed("endpoints = \"http://a:1,http://b:2\"\n").expect("known").content;
        let listed: Vec<String> = content.endpoints.expect("it is there").into();
        assert_eq!(listed, ["http://a:1", "http://b:2"]);
        let refused = parsed("endpoints = 5\n").expect_err("no text").to_string();
        assert!(refused.contains("a text with commas"), "{refused}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused() {
        assert!(parsed("insecure = \"yes\"\n").is_err());
        assert!(parsed("name = \n").is_err());
    }
}
