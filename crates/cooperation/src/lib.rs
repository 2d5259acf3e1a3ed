//! Cooperation: what caches that act as one decide together, as functions of values.
//!
//! No sockets, no clock, no randomness: ages, loads, times and draws are arguments, so that the
//! live cluster and the lab's simulations call the same code.
//!
//! | module | decides |
//! |---|---|
//! | [`global_memory`] | which node's memory takes an evicted object |
//! | [`hash`] | which node is the home of a key |
//! | [`distribution`] | which back-end answers a request that came to a front end |
//! | [`directory`] | who seems to hold a key, from digests that nodes send each other |
//! | [`hierarchy`] | whom a cache asks above it |
//! | [`prefetch`] | what is fetched before it is asked for, into whose memory, and what gives way |

#![forbid(unsafe_code)]

pub mod directory;
pub mod distribution;
pub mod global_memory;
pub mod hash;
pub mod hierarchy;
pub mod prefetch;
mod route;

pub use route::{NodeId, Route, RouteStep};
