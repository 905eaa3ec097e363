//! A refusal as a document: RFC 9457, with what the documentation says about its code.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use super::answer::Refusal;
use crate::error::page;

/// Why a request has failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Problem {
    /// The page about this code, below the documentation of the project.
    #[serde(rename = "type")]
    #[schema(example = "docs/errors/lock_held")]
    kind: String,
    /// What the code means.
    title: String,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What went wrong this time.
    detail: String,
    /// Stable, for programs.
    #[schema(example = "lock_held")]
    code: &'static str,
    /// What to do about it.
    what_to_do: String,
    /// Whether the request may have been done all the same.
    may_have_had_effect: bool,
    /// Whether the same request may succeed later.
    retryable: bool,
    #[serde(flatten)]
    more: More,
}

/// What some problems say beside that.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct More {
    /// `lock_held`: who holds the lock, or the key that is in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) holder: Option<String>,
    /// `lock_held`: how many wait for the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) waiting: Option<u64>,
    /// `compacted`: the first revision that history still has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) oldest_revision: Option<i64>,
    /// `slow_reader`: the revision to go on from.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) resume_revision: Option<i64>,
}

impl From<Refusal> for Problem {
    fn from(Refusal { failure, more }: Refusal) -> Problem {
        let (title, what_to_do) = match page(failure.code) {
            Some(page) => (page.meaning, page.remedy),
            None => (failure.code.to_owned(), String::new()),
        };
        Problem {
            kind: format!("docs/errors/{}", failure.code),
            title,
            status: failure.http,
            detail: failure.message,
            code: failure.code,
            what_to_do,
            may_have_had_effect: failure.indeterminate,
            retryable: failure.retryable,
            more,
        }
    }
}

/// Says of every path that it may answer with a problem.
pub(super) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let kinds = [
            ("4XX", "It cannot be done as it was asked for; nothing was done"),
            ("5XX", "It cannot be done now, or it is not known whether it was done"),
        ];
        let problem = |about: &str| {
            let schema = Ref::from_schema_name("Problem");
            let content = ContentBuilder::new().schema(Some(schema)).build();
            let response = ResponseBuilder::new()
                .description(about)
                .content("application/problem+json", content);
            RefOr::T(response.build())
        };
        kinds.map(|(status, about)| (status.to_owned(), problem(about))).into()
    }
}
