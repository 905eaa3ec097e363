//! `fencepost unlock`: a lock given back by its owner, with the lease and the token.

use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use fencepost_client::{Error, Token};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::{Failure, Told as _};
use crate::ids::LeaseId;
use crate::words::plain;

/// Give back a lock that you hold, by its lease and its token
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The lock
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,

    /// The lease under which it is held
    #[arg(long)]
    lease: LeaseId,

    /// The fencing token with which it was granted
    #[arg(long, value_parser = clap::value_parser!(i64).range(1..))]
    token: i64,
}

#[derive(Serialize)]
struct Document<'a> {
    name: &'a str,
    released: bool,
}

pub(crate) fn run(args: &Args, common: &Common) -> anyhow::Result<ExitCode> {
    let name = &args.name;
    let released = block_on(async {
        let client = common.connect("unlock").await?;
        let answer = client.unlock(name, args.lease.0, Token(args.token)).await;
        let doing = format!("release the lock {}", plain(name));
        match answer {
            // What is usually right, a new lease, is no help to somebody who gives a lock back.
            Err(Error::Rejected { code, message, .. }) if code == "lease_not_found" => {
                let why = format!("{message} ({code}): it has ended, or was never there");
                let remedy = "what it held is free; `fencepost show` says who holds the lock now";
                Err(Failure::new(format!("cannot {doing}"), why, remedy).into())
            }
            answer => Ok(answer.told(doing)?),
        }
    })?;
    let text = match released {
        true => format!("released {}", plain(name)),
        false => format!("there was nothing to release: {} is free", plain(name)),
    };
    common.output().either(&Document { name, released }, &text)?;
    Ok(ExitCode::SUCCESS)
}
