//! The server: listeners, the exchange, upstreams, admin.
//!
//! `server` turns bytes of a client connection into a [`message::Request`], and a
//! [`message::Reply`] into bytes. `exchange` handles a request between these two steps, and knows
//! no transport.

#![forbid(unsafe_code)]

pub mod admin;
pub mod cluster;
pub mod exchange;
#[cfg(any(test, feature = "fuzzing"))]
pub mod hit_ways;
pub mod io_pool;
pub mod mirror;
pub mod neighbours;
pub mod node;
pub mod reasons;
mod room;
mod storage;
pub mod stored_object;
pub mod warming;

use shoal_access as access;
use shoal_access::rate_limit;
use shoal_clock as clock;
use shoal_intercept as intercept;
use shoal_message as message;
use shoal_message::{boxed, holds};
use shoal_route as route;
use shoal_server as server;
use shoal_telemetry::{access_log, by_site, ip_text, metrics, per_core};
use shoal_transport as transport;
use shoal_upstream as upstream;
use shoal_upstream::tunnel;
