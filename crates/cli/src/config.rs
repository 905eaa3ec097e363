//! `fencepost config show`: every setting, its value, and where that came from.

use std::fmt::Display;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::Value;

use crate::common::Common;
use crate::origin::{Origin, Setting, Sources};
use crate::output;
use crate::settings::{self, Settings};

/// Look at the configuration
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show every setting, its value, and where that came from
    ///
    /// Takes the flags of `serve`, to show what they would do. Settings that begin with `store_` are
    /// those of `fencepost store`.
    Show {
        #[command(flatten)]
        settings: Box<settings::Args>,
    },
}

#[derive(Serialize)]
struct Document {
    file: Option<std::path::PathBuf>,
    settings: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    key: &'static str,
    /// Null if it has none.
    value: Value,
    origin: Origin,
}

pub(crate) fn run(args: Args, sources: &Sources, common: &Common) -> anyhow::Result<ExitCode> {
    let Action::Show { settings } = args.action;
    let file = common.endpoints.file()?;
    let endpoints = common.endpoints.resolve(sources.origin("endpoints"), &file)?;
    let settings = Settings::resolve(*settings, sources, &file)?;
    let mut shown =
        vec![Shown { key: "endpoints", value: endpoints.value.into(), origin: endpoints.origin }];
    let timeout = common.endpoints.timeout(sources.origin("timeout"), &file)?;
    let timeout_text = humantime::format_duration(timeout.value);
    shown.push(text("timeout", Setting { value: timeout_text, origin: timeout.origin }));
    let output = common.format(sources.origin("output"), &file)?;
    let word = output.value.to_possible_value().map(|word| word.get_name().to_owned());
    shown.push(maybe("output", Setting { value: word, origin: output.origin }));
    shown.extend(all(settings));
    shown.extend(crate::store::settings::shown(&file).into_iter().map(|(key, setting)| Shown {
        key,
        value: setting.value,
        origin: setting.origin,
    }));
    let document = Document { file: file.path, settings: shown };
    if common.output().is_json() {
        output::json(&document)?;
    } else {
        output::table(&["KEY", "VALUE", "FROM"], document.settings.iter().map(row).collect())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn all(settings: Settings) -> Vec<Shown> {
    let log_format = Setting {
        value: settings.log_format.value.to_possible_value().map(|word| word.get_name().to_owned()),
        origin: settings.log_format.origin,
    };
    let data_dir = Setting {
        value: settings.data_dir.value.display().to_string(),
        origin: settings.data_dir.origin,
    };
    let json_tcp = Setting {
        value: settings.json_tcp.value.map(|address| address.to_string()),
        origin: settings.json_tcp.origin,
    };
    vec![
        text("data_dir", data_dir),
        text("listen", settings.listen),
        text("peer_listen", settings.peer_listen),
        Shown { key: "id", value: settings.id.value.into(), origin: settings.id.origin },
        maybe("json_tcp", json_tcp),
        maybe("advertise", settings.advertise),
        maybe("peer_advertise", settings.peer_advertise),
        maybe("name", settings.name),
        flag("bootstrap", settings.bootstrap),
        maybe("initial_cluster", settings.initial_cluster),
        maybe("join", settings.join),
        flag("insecure", settings.insecure),
        maybe("allowed_hosts", settings.allowed_hosts),
        Shown {
            key: "connections_per_address",
            value: settings.connections_per_address.value.into(),
            origin: settings.connections_per_address.origin,
        },
        text("log_level", settings.log_level),
        maybe("log_format", log_format),
    ]
}

fn text(key: &'static str, setting: Setting<impl Display>) -> Shown {
    Shown { key, value: setting.value.to_string().into(), origin: setting.origin }
}

fn maybe(key: &'static str, setting: Setting<Option<String>>) -> Shown {
    Shown { key, value: setting.value.into(), origin: setting.origin }
}

fn flag(key: &'static str, setting: Setting<bool>) -> Shown {
    Shown { key, value: setting.value.into(), origin: setting.origin }
}

fn row(shown: &Shown) -> Vec<String> {
    let value = match &shown.value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    vec![shown.key.to_owned(), value, shown.origin.to_string()]
}
