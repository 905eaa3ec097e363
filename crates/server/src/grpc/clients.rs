//! GetClient, ListClients.

use fencepost_core::ClientId;
use fencepost_proto::v1;

use super::leases::page;
use crate::error::{Failure, Wrong};
use crate::house::House;
use crate::{limits, show};

pub(crate) async fn get(
    house: &House,
    request: &v1::GetClientRequest,
) -> Result<v1::GetClientResponse, Failure> {
    let id = ClientId::from(&*request.client_id);
    let (header, (now, found)) =
        house.ask(false, move |state| (state.now(), state.client(&id))).await?;
    let info = found.ok_or_else(|| Wrong::ClientUnknown(request.client_id.clone()))?;
    let client = show::client(&info, now, limits::PAGE_MAX);
    Ok(v1::GetClientResponse { header: Some(header), client: Some(client) })
}

pub(crate) async fn list(
    house: &House,
    request: &v1::ListClientsRequest,
) -> Result<v1::ListClientsResponse, Failure> {
    let limit = page(request.limit);
    let after = (!request.after.is_empty()).then(|| ClientId::from(&*request.after));
    let ask = house.ask_within(false, move |state, budget| {
        (state.now(), state.clients_within(after.as_ref(), limit, budget))
    });
    let (header, (now, (found, more))) = ask.await?;
    let clients = found.iter().map(|info| show::client(info, now, 0)).collect();
    Ok(v1::ListClientsResponse { header: Some(header), clients, more })
}
