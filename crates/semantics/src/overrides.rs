//! Operator's decisions that override those of the origin.

use crate::directives::{CacheControl, Scope};
use std::time::Duration;

/// Operator's decisions about one response. `None` leaves a decision to the origin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// `false` keeps the response from being stored.
    pub store: Option<bool>,
    /// Freshness lifetime instead of the origin's.
    pub lifetime: Option<Duration>,
    /// Freshness lifetime of a response without an explicit one.
    pub lifetime_default: Option<Duration>,
    /// Least freshness lifetime.
    pub lifetime_min: Option<Duration>,
    /// Longest freshness lifetime.
    pub lifetime_max: Option<Duration>,
    /// Time after the lifetime in which a stale response is served during its validation.
    pub stale_while_revalidate: Option<Duration>,
    /// Time after the lifetime in which a stale response stands in for an error.
    pub stale_if_error: Option<Duration>,
    /// Directives of the origin that are ignored.
    pub ignored: Option<IgnoredDirectives>,
    /// `true` stores the response without its cookies.
    pub strip_cookies: Option<bool>,
    /// `true` shares answers to requests with credentials.
    pub share_private: Option<bool>,
    /// `true` if the cookies of requests are limited to those that select among answers.
    pub cookies_are_keyed: Option<bool>,
    /// `true` keeps the stored response when space is made for others.
    pub pin: Option<bool>,
}

/// Directives of the origin that are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IgnoredDirectives {
    /// `no-store`.
    pub no_store: bool,
    /// `private`.
    pub private: bool,
    /// `no-cache`.
    pub no_cache: bool,
    /// `must-revalidate` and `proxy-revalidate`.
    pub must_revalidate: bool,
}

impl Overrides {
    /// Applies the settings of `later` over these.
    pub fn merge(&mut self, later: &Self) {
        self.store = later.store.or(self.store);
        self.lifetime = later.lifetime.or(self.lifetime);
        self.lifetime_default = later.lifetime_default.or(self.lifetime_default);
        self.lifetime_min = later.lifetime_min.or(self.lifetime_min);
        self.lifetime_max = later.lifetime_max.or(self.lifetime_max);
        self.stale_while_revalidate = later.stale_while_revalidate.or(self.stale_while_revalidate);
        self.stale_if_error = later.stale_if_error.or(self.stale_if_error);
        self.ignored = later.ignored.or(self.ignored);
        self.strip_cookies = later.strip_cookies.or(self.strip_cookies);
        self.share_private = later.share_private.or(self.share_private);
        self.cookies_are_keyed = later.cookies_are_keyed.or(self.cookies_are_keyed);
        self.pin = later.pin.or(self.pin);
    }

    /// Returns the overrides without lifetimes, stale windows and pins.
    pub fn without_lifetime(&self) -> Self {
        Self {
            lifetime: None,
            lifetime_default: None,
            lifetime_min: None,
            lifetime_max: None,
            stale_while_revalidate: None,
            stale_if_error: None,
            pin: None,
            ..self.clone()
        }
    }

    /// Removes the ignored directives.
    pub(crate) fn apply(&self, directives: &mut CacheControl) {
        let Some(ignored) = self.ignored else { return };
        directives.no_store &= !ignored.no_store;
        if ignored.private {
            directives.private = Scope::default();
        }
        if ignored.no_cache {
            directives.no_cache = Scope::default();
        }
        directives.must_revalidate &= !ignored.must_revalidate;
        directives.proxy_revalidate &= !ignored.must_revalidate;
        // RFC 9111, section 5.2.2.10: s-maxage "incorporates the semantics of the proxy-revalidate
        // response directive". Its lifetime stays.
        directives.stale_beside_s_maxage = ignored.must_revalidate;
    }
}
