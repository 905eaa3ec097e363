//! What the property tests share: random histories, a naive model, and the invariants.

pub(crate) mod check;
pub(crate) mod drive;
pub(crate) mod generate;
pub(crate) mod model;
pub(crate) mod replies;
pub(crate) mod run;
pub(crate) mod summary;
