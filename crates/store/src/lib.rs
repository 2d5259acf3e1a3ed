//! Objects in RAM and on disk.
//!
//! A *cache architecture* is how a cache names, places, finds and gives up objects on disk; each one
//! stands behind the [`Store`] trait. Calls are blocking: the proxy makes them on its I/O pool.

mod contract;
pub mod door;
pub mod memory;
mod options;

pub use contract::{Declined, Error, Insert, Store, Stored, StoredBody, Usage};
pub use options::{OpenOptions, open};
