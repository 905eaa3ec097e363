//! `fencepost release --force`: a lock taken from its holder by an operator.

use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use fencepost_client::{Forced, Token};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::words::{length, plain};

/// Take a lock from its holder, as an operator
///
/// The lock passes on when the holder lets go or its lease runs out. Its token is refused from then
/// on by every resource that checks tokens. With `-o json` there is a signed statement of that, for
/// resources that verify them.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// Yes, take it away
    #[arg(long, required = true)]
    force: bool,

    /// The fencing token of the holder that is meant, so that its successor is safe
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    token: i64,

    /// Why. The holder is told, and it stands in the history
    #[arg(long)]
    reason: String,

    /// Do not wait for the holder. It may go on believing that it has the lock
    #[arg(long)]
    now: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    released: bool,
    pending_ms: i64,
    signed_floor: Option<&'a str>,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    let (forced, signed_floor) = block_on(async {
        let client = common.connect("release").await?;
        let answer = client.force_release_signed(name, Token(args.token), &args.reason, args.now);
        Ok(answer.await.told(format!("take the lock {} away", plain(name)))?)
    })?;
    let (released, pending_ms, text) = match forced {
        Forced::Released => (true, 0, format!("released {}", plain(name))),
        Forced::Pending(left) => {
            let left = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
            let within = length(left);
            let text = format!("the holder was asked: {} is free within {within}", plain(name));
            (false, left, text)
        }
        _ => (false, 0, format!("there was nothing to release: nobody holds {}", plain(name))),
    };
    let signed_floor = signed_floor.as_deref();
    common.output().either(&Document { name, released, pending_ms, signed_floor }, &text)?;
    Ok(ExitCode::SUCCESS)
}
