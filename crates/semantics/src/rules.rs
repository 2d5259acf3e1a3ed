//! Operator's settings for judging responses.

use crate::Overrides;
use http::HeaderName;
use std::time::Duration;

/// Settings that freshness and reuse depend on. They mirror the `[cache]` section of the
/// configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheRules {
    /// Freshness lifetime of a response without an explicit one, as a share of the time since
    /// Last-Modified.
    pub heuristic_fraction: f64,
    /// Longest heuristic freshness lifetime.
    pub heuristic_max: Duration,
    /// URLs with a query that get heuristic freshness.
    pub heuristic_query: HeuristicQuery,
    /// Time for which a stale response may be served when the origin fails and neither request nor
    /// response sets a limit.
    pub stale_if_error: Duration,
    /// Freshness lifetime of an error without an explicit one, for clients that send no
    /// credentials.
    pub negative_ttl: Duration,
    /// Longest time for which the cache obeys an origin's Retry-After while a stale response stands
    /// in.
    pub retry_after_max: Duration,
    /// Fields that replace Cache-Control and Expires when present, most specific first (RFC 9213).
    pub targeted: Vec<HeaderName>,
    /// Treatment of responses that set a cookie.
    pub set_cookie: SetCookie,
    /// Name by which Surrogate-Control addresses this cache; `None` if the cache is no surrogate.
    pub surrogate: Option<String>,
    /// Decisions of the operator about this response.
    pub overrides: Overrides,
}

/// Treatment of a response that sets a cookie. The cookie itself is never stored: it is for the
/// requesting client alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetCookie {
    /// The response goes to the requesting client and is not stored.
    Pass,
    /// The response is stored without the cookie.
    Strip,
}

/// URLs with a query that get heuristic freshness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeuristicQuery {
    /// No URLs with a query.
    Never,
    /// URLs without a parameter that is a leave, such as a signature or a time of expiry.
    Unsigned,
    /// All URLs with a query.
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
