//! Deterministic simulation of a cluster: a virtual clock, network and disks around the code that
//! the nodes run.
//!
//! ```text
//!  queue of (time, number, event) ─► World ─► Node: decisions of `shoal_cooperation`
//!        ▲                             │         │
//!        └── messages, timers, faults ◄┘◄────────┘ actions
//!                                      └─► Oracle: the truth, and the ten invariants
//! ```
//!
//! A run is a function of its [`Settings`]; the same seed gives the same trace. The invariants are
//! checked after every event. A broken one ends the run, and its text has the seed, the number of
//! the event and the last events.

#![forbid(unsafe_code)]

mod events;
mod faults;
mod gossip;
mod members;
mod message;
mod network;
mod node;
mod oracle;
mod random;
mod shared_memory;
mod shelf;
mod trace;
mod world;

pub use faults::FaultKind;
pub use node::Mutation;
pub use oracle::Counts;
pub use shared_memory::{MemoryFault, MemoryOutcome, MemorySettings, run_memory};
pub use world::{Outcome, Settings, run};

#[cfg(test)]
mod tests;
