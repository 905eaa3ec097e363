//! A whole cluster in one thread: virtual time, faults, clients and checkers, all from one seed.
//!
//! Owns: the event heap, the simulated network, disks and clocks ([`world`]), the clients that use
//! the service and the store that they guard with it ([`client`]), and what must hold whatever
//! happens ([`check`]). Refuses: real time, sockets, threads inside a run, and any source of
//! chance but the seed. What is run is the node of production, with nothing in it replaced.

pub mod bug;
pub mod check;
pub mod client;
pub mod dice;
pub mod fault;
pub mod mutants;
pub mod options;
pub mod plan;
pub mod run;
pub mod seen;
pub mod stopwatch;
pub mod trace;
pub mod world;
