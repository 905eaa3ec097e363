//! A tower layer that lets only the latest holder through.
//!
//! Owns: the `Fencepost-Token` header, and the turns of each resource.
//! Guarantees: while a request with one token is inside, none with another exclusive token of the
//! same resource is; and once a higher one was inside, no lower one ever is again. The mark is
//! durable before the request goes in, if its keeper makes it so.
//!
//! The turns matter as much as the check. Without them a request with token 10 could be checked,
//! be overtaken by one with token 11, and take effect last. A request keeps its turn until its handler
//! has ended, also if the client hangs up or a timeout around the layer gives up: the handler runs to
//! its end in a task of its own.
//!
//! What it cannot do: it does not see what a handler leaves running after its answer, or after a
//! timeout *inside* the layer, and several processes that serve one resource need one keeper of marks
//! and one order between them.

mod header;
mod layer;
mod problem;
mod turns;

pub use header::{HEADER, HeaderError, TokenHeader};
pub use layer::{Fence, FenceLayer, ResourceOf};
