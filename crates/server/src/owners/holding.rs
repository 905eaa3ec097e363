//! Renewals and releases by owner name, each of one holding.
//!
//! A request that names no token means whatever its owner has of the lock when it is done. If it is
//! done late, that can be something which the owner has acquired since, and relies on. Guarantees:
//! the log only ever gets a release of one holding, by its token. If the request named none, this
//! member first finds out which holding there is, then makes sure that the request is not late, and
//! ends that one. However long the command is on its way after that, it touches no other.
//!
//! See ADR 040. A late renewal without a token makes the owner's next holding last longer, which misleads nobody.

use std::sync::Arc;

use fencepost_core::command::{
    Action, Cancel, CancelTarget, Command, LeaseRef, Release, ReleaseHeld, RenewAs, RenewHeld,
};
use fencepost_core::outcome::Denial;
use fencepost_core::query::OwnedPlace;
use fencepost_core::{ClientId, LockName, Millis, Outcome, Reason, State, Token};
use fencepost_node::io::Class;

use super::{Answered, Told};
use crate::arrival::Arrival;
use crate::error::Failure;
use crate::house::{House, unexpected};

/// The feature level from which on the log knows releases and renewals of one holding.
const HELD_LEVEL: u32 = 2;

/// A lock to keep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Keep {
    pub(crate) name: LockName,
    pub(crate) client: ClientId,
    /// The new length; zero keeps the old one.
    pub(crate) ttl: Millis,
    /// The holding that is meant. Any, if it is not given.
    pub(crate) token: Option<Token>,
}

/// A lock to give back, or a wait to end.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GiveBack {
    pub(crate) name: LockName,
    pub(crate) client: ClientId,
    /// The holding that is meant. If it is not given, the one that there is.
    pub(crate) token: Option<Token>,
}

/// What an owner has of a lock, and whether anybody has anything of it.
struct Found {
    place: Option<OwnedPlace>,
    is_queued: bool,
}

impl Found {
    fn look(state: &State, client: &ClientId, name: &LockName) -> Found {
        Found { place: state.owned_place(client, name), is_queued: state.is_queued(name) }
    }

    /// What an owner is told who has nothing.
    fn nothing(&self) -> Told {
        if self.is_queued { Told::Denied(Denial::NotOwner) } else { Told::NotFound }
    }
}

fn knows_holdings(house: &House) -> bool {
    house.handle.board().feature_level() >= HELD_LEVEL
}

/// Whether the request may still be done.
fn check(arrival: Option<&Arrival>) -> Result<(), Failure> {
    match arrival {
        Some(arrival) => arrival.check().map_err(Failure::from),
        None => Ok(()),
    }
}

/// Renews a holding.
pub(super) async fn keep(house: &House, ask: &Keep, arrival: Option<&Arrival>) -> Answered {
    let (name, client, ttl) = (ask.name.clone(), ask.client.clone(), ask.ttl);
    let action = match ask.token {
        Some(token) if knows_holdings(house) => {
            Action::RenewHeld(RenewHeld { name, client, ttl, token })
        }
        Some(token) => {
            let (header, found) = find(house, &name, &client).await?;
            let Some(place) = found.place else { return Ok((header, found.nothing())) };
            check_token(&place, token)?;
            Action::RenewAs(RenewAs { name, client, ttl })
        }
        None => {
            check(arrival)?;
            Action::RenewAs(RenewAs { name, client, ttl })
        }
    };
    let (header, outcome) = house.act_as(Class::Renewal, &Command::from(action)).await?;
    let grant = match outcome {
        Outcome::Renewed(grant) => grant,
        outcome => return Ok((header, super::told(outcome)?)),
    };
    if let Some(token) = ask.token.filter(|&token| token != grant.token) {
        return Err(Reason::TokenMismatch(token, grant.token).into());
    }
    let (name, client) = (ask.name.clone(), ask.client.clone());
    // How long it is still held, the answer says already. This only says why it is no longer.
    let look = house.ask(true, move |state| state.owned_place(&client, &name)).await;
    let place = look.ok().and_then(|(_, place)| place).filter(|place| place.token == grant.token);
    let must_stop = place.is_some_and(|place| place.is_forced);
    Ok((header, if must_stop { Told::MustStop(grant) } else { Told::Renewed(grant) }))
}

