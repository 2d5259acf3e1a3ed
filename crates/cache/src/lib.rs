//! The stored responses: RAM over disk, their metadata and bodies, and the purges that hide them.
//!
//! [`hybrid_cache`] looks up, inserts and removes. Jobs that may wait for a disk run in
//! [`io_pool`]. An arriving body has one writer ([`body_writer`]) and any number of readers
//! ([`shared_body`]).

#![forbid(unsafe_code)]

pub mod blocks;
pub mod body;
pub mod body_writer;
pub mod coded;
pub mod hybrid_cache;
pub mod identity;
pub mod invalidations;
pub mod io_pool;
pub mod judgement;
pub mod leaving;
pub mod metadata;
pub mod purge;
pub mod purge_table;
pub mod room;
pub mod shared_body;
pub mod shared_memory;
pub mod storage;
pub mod stored_object;

use shoal_clock as clock;
use shoal_message as message;
use shoal_message::holds;
use shoal_telemetry::metrics;
