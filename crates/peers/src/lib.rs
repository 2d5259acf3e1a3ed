//! Other caches: nodes of the cluster, and neighbours by Squid's protocols.
//!
//! Both are asked for responses, are answered, and are told of purges. The decisions are those of
//! `shoal_cluster`, `shoal_cooperation` and `shoal_neighbours`; here are their sockets and tasks.

#![forbid(unsafe_code)]

pub mod cluster;
pub mod neighbours;

use shoal_access as access;
use shoal_cache::{hybrid_cache, purge};
use shoal_clock as clock;
use shoal_message as message;
use shoal_telemetry::metrics;
use shoal_upstream as upstream;
