//! The policy simulator: drives any replacement policy over a stream of requests, without bodies and without disk.

mod request;

pub use request::Request;
