//! The HTTP door: JSON under `/v1/`, for everyone who has no library of ours.
//!
//! Two rules make up the design. Whatever only asks is GET and takes a query; whatever changes
//! something is POST and takes a JSON object, but for DELETE of a lock, which takes a query. And names never stand in paths, because they may
//! contain slashes and dots, which proxies and clients rewrite. `docs/http.md` shows all of it.
//!
//! Owns: the paths, the JSON, and the description of both. Guarantees: every answer that is not
//! what was asked for is a problem document with a code of [`crate::error`]; every answer has the
//! facts of the header in HTTP headers; nothing waits without a bound. Refuses: rules of its own.
//! Requests become those of the gRPC door, and are served by the same functions.

#![expect(unused_qualifications, reason = "the macro that describes a path writes names in full")]

mod acquire;
mod answer;
mod body;
mod clients;
mod cluster;
mod facts;
mod keys;
mod leases;
mod locks;
mod numbers;
mod problem;
mod query;
mod stream;
mod texts;
mod views;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::header;
use axum::middleware::map_response_with_state;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::Wrong;
use crate::house::House;
pub(crate) use answer::refuse;
use answer::refused;

/// What the description says beside the paths.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Fencepost",
        description = "Locks on leases, with a fencing token in every grant.\n\nQuestions are GET \
                       and take a query. Changes are POST and take a JSON object. Every answer \
                       carries `Fencepost-Cluster`, `Fencepost-Member`, `Fencepost-Revision` and \
                       `Fencepost-Term`, and `Fencepost-Leader` if there is one. Every failure is a \
                       problem document (RFC 9457) with a stable `code`.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT"),
        version = "1"
    ),
    tags(
        (name = "locks", description = "Take, keep, give back, look at"),
        (name = "leases", description = "What clients renew to keep their locks and keys"),
        (name = "clients", description = "Who was heard from, and when"),
        (name = "keys", description = "Plain keys and values"),
        (name = "watch", description = "What happens, as it happens"),
        (name = "cluster", description = "Who belongs to it, and who leads")
    ),
    components(schemas(problem::Problem))
)]
struct Description;

/// Everything that is described.
fn described() -> OpenApiRouter<Arc<House>> {
    OpenApiRouter::with_openapi(Description::openapi())
        .routes(routes!(acquire::acquire))
        .routes(routes!(locks::renew))
        .routes(routes!(locks::release))
        .routes(routes!(locks::force_release))
        .routes(routes!(locks::list, locks::delete))
        .routes(routes!(locks::show))
        .routes(routes!(locks::explain))
        .routes(routes!(leases::grant))
        .routes(routes!(leases::keep_alive))
        .routes(routes!(leases::revoke))
        .routes(routes!(leases::list))
        .routes(routes!(leases::show))
        .routes(routes!(clients::list))
        .routes(routes!(clients::show))
        .routes(routes!(keys::put))
        .routes(routes!(keys::delete))
        .routes(routes!(keys::range))
        .routes(routes!(watch::watch))
        .routes(routes!(cluster::status))
        .routes(routes!(cluster::members))
}

/// The door.
pub(crate) fn routes(house: &Arc<House>) -> Router {
    let (router, description) = described().split_for_parts();
    let description = description.to_pretty_json().expect("it is made of texts and numbers");
    let kind = [(header::CONTENT_TYPE, answer::JSON)];
    let describe = get(move || async move { (kind, description).into_response() });
    router
        .route("/v1/openapi.json", describe)
        .route("/v1", any(nowhere))
        .route("/v1/", any(nowhere))
        .route("/v1/{*rest}", any(nowhere))
        .method_not_allowed_fallback(no_such_method)
        .layer(map_response_with_state(Arc::clone(house), facts::complete))
        .with_state(Arc::clone(house))
}

async fn nowhere(request: Request) -> Response {
    refused(Wrong::PathUnknown(request.uri().path().to_owned()).into())
}

async fn no_such_method(request: Request) -> Response {
    refused(Wrong::MethodUnknown(request.method().to_string()).into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let (_, description) = described().split_for_parts();
        let paths = description.paths.paths.values();
        let operations = paths.flat_map(|path| [&path.get, &path.post, &path.delete]).flatten();
        let names: Vec<_> = operations.map(|one| one.operation_id.clone()).collect();
        let unique: BTreeSet<_> = names.iter().flatten().collect();
        assert_eq!((names.len(), unique.len()), (21, 21), "{names:?}");
    }

    /// The description is a contract: what changes in it is read before it is committed.
    #[test]
    fn the_description_is_the_one_in_the_documentation() {
        let (_, description) = described().split_for_parts();
        let text = format!("{}\n", description.to_pretty_json().expect("it is plain"));
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        if fencepost_testkit::update_expect() {
            std::fs::write(&golden, &text).expect("it can be written");
        }
        let expected = std::fs::read_to_string(&golden).expect("it is part of the project");
        assert!(
            text == expected,
            "the door is not what docs/openapi.json says; UPDATE_EXPECT=1 rewrites it"
        );
    }
}
