//! Cooperation: joint decisions of caches that act as one, as functions of values.
//!
//! No sockets, no clock, no randomness: ages, loads, times and draws are arguments, so that the
//! live cluster and the lab's simulations call the same code.
//!
//! | module | decision |
//! |---|---|
//! | [`global_memory`] | node with memory for an evicted object |
//! | [`hash`] | home node of a key |
//! | [`distribution`] | back-end that answers a request at a front end |
//! | [`directory`] | probable holders of a key, by digests that nodes exchange |
//! | [`hierarchy`] | parent that a cache asks |
//! | [`prefetch`] | page to fetch early, node that gets it, and page that it replaces |

#![forbid(unsafe_code)]

pub mod directory;
pub mod distribution;
pub mod global_memory;
pub mod hash;
pub mod hierarchy;
pub mod prefetch;
mod route;

pub use route::{NodeId, Route, RouteStep};
