//! The server: listeners, the exchange, upstreams, admin.
//!
//! `server` turns bytes of a client connection into a [`message::Request`] and a [`message::Reply`] back into
//! bytes; `exchange` is the life of a request in between, and knows no transport.

pub mod message;
pub mod metrics;
