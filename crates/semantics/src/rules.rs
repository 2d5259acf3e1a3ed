//! What the operator decides about the judging of responses.

use crate::Overrides;
use http::HeaderName;
use std::time::Duration;

/// The settings that freshness and reuse depend on; they mirror the `[cache]` section of the
/// configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheRules {
    /// Share of the time since Last-Modified that a response without explicit freshness stays
    /// fresh.
    pub heuristic_fraction: f64,
    /// Longest heuristic freshness lifetime.
    pub heuristic_max: Duration,
    /// Which URLs with a query get heuristic freshness.
    pub heuristic_query: HeuristicQuery,
    /// How long after it became stale a response may be served when the origin fails and neither
    /// side said anything about it.
    pub stale_if_error: Duration,
    /// Freshness lifetime of an error that says nothing of its freshness, for those who bring no
    /// credentials.
    pub negative_ttl: Duration,
    /// Longest time for which an origin's Retry-After is heeded where a stale response stands in.
    pub retry_after_max: Duration,
    /// Fields that take the place of Cache-Control and Expires when present, the most specific
    /// first (RFC 9213).
    pub targeted: Vec<HeaderName>,
    /// What becomes of responses that set a cookie.
    pub set_cookie: SetCookie,
    /// The name by which Surrogate-Control addresses this cache; `None` where it is no surrogate.
    pub surrogate: Option<String>,
    /// Decisions of the operator about this response.
    pub overrides: Overrides,
}

/// What becomes of a response that sets a cookie. The cookie itself is never stored: it is for the
/// client who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCookie {
    /// The response goes to the client who asked, and is not stored.
    Pass,
    /// The response is stored without the cookie.
    Strip,
}

/// Which URLs with a query get heuristic freshness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeuristicQuery {
    /// None.
    Never,
    /// Those without a parameter that is a leave, such as a signature or a time at which it
    /// expires.
    Unsigned,
    /// All.
    Always,
}

impl Default for CacheRules {
    fn default() -> Self {
        Self {
            heuristic_fraction: 0.1,
            heuristic_max: Duration::from_secs(86_400),
            heuristic_query: HeuristicQuery::Never,
            stale_if_error: Duration::from_secs(3600),
            negative_ttl: Duration::from_secs(1),
            retry_after_max: Duration::from_secs(10),
            targeted: vec![
                HeaderName::from_static("shoal-cache-control"),
                HeaderName::from_static("cdn-cache-control"),
            ],
            set_cookie: SetCookie::Pass,
            surrogate: None,
            overrides: Overrides::default(),
        }
    }
}
