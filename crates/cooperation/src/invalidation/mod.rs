//! Invalidation across a cluster: purges numbered by their origin, and vectors of those that a node
//! has applied.
//!
//! A purge is `(origin, life, number, scope)`. Its origin is the node that an operator, a client or
//! an origin server told. A life is one start of that node; it numbers its purges from 1 without
//! gaps. A [`Vector`] holds, for each origin and life, the highest number applied without gaps. No
//! clock of another node matters.
//!
//! - A node applies a purge at its own position in the order of requests, then advances its vector.
//! - A peer's body is taken only if the peer's vector covered ours at the time of asking.
//! - Nodes compare vectors and pull the purges that they lack from the other's [`PurgeLog`]. Where
//!   the log no longer reaches back, a node takes the whole vector. All that it stored before then
//!   needs validation.
//!
//! The first purge of a life names the last numbers of the node's earlier lives. A node that has
//! them all retires these lives, so that vectors stay small.

mod codec;
mod ledger;
mod log;
mod share;
mod trust;
mod vector;

pub use codec::{MALFORMED_PURGE, Message, PURGE_BYTES_MAX, decode_purges, encode_purges};
pub use ledger::PurgeLedger;
pub use log::{LogLimits, PurgeLog, Repair};
pub use share::PurgeShare;
pub use trust::{Coverage, Lease, VectorHistory, absence_needs_validation};
pub use vector::{LIVES_MAX, ORIGINS_MAX, Vector, VectorChange};

use crate::route::NodeId;
use std::fmt;

/// One purge of the cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Purge {
    /// Position of the purge in the order of its origin.
    pub id: PurgeId,
    /// Responses that it removes.
    pub scope: Scope,
}

/// Position of a purge in the order of its origin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PurgeId {
    /// Node that was told to purge.
    pub origin: NodeId,
    /// Start of that node; a later start has a higher number.
    pub life: u64,
    /// Position within the life, from 1.
    pub number: u64,
}

/// Responses that a purge removes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// None: the first purge of a life. Names the last numbers of earlier lives of its origin.
    Start {
        /// Earlier lives, each with its last number.
        ended: Vec<(u64, u64)>,
    },
    /// Responses stored under a URL.
    Url {
        /// Absolute URL.
        url: String,
        /// Modes of the removed responses.
        modes: Modes,
    },
    /// Responses with a tag.
    Tag(String),
    /// Responses of an origin server in a cache group.
    Group {
        /// Scheme, host and port.
        origin: String,
        /// Name of the group.
        group: String,
        /// `true` if an operator asked; an origin server's purges have a share.
        is_operators: bool,
    },
    /// Responses of a host.
    Host(String),
    /// Every response.
    All,
}

/// Modes of the proxy that a purge concerns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Modes {
    /// Responses of sites.
    Reverse,
    /// Responses of the forward proxy.
    Forward,
    /// Responses of both modes.
    Both,
}

impl fmt::Display for PurgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}.{}", self.origin.0, self.life, self.number)
    }
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;
