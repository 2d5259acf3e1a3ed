//! The admin listener: metrics, status, purge and reload, apart from the ports that clients use.
//!
//! It runs on a thread of its own, so that a node whose workers are busy still answers its
//! operator, and speaks plain HTTP/1.1 on a TCP address or a Unix socket. Nobody authenticates
//! here: who reaches the listener may purge. It therefore belongs on loopback or on a socket, and
//! `guard` keeps web pages out that a browser on the same machine might load.

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
