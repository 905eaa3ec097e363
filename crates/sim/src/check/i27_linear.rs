//! I27, linearizability: for each lock, the acquires, releases, renewals and reads of the clients
//! can be put into one order that a simple lock would produce, in which each of them lies between
//! its call and its return. In particular a linearizable read sees everything that had returned
//! before it was called.
//!
//! The search is that of `porcupine-rs`, the model is `model.rs`: it knows nothing of the core.
//! Ends that no client asked for (expiry, an operator, a cancellation) are operations too. They
//! are placed at the moment of true time at which the first member applied them: before it nobody
//! can have seen them, and whoever asks after it must, because it was committed by then. For the
//! same reason a call that nobody was answered ends, if it had an effect, when that was first
//! applied, and is left out if it had none: the reference tells which. So no operation is guessed
//! and none stays open for ever, and the search stays short.
//!
//! A search that does not end within its budget counts as a violation.

mod history;
mod model;

pub(super) use history::Histories;
