//! Becomes a member of a cluster that exists, and then a voter of it.

use std::time::{Duration, Instant};

use super::edge;
use super::error::StartError;
use super::handle::{Handle, REDIRECTS_MAX};
use super::question::{self, Failed, UNRESOLVED};
use super::start::{Beginning, Newcomer};
use crate::io::{Change, ChangeError};
use crate::membership::Member;
use crate::peer::{Ask, Refusal, Told};

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(200);

/// Asks one of these addresses to be let in, until it is.
pub(super) fn join(
    newcomer: &Newcomer<'_>,
    addresses: &[String],
    member: Member,
    say: &mut dyn FnMut(&str),
) -> Result<Beginning, StartError> {
    if addresses.is_empty() {
        let what = "no address to join through was given".to_owned();
        return Err(StartError::Settings { what });
    }
    let id = member.id;
    let ask = Ask::Change { cluster_id: 0, change: Change::Add(member) };
    let mut patience = Patience::new(newcomer.settings.patience);
    loop {
        let mut missing = Vec::new();
        for address in addresses {
            match join_through(address, &ask)? {
                Ok(Told::Changed { incarnation, membership }) => {
                    let cluster_id = membership.cluster_id;
                    return Ok(Beginning { cluster_id, incarnation, id, founders: None });
                }
                Ok(_) => {
                    let (address, why) = (address.clone(), Refusal::Malformed);
                    return Err(StartError::Refused { address, why });
                }
                Err(why) => missing.push((address.clone(), why)),
            }
        }
        patience.wait(PAUSE, &missing, say)?;
    }
}

/// Asks one address, and whomever it names. The inner error passes by itself.
fn join_through(first: &str, ask: &Ask) -> Result<Result<Told, String>, StartError> {
    let mut address = first.to_owned();
    for _ in 0..=REDIRECTS_MAX {
        match question::ask(&address, ask) {
            Ok(Told::Redirect(to)) => address = to,
            Ok(Told::Unchanged(ChangeError::NameTaken(name))) => {
                return Err(StartError::Refused { address, why: Refusal::NameTaken { name } });
            }
            Ok(Told::Unchanged(why)) => {
                let lasting = matches!(
                    why,
                    ChangeError::WasRemoved(_)
                        | ChangeError::Malformed
                        | ChangeError::UnknownMember(_)
                );
                if lasting {
                    return Err(StartError::NotAdded { address, why: why.to_string() });
                }
                return Ok(Err(why.to_string()));
            }
            Ok(told) => return Ok(Ok(told)),
            Err(Failed::Refused(why)) if !why.is_passing() => {
                return Err(StartError::Refused { address, why });
            }
            Err(failed) => return Ok(Err(failed.to_string())),
        }
    }
    let address = first.to_owned();
    Err(StartError::TooManyRedirects { address, redirects: REDIRECTS_MAX })
}

/// Waits for others, and says for whom.
pub(super) struct Patience {
    until: Option<Instant>,
    said: Option<String>,
}

impl Patience {
    pub(super) fn new(patience: Option<Duration>) -> Patience {
        Patience { until: patience.map(|patience| edge::now() + patience), said: None }
    }

    /// Waits a little. Says what for, once until it has changed.
    pub(super) fn wait(
        &mut self,
        pause: Duration,
        missing: &[(String, String)],
        say: &mut dyn FnMut(&str),
    ) -> Result<(), StartError> {
        // A name that leads nowhere may be a mistake that no waiting cures.
        let named = |(name, why): &(String, String)| match why.strip_prefix(UNRESOLVED) {
            Some(why) => format!("{name} ({UNRESOLVED}{why})"),
            None => name.clone(),
        };
        let what = match missing.is_empty() {
            true => "the founder".to_owned(),
            false => missing.iter().map(named).collect::<Vec<_>>().join(", "),
        };
        if self.until.is_some_and(|until| edge::now() >= until) {
            let why = missing.first().map_or("it has not founded the cluster", |(_, why)| why);
            // Only the first line: the last one of the whole says what to do.
            let why = why.lines().next().unwrap_or_default().to_owned();
            return Err(StartError::TimedOut { what, why });
        }
        if self.said.as_ref() != Some(&what) {
            say(&format!("waiting for {what}"));
            self.said = Some(what);
        }
        edge::pause(edge::jittered(pause));
        Ok(())
    }
}

/// What a member that has just started wants the cluster to know.
pub(super) struct Wishes {
    /// Its name and addresses, if they are others than the cluster knows.
    pub(super) moved: Option<Member>,
    /// Whether it wants to vote.
    pub(super) vote: bool,
}

/// Asks the leader until the wishes are fulfilled or the node has ended. On a thread of its own,
/// because a leader may be long in coming.
pub(super) fn ask_for(wishes: Wishes, handle: Handle) -> Result<(), StartError> {
    let Wishes { moved, vote } = wishes;
    let status = handle.status();
    let mut changes: Vec<Change> = moved.map(Change::Add).into_iter().collect();
    changes.extend(vote.then_some(Change::Promote(status.id)));
    if changes.is_empty() {
        return Ok(());
    }
    let thread = std::thread::Builder::new().name(format!("{}-wish", status.name));
    let thread = thread.spawn(move || {
        for change in changes {
            let ended = || handle.board().status().ended.is_some();
            while handle.change_anywhere(&change, PAUSE).is_err() && !ended() {
                edge::pause(edge::jittered(PAUSE));
            }
        }
    });
    // It ends by itself, after the node at the latest.
    thread.map(drop).map_err(StartError::Threads)
}
