//! Forms a new cluster from a list of nodes that all have empty directories.
//!
//! Every node draws its number at random, so a disk that was wiped can never pass for the one
//! before. The first name of the list is the *founder*: it asks all others for their numbers, and
//! when it has them all, writes the founding membership to its own disk. The others ask until
//! somebody tells them that the cluster is founded, and write down the same. Refuses: to found a
//! second cluster beside one that exists.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::edge;
use super::error::StartError;
use super::joining::Patience;
use super::lobby::Lobby;
use super::question::{self, Failed};
use super::settings::Settings;
use super::start::{Beginning, Newcomer};
use crate::membership::{Member, Membership};
use crate::peer::{Ask, Listed, Refusal, Told};

/// How long to wait before asking again.
const PAUSE: Duration = Duration::from_millis(200);

/// Forms a cluster, or finds the one that the others have formed.
pub(super) fn form(
    newcomer: &Newcomer<'_>,
    list: &[Listed],
    member: Member,
    say: &mut dyn FnMut(&str),
) -> Result<Beginning, StartError> {
    let list = sorted(list);
    check(&list, newcomer.settings)?;
    let others: Vec<Listed> =
        list.iter().filter(|listed| listed.name != member.name).cloned().collect();
    let is_founder = list.first().is_some_and(|first| first.name == member.name);
    newcomer.server.set_door(Arc::new(Lobby::forming(list.clone(), member.clone())));
    let ask = Ask::Form { list, member: member.clone() };
    let mut forming = Forming { ask, member, others, drafts: BTreeMap::new() };
    let mut patience = Patience::new(newcomer.settings.patience);
    loop {
        let mut missing = Vec::new();
        for at in 0..forming.others.len() {
            match forming.ask(at, is_founder)? {
                Heard::Beginning(beginning) => return Ok(beginning),
                Heard::Draft => {}
                Heard::Nothing(why) => missing.push((forming.others[at].name.clone(), why)),
            }
        }
        if is_founder && forming.drafts.len() == forming.others.len() {
            return Ok(forming.found());
        }
        patience.wait(PAUSE, &missing, say)?;
    }
}

/// The list in the one order in which it is compared.
fn sorted(list: &[Listed]) -> Vec<Listed> {
    let mut list = list.to_vec();
    list.sort();
    list
}

fn check(list: &[Listed], settings: &Settings) -> Result<(), StartError> {
    let wrong = |what: String| Err(StartError::Settings { what });
    if let Some(pair) = list.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return wrong(format!("the initial cluster names {} twice", pair[0].name));
    }
    if !list.iter().any(|listed| listed.name == settings.name) {
        return wrong(format!("the initial cluster does not name {}, this node", settings.name));
    }
    Ok(())
}

struct Forming {
    ask: Ask,
    member: Member,
    others: Vec<Listed>,
    drafts: BTreeMap<String, Member>,
}

enum Heard {
    Beginning(Beginning),
    Draft,
    Nothing(String),
}

impl Forming {
    fn ask(&mut self, at: usize, is_founder: bool) -> Result<Heard, StartError> {
        let other = &self.others[at];
        if self.drafts.contains_key(&other.name) && is_founder {
            return Ok(Heard::Draft);
        }
        let refused = |why| StartError::Refused { address: other.peer.clone(), why };
        match question::ask(&other.peer, &self.ask) {
            Ok(Told::Draft(draft)) if draft.name != other.name => {
                let what = format!(
                    "the initial cluster says that {} is {}, and it calls itself {}",
                    other.peer, other.name, draft.name
                );
                Err(StartError::Settings { what })
            }
            Ok(Told::Draft(draft)) => {
                self.drafts.insert(draft.name.clone(), draft);
                Ok(Heard::Draft)
            }
            Ok(Told::Founded { membership, .. } | Told::Changed { membership, .. })
                if is_founder || !membership.contains(self.member.id) =>
            {
                // The founder's disk came first, so this is not it.
                let (cluster_id, name) = (membership.cluster_id, other.name.clone());
                Err(refused(Refusal::Exists { cluster_id, name }))
            }
            Ok(Told::Founded { incarnation, membership }) => {
                let beginning = Beginning::founding(self.member.id, membership, incarnation);
                Ok(Heard::Beginning(beginning))
            }
            Ok(Told::Changed { incarnation, membership }) => Ok(Heard::Beginning(Beginning {
                cluster_id: membership.cluster_id,
                incarnation,
                id: self.member.id,
                founders: None,
            })),
            Ok(Told::Redirect(_) | Told::Unchanged(_)) => Err(refused(Refusal::Malformed)),
            Err(Failed::Refused(why)) if !why.is_passing() => Err(refused(why)),
            Err(failed) => Ok(Heard::Nothing(failed.to_string())),
        }
    }

    fn found(self) -> Beginning {
        let id = self.member.id;
        let members = self.drafts.into_values().chain([self.member]);
        Beginning::founding(id, Membership::founding(edge::random(), members), 0)
    }
}
