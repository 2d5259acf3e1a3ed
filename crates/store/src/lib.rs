//! Objects on disk.
//!
//! A *cache architecture* is how a cache names, places, finds and gives up objects on disk. Each
//! one implements the [`Store`] trait, and [`open`] finds it in a table. Calls are blocking: the
//! proxy makes them on its I/O pool. The tier in RAM is the crate `memory`.
//!
//! [`disks`] makes one store of several disks; [`inspect`] looks at a store from outside. From the
//! trait down: [`architectures`] (behaviour of a store) → [`index`] (list of its objects) and
//! `object` (format of an object file) → [`fs`] (access to files).

#![deny(unsafe_code)]

pub mod architectures;
mod contract;
pub mod disks;
pub mod fs;
pub mod index;
pub mod inspect;
mod object;
mod options;
pub mod patience;
mod sys;
mod together;

pub use contract::{
    Error, EvictionCallback, Insert, InsertRefusal, ObjectSummary, OpenObject, Peek, PromptStore, RING_PARTS,
    RingView, Store, StoreUpkeep, StoreView, StoredBody, TryInsert, Usage, WalkedObject, WalkedPart,
};
pub use options::{OpenOptions, open};
