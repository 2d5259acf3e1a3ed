//! Cooperation: what caches that act as one decide together, as functions of values.
//!
//! No sockets, no clock, no randomness: ages, loads, times and draws are arguments, so that the live cluster and the lab's simulations call the
//! same code.

#![forbid(unsafe_code)]

pub mod global_memory;
