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
mod clock;
pub mod exchange;
mod hit;
mod holds;
pub mod io_pool;
mod ip_text;
pub mod message;
pub mod metrics;
pub mod node;
pub mod per_core;
mod room;
pub mod route;
pub mod server;
mod server_name;
mod storage;
mod stored_head;
pub mod stored_object;
mod transport;
pub mod tunnel;
pub mod upstream;
