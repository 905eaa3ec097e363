//! List and show clients.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use fencepost_proto::v1;
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::answer::{head, question};
use super::numbers::Lease;
use super::problem::Problems;
use super::query::Query;
use crate::error::Wrong;
use crate::grpc::clients;
use crate::house::{House, unexpected};

/// A client that is remembered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ClientView {
    client: String,
    /// Where it was last heard from. Null if that is not known.
    address: Option<String>,
    /// How long ago it made or renewed a lease, or sent a numbered request.
    seen_ms: i64,
    /// The same in milliseconds of Unix time by this member's clock.
    last_seen_unix_ms: i64,
    /// How many leases it has.
    leases_total: u64,
    /// The first thousand of them. Lists leave them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    leases: Option<Vec<Lease>>,
}

impl ClientView {
    fn listed(client: v1::ClientRecord) -> ClientView {
        ClientView {
            client: client.client_id,
            address: Some(client.address).filter(|address| !address.is_empty()),
            seen_ms: client.seen_ms,
            last_seen_unix_ms: client.last_seen_unix_ms,
            leases_total: client.leases_total,
            leases: None,
        }
    }

    fn shown(client: v1::ClientRecord) -> ClientView {
        let leases = client.leases.iter().copied().map(Lease).collect();
        ClientView { leases: Some(leases), ..ClientView::listed(client) }
    }
}

/// Which clients are listed.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct ListQuery {
    /// At most so many; 1,000 if it is not given, or more is asked for.
    #[param(maximum = 4_294_967_295_u64)]
    limit: Option<u64>,
    /// Only names behind this one: the `next` of the page before.
    after: Option<String>,
}

/// Some of the clients that are remembered.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Clients {
    clients: Vec<ClientView>,
    /// Where the next page begins, for `after`. Null if this is the last one.
    next: Option<String>,
}

/// The clients that are remembered
#[utoipa::path(get, path = "/v1/clients", operation_id = "list_clients", tag = "clients",
    params(ListQuery),
    responses((status = 200, description = "The clients, by name", body = Clients), Problems))]
pub(super) async fn list(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "list_clients", async {
        let mut query = Query::of(&uri)?;
        let (limit, after) = (query.limit()?, query.text("after").unwrap_or_default());
        query.end()?;
        let told = clients::list(&house, &v1::ListClientsRequest { after, limit }).await?;
        let next = told.clients.last().filter(|_| told.more).map(|last| last.client_id.clone());
        let clients = told.clients.into_iter().map(ClientView::listed).collect();
        Ok((head(told.header), Clients { clients, next }))
    })
    .await
}

/// Which client is shown.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct ShowQuery {
    #[param(min_length = 1)]
    client_id: String,
}

/// One client
#[utoipa::path(get, path = "/v1/clients/show", operation_id = "show_client", tag = "clients",
    params(ShowQuery),
    responses((status = 200, description = "What is known about it", body = ClientView), Problems))]
pub(super) async fn show(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "get_client", async {
        let mut query = Query::of(&uri)?;
        let missing = Wrong::Invalid("client_id", "must name a client");
        let client_id = query.text("client_id").filter(|id| !id.is_empty()).ok_or(missing)?;
        query.end()?;
        let told = clients::get(&house, &v1::GetClientRequest { client_id }).await?;
        let client = told.client.ok_or_else(unexpected)?;
        Ok((head(told.header), ClientView::shown(client)))
    })
    .await
}
