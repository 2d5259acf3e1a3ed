//! The server: listeners, the exchange, upstreams, admin.
//!
//! `server` turns bytes of a client connection into a [`message::Request`], and a
//! [`message::Reply`] into bytes. `exchange` handles a request between these two steps, and knows
//! no transport.

#![forbid(unsafe_code)]

pub mod access;
pub mod access_log;
pub mod admin;
mod boxed;
pub mod by_site;
mod client_network;
mod clock;
pub mod cluster;
pub mod dashboard;
pub mod exchange;
mod hit;
mod holds;
pub mod intercept;
pub mod io_pool;
mod ip_text;
pub mod message;
pub mod metrics;
pub mod mirror;
pub mod neighbours;
pub mod node;
pub mod per_core;
mod rate_limit;
pub mod reasons;
mod room;
pub mod route;
pub mod samples;
pub mod server;
mod server_name;
mod settings_file;
mod storage;
mod stored_head;
pub mod stored_object;
mod transport;
pub mod tunnel;
pub mod upstream;
pub mod warming;
