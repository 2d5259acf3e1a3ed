//! The server: listeners, the exchange, upstreams, admin.
//!
//! `server` turns bytes of a client connection into a [`message::Request`], and a
//! [`message::Reply`] into bytes. `exchange` handles a request between these two steps, and knows
//! no transport.

#![forbid(unsafe_code)]

pub mod admin;
pub mod cluster;
pub mod exchange;
pub mod intercept;
pub mod io_pool;
pub mod mirror;
pub mod neighbours;
pub mod node;
pub mod reasons;
mod room;
pub mod route;
pub mod server;
mod storage;
pub mod stored_object;
pub mod tunnel;
pub mod upstream;
pub mod warming;

use shoal_access as access;
use shoal_access::{rate_limit, settings_file};
use shoal_clock as clock;
use shoal_message as message;
use shoal_message::{boxed, holds};
use shoal_telemetry::{access_log, by_site, ip_text, metrics, per_core};
use shoal_transport as transport;
