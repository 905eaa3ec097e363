//! `fencepost key`: the keys with which members sign fencing tokens.

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use fencepost_client::{Client, SigningKeys};
use serde::Serialize;

use crate::common::{Common, block_on};
use crate::failure::Told as _;
use crate::ids::MemberId;
use crate::member_view::{self, MemberView};
use crate::output;
use crate::words::{cell, length, parse_length, plain};

/// A rotation waits for the members that are asked, for five seconds.
const PATIENCE: Duration = Duration::from_secs(15);
const HEADINGS: [&str; 5] = ["KID", "MEMBER", "STATE", "SINCE", "SIGNS IN"];

/// List, rotate and revoke the keys with which members sign fencing tokens
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the keys
    Ls,
    /// Let members make new keys
    ///
    /// A new key is published at once, and signs after a while: by then whoever verifies tokens has
    /// heard of it. What the old key has signed stays good.
    Rotate {
        /// The member, by name or number [default: every member]
        #[arg(long, value_name = "MEMBER")]
        node: Option<String>,
        /// How long the new key is published before it signs
        #[arg(long, default_value = "24h", value_parser = parse_length, value_name = "TIME")]
        after: Duration,
        /// Let it sign at once
        #[arg(long, conflicts_with = "after")]
        now: bool,
    },
    /// Let a key be believed no longer, at once: for a key that has leaked
    ///
    /// Everything that it has signed is refused from then on by whoever fetches the keys again. Its
    /// member makes a new key.
    Revoke {
        /// The key, as `key ls` names it
        #[arg(allow_hyphen_values = true)]
        kid: String,
    },
}

/// One key.
#[derive(Serialize)]
struct KeyView {
    kid: String,
    member: MemberId,
    /// Nothing, if it is no member any more.
    name: Option<String>,
    state: String,
    since_ms: i64,
    /// Only of a key that is next.
    due_ms: Option<i64>,
}

#[derive(Serialize)]
struct Document {
    keys: Vec<KeyView>,
    /// Members that were asked for a new key and have not made it yet.
    pending: Vec<MemberId>,
}

pub(crate) fn run(args: Args, common: &Common) -> anyhow::Result<ExitCode> {
    block_on(async {
        let client = common.connect_patiently("key", PATIENCE).await?;
        let (keys, text) = match args.action {
            Action::Ls => (client.signing_keys().await.told("list the signing keys")?, None),
            Action::Rotate { node, after, now } => {
                let member = match node {
                    Some(node) => Some(member_view::named(&client, &node).await?.id.0),
                    None => None,
                };
                let after = if now { Duration::ZERO } else { after };
                let keys = client.rotate_signing_key(member, after).await;
                let keys = keys.told("let members make new signing keys")?;
                let text = rotated(&keys, after);
                (keys, Some(text))
            }
            Action::Revoke { kid } => {
                let keys = client.revoke_signing_key(&kid).await;
                let keys = keys.told(format!("revoke the signing key {}", plain(&kid)))?;
                let text = format!(
                    "{} is believed no longer by whoever fetches the keys from now on",
                    plain(&kid)
                );
                (keys, Some(text))
            }
        };
        tell(&client, common, keys, text).await
    })
}

fn rotated(keys: &SigningKeys, after: Duration) -> String {
    let when = match after.is_zero() {
        true => "and sign".to_owned(),
        false => {
            let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            format!("and sign in {}", length(after))
        }
    };
    match keys.pending.len() {
        0 => format!("the new keys are published, {when}"),
        left => format!("{left} of the members make their new keys when they can, {when}"),
    }
}

/// The keys as they are now; for people only if nothing else is to be said.
async fn tell(
    client: &Client,
    common: &Common,
    keys: SigningKeys,
    text: Option<String>,
) -> anyhow::Result<ExitCode> {
    if let Some(text) = text.filter(|_| !common.output().is_json()) {
        output::line(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let members = member_view::all(client).await?;
    let document = Document::of(keys, &members);
    if common.output().is_json() {
        output::json(&document)?;
    } else {
        output::table(&HEADINGS, document.keys.iter().map(KeyView::row).collect())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Document {
    fn of(keys: SigningKeys, members: &[MemberView]) -> Document {
        let name = |id: u64| members.iter().find(|one| one.id.0 == id).map(|one| one.name.clone());
        let view = |key: fencepost_client::proto::SigningKey| KeyView {
            kid: key.kid,
            member: MemberId(key.member_id),
            name: name(key.member_id),
            due_ms: (key.state == "next").then_some(key.due_ms),
            state: key.state,
            since_ms: key.since_ms,
        };
        Document {
            keys: keys.keys.into_iter().map(view).collect(),
            pending: keys.pending.into_iter().map(MemberId).collect(),
        }
    }
}

impl KeyView {
    fn row(&self) -> Vec<String> {
        let member = self.name.as_ref().map_or_else(|| self.member.to_string(), |name| cell(name));
        let due = self.due_ms.map(length).unwrap_or_default();
        vec![cell(&self.kid), member, self.state.clone(), length(self.since_ms), due]
    }
}
