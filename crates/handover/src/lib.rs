//! Hand-over between two processes of one node: sockets from a service manager or from the process
//! before, and the messages by which a new process takes over from an old one.
//!
//! ```text
//!  old process                                         new process
//!  Offer, sockets ──────────────────────────────────►  reads settings, takes the sockets
//!                 ◄──────────────────────────────────  Prepared
//!  writes the store, lets it go, Released ──────────►  opens the store, accepts
//!                 ◄──────────────────────────────────  Serving
//!  Entrusted, ends its requests ────────────────────►  tells the service manager
//!  Changed, Stored, Removed ────────────────────────►  until the old process ends
//!                 ◄──────────────────────────────────  Changed
//! ```
//!
//! Until `Entrusted` the old process can go on as if nothing had happened. The messages travel over
//! a pair of sockets that no other process can reach: the new process finds its end as its standard
//! input.

#![deny(unsafe_code)]

mod activation;
mod channel;
mod late;
mod message;
mod request;
mod sockets;
mod sys;

pub use activation::{Activation, ActivationFault, activated};
pub use channel::{Channel, ChannelFault, DESCRIPTORS_MAX, MESSAGE_BYTES_MAX};
pub use late::{ObjectParts, from_digits, read_object, send_object, to_digits};
pub use message::{Change, Message, PROTOCOL, PROTOCOL_LEAST, agree};
pub use request::{PendingRequest, UpgradeOutcome, UpgradeRequest, UpgradeSocket, request_upgrade};
pub use sockets::{InheritedSockets, SocketName, SocketUse};
