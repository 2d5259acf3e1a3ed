//! The admin listener: metrics, status, purge and reload, apart from the client ports.
//!
//! The listener runs on its own thread, so that a node with busy workers still answers its
//! operator. It speaks plain HTTP/1.1 on a TCP address or a Unix socket. There is no
//! authentication: any client that reaches the listener may purge. The listener therefore belongs
//! on loopback or on a Unix socket. `guard` refuses requests from web pages in a browser on the
//! same machine.

mod control;
mod exposition;
mod guard;
mod impatient;
mod listener;
mod process;
mod purge;
mod routes;

pub use control::{
    Control, DiskRequest, DiskStatus, PurgeOutcome, PurgeRequest, Ram, Readiness, Responses, Space, Status,
    StoreStatus, UpstreamStatus,
};
pub use listener::{AdminListener, BoundAdmin};

#[cfg(test)]
mod tests;
