//! `fencepost delete`: a lock that nobody uses any more is forgotten.

use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::words::plain;

/// Forget a free lock without waiters
///
/// A lock that is held or waited for is refused. Tokens that were taken away stay refused.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
}

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    block_on(async {
        let client = common.connect("delete").await?;
        let answer = client.delete_lock(name).await;
        Ok(answer.told(format!("delete the lock {}", plain(name)))?)
    })?;
    let text = format!("{} is free, and nothing is left of it", plain(name));
    common.output().either(&Document { name }, &text)?;
    Ok(ExitCode::SUCCESS)
}