/// Gives a holding back, or ends a wait.
pub(super) async fn give_back(
    house: &House,
    ask: &GiveBack,
    arrival: Option<&Arrival>,
) -> Answered {
    let token = match ask.token {
        Some(token) => token,
        None => {
            let (header, found) = find(house, &ask.name, &ask.client).await?;
            check(arrival)?;
            let Some(place) = found.place else { return Ok((header, found.nothing())) };
            place.token
        }
    };
    let action = match release_of(house, ask, token).await? {
        Step::Propose(action) => action,
        Step::Nothing(answer) => return Ok(answer),
    };
    match house.act(action).await {
        Ok((header, outcome)) => Ok((header, ended(outcome, token)?)),
        // What was found has ended since, and nothing else was meant.
        Err(failure) if is_over(&failure) && ask.token.is_none() => {
            Ok((house.head.now(), Told::NotFound))
        }
        Err(failure) => Err(failure),
    }
}

/// The same, for a release that nobody is told of: tries for as long as that helps.
pub(super) async fn give_back_silently(
    house: &Arc<House>,
    ask: GiveBack,
    arrival: Option<&Arrival>,
) -> Result<(), Failure> {
    check(arrival)?;
    let token = match ask.token {
        Some(token) => Some(token),
        None => find_patiently(house, &ask, arrival).await?,
    };
    let Some(token) = token else { return Ok(()) };
    match release_of(house, &ask, token).await? {
        Step::Propose(action) => house.insist(action).await.map(drop),
        Step::Nothing(_) => Ok(()),
    }
}

/// The holding that is meant. While there is no leader it is the one that this member knew of when
/// the request was read.
async fn find_patiently(
    house: &House,
    ask: &GiveBack,
    arrival: Option<&Arrival>,
) -> Result<Option<Token>, Failure> {
    let (name, client) = (ask.name.clone(), ask.client.clone());
    let look = move |state: &State| state.owned_place(&client, &name).map(|place| place.token);
    let known = house.ask(true, look.clone()).await.ok().and_then(|(_, token)| token);
    check(arrival)?;
    let present = house.insist_on_asking(look).await?;
    match check(arrival) {
        Ok(()) => Ok(present),
        Err(_) => Ok(known),
    }
}

async fn find(
    house: &House,
    name: &LockName,
    client: &ClientId,
) -> Result<(fencepost_proto::v1::Header, Found), Failure> {
    let (name, client) = (name.clone(), client.clone());
    house.ask(false, move |state| Found::look(state, &client, &name)).await
}

fn check_token(place: &OwnedPlace, token: Token) -> Result<(), Failure> {
    match (place.token == token, place.holds) {
        (true, _) => Ok(()),
        (false, true) => Err(Reason::TokenMismatch(token, place.token).into()),
        (false, false) => Err(Reason::NotHolder.into()),
    }
}

/// What is done about a release.
enum Step {
    Propose(Action),
    Nothing((fencepost_proto::v1::Header, Told)),
}

/// The command that ends this holding and no other. Members that do not know such commands by owner
/// name know them by the lease behind the holding.
async fn release_of(house: &House, ask: &GiveBack, token: Token) -> Result<Step, Failure> {
    let (name, client) = (ask.name.clone(), ask.client.clone());
    if knows_holdings(house) {
        return Ok(Step::Propose(Action::ReleaseHeld(ReleaseHeld { name, client, token })));
    }
    let (header, found) = find(house, &name, &client).await?;
    let Some(place) = found.place else { return Ok(Step::Nothing((header, found.nothing()))) };
    check_token(&place, token)?;
    let lease = LeaseRef { id: place.lease, epoch: place.epoch };
    Ok(Step::Propose(match place.holds {
        true => Action::Release(Release { name, lease, token }),
        false => Action::Cancel(Cancel { lease, target: CancelTarget::Contender(name, token) }),
    }))
}

fn ended(outcome: Outcome, token: Token) -> Result<Told, Failure> {
    match outcome {
        Outcome::Released | Outcome::Ended(_) => Ok(Told::Released(Some(token))),
        Outcome::NotFound => Ok(Told::NotFound),
        Outcome::Denied(denial) => Ok(Told::Denied(denial)),
        _ => Err(unexpected()),
    }
}

/// Whether a release was refused because the holding that it named is over.
fn is_over(failure: &Failure) -> bool {
    let codes = ["token_mismatch", "not_holder", "lease_not_found", "lease_epoch_stale"];
    codes.contains(&failure.code)
}
