//! LeaseGrant, LeaseRevoke, GetLease, ListLeases.

use fencepost_core::command::Action;
use fencepost_core::{ClientId, LeaseId, Outcome, Reason};
use fencepost_proto::v1;

use crate::error::Failure;
use crate::house::{House, unexpected};
use crate::{limits, parse, show};

pub(crate) async fn grant(
    house: &House,
    request: &v1::LeaseGrantRequest,
    address: ClientId,
) -> Result<v1::LeaseGrantResponse, Failure> {
    let grant = parse::lease_grant(request, &ClientId::default(), address)?;
    let (header, outcome) = house.act(Action::LeaseGrant(grant)).await?;
    let Outcome::LeaseGranted(granted) = outcome else { return Err(unexpected()) };
    Ok(show::lease_granted(header, &granted))
}

pub(crate) async fn revoke(
    house: &House,
    request: &v1::LeaseRevokeRequest,
) -> Result<v1::LeaseRevokeResponse, Failure> {
    let (header, outcome) = house.act(parse::lease_revoke(request)?).await?;
    let Outcome::LeaseRevoked(keys) = outcome else { return Err(unexpected()) };
    Ok(v1::LeaseRevokeResponse { header: Some(header), keys })
}

pub(crate) async fn get(
    house: &House,
    request: &v1::GetLeaseRequest,
) -> Result<v1::GetLeaseResponse, Failure> {
    let id = LeaseId(request.id);
    let (header, found) = house.ask(false, move |state| state.lease(id)).await?;
    let info = found.ok_or(Reason::LeaseNotFound(id))?;
    Ok(v1::GetLeaseResponse { header: Some(header), lease: Some(show::lease(&info)) })
}

/// How many a page may list.
pub(crate) fn page(limit: u32) -> usize {
    match usize::try_from(limit).unwrap_or(usize::MAX) {
        0 => limits::PAGE_MAX,
        limit => limit.min(limits::PAGE_MAX),
    }
}

pub(crate) async fn list(
    house: &House,
    request: &v1::ListLeasesRequest,
) -> Result<v1::ListLeasesResponse, Failure> {
    let (after, limit) = (LeaseId(request.after), page(request.limit));
    let ask =
        house.ask_within(false, move |state, budget| state.leases_within(after, limit, budget));
    let (header, (found, more)) = ask.await?;
    let leases = found.iter().map(show::lease).collect();
    Ok(v1::ListLeasesResponse { header: Some(header), leases, more })
}
