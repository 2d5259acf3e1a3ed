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

impl PurgeOutcome {
    /// Returns the result of two purges that belong together: the sum, or the failure.
    pub fn and(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
        match (self, other) {
            (Self::Purged { responses: one }, Self::Purged { responses: other }) => {
                Self::Purged { responses: sum(one, other) }
            }
            (
                Self::Spread { responses: one, confirmed, mut missing },
                Self::Spread { responses: other, missing: others, .. },
            ) => {
                missing.extend(others);
                missing.sort_unstable();
                missing.dedup();
                let confirmed = confirmed.into_iter().filter(|node| !missing.contains(node)).collect();
                Self::Spread { responses: sum(one, other), confirmed, missing }
            }
            (failed @ (Self::Invalid(_) | Self::Failed(_)), _) => failed,
            (_, other) => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_that_belong_together_add_up() {
        let purged = |responses| PurgeOutcome::Purged { responses };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let spread = |responses, confirmed: &[&str], missing: &[&str]| PurgeOutcome::Spread {
            responses: Some(responses),
            confirmed: names(confirmed),
            missing: names(missing),
        };
        assert_eq!(purged(Some(1)).and(purged(Some(0))), purged(Some(1)));
        assert_eq!(purged(Some(1)).and(purged(None)), purged(None));
        let both = spread(1, &["a", "b"], &["c"]).and(spread(1, &["a", "c"], &["b"]));
        assert_eq!(both, spread(2, &["a"], &["b", "c"]));
        let failed = PurgeOutcome::Failed("disk".into());
        assert_eq!(failed.clone().and(purged(Some(1))), failed);
        assert_eq!(purged(Some(1)).and(failed.clone()), failed);
    }
}
