//! What comes with every answer, as HTTP headers: which cluster, who answers, who leads. So the
//! documents stay those that the command line writes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use fencepost_proto::v1;

use crate::house::House;

const CLUSTER: HeaderName = HeaderName::from_static("fencepost-cluster");
const INCARNATION: HeaderName = HeaderName::from_static("fencepost-incarnation");
const MEMBER: HeaderName = HeaderName::from_static("fencepost-member");
const REVISION: HeaderName = HeaderName::from_static("fencepost-revision");
const TERM: HeaderName = HeaderName::from_static("fencepost-term");
/// Only if there is a leader.
const LEADER: HeaderName = HeaderName::from_static("fencepost-leader");
/// Only if it is known where clients reach the leader.
const LEADER_ADDRESS: HeaderName = HeaderName::from_static("fencepost-leader-address");

/// Adds what an answer of this header says.
pub(super) fn add(headers: &mut HeaderMap, header: &v1::Header) {
    let mut insert = |name: HeaderName, value: String| {
        // An address that is no text for a header is left out; all else is digits.
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    };
    insert(CLUSTER, format!("{:016x}", header.cluster_id));
    insert(INCARNATION, header.incarnation.to_string());
    insert(MEMBER, format!("{:016x}", header.member_id));
    insert(REVISION, header.revision.to_string());
    insert(TERM, header.raft_term.to_string());
    if header.leader_id != 0 {
        insert(LEADER, format!("{:016x}", header.leader_id));
    }
    if !header.leader_address.is_empty() {
        insert(LEADER_ADDRESS, header.leader_address.clone());
    }
}

/// Gives these to every answer that has none yet: to refusals, and to what is nowhere. No answer
/// may be kept by anybody on the way, because the next one may differ.
pub(super) async fn complete(State(house): State<Arc<House>>, mut response: Response) -> Response {
    let headers = response.headers_mut();
    if !headers.contains_key(&REVISION) {
        add(headers, &house.head.now());
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
