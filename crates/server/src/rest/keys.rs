//! Put, delete, range.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Uri;
use axum::response::Response;
use fencepost_proto::v1;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::answer::{Refusal, change, head, question};
use super::numbers::{Lease, LeaseGiven, exact_or_none, signed};
use super::problem::Problems;
use super::query::Query;
use super::texts;
use crate::grpc::keys;
use crate::house::House;

/// A key to write.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"key": "greeting", "value": "hello"}))]
pub(super) struct PutRequest {
    #[schema(min_length = 1, max_length = 1024)]
    key: String,
    /// Its new value; nothing, if it is not given.
    value: Option<String>,
    /// The same for what is no text.
    value_base64: Option<String>,
    /// The lease that the key goes with.
    lease: Option<LeaseGiven>,
    /// Writes only if the key is there and was created at this revision.
    #[serde(default, deserialize_with = "exact_or_none")]
    #[schema(maximum = 9_007_199_254_740_991_u64)]
    create_revision: Option<u64>,
}

/// A key that was written.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Written {
    key: String,
    /// The revision at which it was.
    revision: i64,
}

/// Write a key
#[utoipa::path(post, path = "/v1/kv/put", operation_id = "put_key", tag = "keys",
    request_body = PutRequest,
    responses((status = 200, description = "It is written", body = Written), Problems))]
pub(super) async fn put(State(house): State<Arc<House>>, request: Request) -> Response {
    change(&house, "put", request, async |house, asked: PutRequest| {
        let value = texts::given(asked.value, asked.value_base64.as_deref(), "value_base64")?;
        let put = v1::PutRequest {
            key: asked.key.clone(),
            value,
            lease_id: asked.lease.map_or(0, |lease| lease.0),
            create_revision: signed(asked.create_revision.unwrap_or_default()),
            ..v1::PutRequest::default()
        };
        let header = head(keys::put(&house, &put).await?.header);
        let written = Written { key: asked.key, revision: header.revision };
        Ok::<_, Refusal>((header, written))
    })
    .await
}

/// Keys to remove.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteRequest {
    #[schema(max_length = 1024)]
    key: String,
    /// All keys that begin with `key`; with an empty one, all keys.
    #[serde(default)]
    prefix: bool,
}

/// What was removed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Deleted {
    /// How many keys.
    deleted: u64,
}

/// Remove keys
#[utoipa::path(post, path = "/v1/kv/delete", operation_id = "delete_keys", tag = "keys",
    request_body = DeleteRequest,
    responses((status = 200, description = "They are removed", body = Deleted), Problems))]
pub(super) async fn delete(State(house): State<Arc<House>>, request: Request) -> Response {
    change(&house, "delete_range", request, async |house, asked: DeleteRequest| {
        let DeleteRequest { key, prefix } = asked;
        let delete = v1::DeleteRangeRequest { key, prefix, ..v1::DeleteRangeRequest::default() };
        let told = keys::delete_range(&house, &delete).await?;
        Ok::<_, Refusal>((head(told.header), Deleted { deleted: told.deleted }))
    })
    .await
}

/// Which keys are read.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the query")]
pub(super) struct RangeQuery {
    /// The key. Only with `prefix` it may be left out, which means all keys.
    key: Option<String>,
    /// All keys that begin with `key`.
    prefix: Option<bool>,
    /// At most so many; 10,000 if it is not given, or more is asked for.
    #[param(maximum = 4_294_967_295_u64)]
    limit: Option<u64>,
    /// Only keys behind this one: the `next` of the page before.
    after: Option<String>,
    /// The same for the `next_base64` of the page before.
    after_base64: Option<String>,
    /// Also count those that are not listed. That takes the longer, the more there are.
    count: Option<bool>,
    /// Without the values.
    keys_only: Option<bool>,
    /// The answering member may not have heard of the newest changes.
    stale: Option<bool>,
}

/// Keys, and their values.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Found {
    /// The revision that this was read at.
    revision: i64,
    /// Of all that match, also those that are not listed. Null if they were not counted.
    count: Option<u64>,
    /// Whether there are more than are listed.
    more: bool,
    /// Where the next page begins, for `after`. Null if this is the last one.
    next: Option<String>,
    /// Only in the place of `next`, if that is no text: for `after_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_base64: Option<String>,
    kvs: Vec<KeyView>,
}

/// One key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct KeyView {
    /// Null if it is no text.
    key: Option<String>,
    /// Only if the key is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    key_base64: Option<String>,
    /// Null if it is no text.
    value: Option<String>,
    /// Only if the value is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    value_base64: Option<String>,
    create_revision: i64,
    mod_revision: i64,
    /// How often it was written since it was created.
    version: i64,
    /// Null if the key has none.
    lease: Option<Lease>,
}

impl From<v1::KeyVal> for KeyView {
    fn from(kv: v1::KeyVal) -> KeyView {
        let ((key, key_base64), (value, value_base64)) =
            (texts::told_key(&kv), texts::told(&kv.value));
        KeyView {
            key,
            key_base64,
            value,
            value_base64,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            version: kv.version,
            lease: Lease::named(kv.lease_id),
        }
    }
}

/// Read a key, or all keys that begin alike
///
/// A key that is not there is an empty list, not an error.
#[utoipa::path(get, path = "/v1/kv", operation_id = "read_keys", tag = "keys",
    params(RangeQuery),
    responses((status = 200, description = "The keys that there are", body = Found), Problems))]
pub(super) async fn range(State(house): State<Arc<House>>, uri: Uri) -> Response {
    question(&house, "range", async {
        let mut query = Query::of(&uri)?;
        let (after, coded) = (query.text("after"), query.text("after_base64"));
        let request = v1::RangeRequest {
            key: query.text("key").unwrap_or_default(),
            prefix: query.flag("prefix")?,
            limit: query.limit()?,
            after: texts::given(after, coded.as_deref(), "after_base64")?,
            keys_only: query.flag("keys_only")?,
            stale: query.flag("stale")?,
            count: query.flag("count")?,
        };
        query.end()?;
        let told = keys::range(&house, &request).await?;
        let (more, is_first) = (told.more, request.after.is_empty());
        let count = (request.count || (is_first && !more)).then_some(told.count);
        let last = told.kvs.last().filter(|_| more).map(texts::told_key);
        let (next, next_base64) = last.unwrap_or_default();
        let kvs = told.kvs.into_iter().map(KeyView::from).collect();
        let header = head(told.header);
        let found = Found { revision: header.revision, count, more, next, next_base64, kvs };
        Ok::<_, Refusal>((header, found))
    })
    .await
}
