//! A node: the parts put together, its admin listener, and warming.
//!
//! The server (`shoal_server`) turns bytes of a client connection into a request, and a reply into
//! bytes. The exchange (`shoal_exchange`) handles a request between these two steps.

#![forbid(unsafe_code)]

mod acme;
pub mod admin;
pub mod dashboard;
pub mod node;
pub mod reasons;
pub mod warming;

use shoal_cache::{hybrid_cache, io_pool, leaving, purge, purge_table, room, storage};
use shoal_exchange as exchange;
use shoal_intercept as intercept;
use shoal_message as message;
use shoal_peers::{cluster, neighbours};
use shoal_registries as mirror;
use shoal_route as route;
use shoal_server as server;
use shoal_telemetry::{access_log, by_site, metrics, otlp, per_core};
use shoal_transport as transport;
use shoal_upstream as upstream;
