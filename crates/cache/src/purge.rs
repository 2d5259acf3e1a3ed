//! Purges as an operator or a neighbour asks for them, and their results.

use serde::{Deserialize, Serialize};

/// The stored responses to purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeRequest {
    /// Every variant stored under this absolute URL.
    Url(String),
    /// Every response with this tag.
    Tag(String),
    /// Every response of an origin that belongs to this cache group (RFC 9875).
    Group {
        /// The origin as `scheme://host[:port]`.
        origin: String,
        /// The group's name.
        group: String,
    },
    /// Every response of this host, for any scheme and port.
    Host(String),
    /// All responses.
    All,
}

/// Result of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeOutcome {
    /// The named responses will not be served again.
    Purged {
        /// Number of stored responses purged, if they could be counted at once.
        responses: Option<u64>,
    },
    /// The named responses will not be served again by this node, and by the nodes that confirmed.
    Spread {
        /// Number of stored responses purged on this node, if they could be counted at once.
        responses: Option<u64>,
        /// Other nodes that have purged too, and written that down.
        confirmed: Vec<String>,
        /// Other nodes that have not said so in time. They make up for it once they can be reached.
        missing: Vec<String>,
    },
    /// The request names no storable response; the text is the reason.
    Invalid(String),
    /// The store failed to purge; the text is the reason.
    Failed(String),
}
