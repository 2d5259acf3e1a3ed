//! A judgement about storing with its grounds, for people.

use super::{StorageDecision, StoreRefusal};

/// Decision about storing a response, with its grounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judgement {
    /// The decision.
    pub decision: StorageDecision,
    /// Source of the lifetime; `None` if a refusal came before a look at it.
    pub source: Option<LifetimeSource>,
    /// `true` if a rule's `lifetime_max` has shortened the lifetime.
    pub is_limited: bool,
    /// `true` if a targeted field (RFC 9213) took the place of Cache-Control and Expires.
    pub is_targeted: bool,
}

/// Source of a freshness lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifetimeSource {
    /// `s-maxage` of the response.
    SharedMaxAge,
    /// `max-age` of the response.
    MaxAge,
    /// The Expires field of the response.
    Expires,
    /// `lifetime` of a rule.
    RuleLifetime,
    /// `lifetime_default` of a rule.
    RuleDefault,
    /// `lifetime_min` of a rule.
    RuleLeast,
    /// A guess from Last-Modified.
    Heuristic,
    /// A short guess for an error that other clients are about to get as well.
    Negative,
    /// No guess, since the request had cookies that the key does not have; the lifetime is 0.
    RequestCookie,
    /// No source; the lifetime is 0.
    Nothing,
}

impl LifetimeSource {
    /// Returns `true` if the response or a rule states the lifetime.
    pub fn is_explicit(self) -> bool {
        !matches!(self, Self::Heuristic | Self::Negative | Self::RequestCookie | Self::Nothing)
    }

    /// Returns `true` if a rule gives a lifetime for which the origin gave no leave.
    pub fn is_rule(self) -> bool {
        matches!(self, Self::RuleLifetime | Self::RuleDefault | Self::RuleLeast)
    }

    /// Returns the source in the words of fields and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SharedMaxAge => "s-maxage",
            Self::MaxAge => "max-age",
            Self::Expires => "expires",
            Self::RuleLifetime => "rule.lifetime",
            Self::RuleDefault => "rule.lifetime_default",
            Self::RuleLeast => "rule.lifetime_min",
            Self::Heuristic => "heuristic",
            Self::Negative => "negative",
            Self::RequestCookie => "request-cookie",
            Self::Nothing => "none",
        }
    }

    /// Returns the section of an RFC, or the setting, that decides.
    pub fn decided_by(self) -> &'static str {
        match self {
            Self::SharedMaxAge => "RFC 9111, section 5.2.2.10",
            Self::MaxAge => "RFC 9111, section 5.2.2.1",
            Self::Expires => "RFC 9111, section 5.3",
            Self::RuleLifetime => "lifetime",
            Self::RuleDefault => "lifetime_default",
            Self::RuleLeast => "lifetime_min",
            Self::Heuristic => "cache.heuristic_fraction (RFC 9111, section 4.2.2)",
            Self::Negative => "cache.negative_ttl (RFC 9111, section 4.2.2)",
            Self::RequestCookie => "a request with cookies, and no word of the origin",
            Self::Nothing => "RFC 9111, section 4.2.1",
        }
    }

    /// Returns the remedy for a lifetime of this source that is too short or too long.
    pub fn remedy(self) -> &'static str {
        match self {
            Self::SharedMaxAge | Self::MaxAge | Self::Expires => {
                "A rule with `lifetime` takes the place of the origin's, `lifetime_min` and `lifetime_max` bound it."
            }
            Self::RuleLifetime | Self::RuleDefault | Self::RuleLeast => "That rule.",
            Self::Heuristic => {
                "`cache.heuristic_fraction`, `cache.heuristic_max`, or a rule with `lifetime_default`."
            }
            Self::Negative => "`cache.negative_ttl`, or a rule with `statuses` and `lifetime`.",
            Self::RequestCookie => {
                "A lifetime by the origin, or a rule with the `cookies` that count; an empty list for none."
            }
            Self::Nothing => "A rule with `lifetime_default`.",
        }
    }
}

impl StoreRefusal {
    /// Returns the section of an RFC, or the setting, that decides.
    pub fn decided_by(self) -> &'static str {
        match self {
            Self::Method => "RFC 9111, section 3",
            Self::Status => "RFC 9111, section 3",
            Self::RequestNoStore => "RFC 9111, section 5.2.1.5",
            Self::NoStore => "RFC 9111, section 5.2.2.5",
            Self::Private => "RFC 9111, section 5.2.2.7",
            Self::Authorization => "RFC 9111, section 3.5",
            Self::SetCookie => "set_cookie (RFC 9111, section 7.3)",
            Self::VaryAny => "RFC 9111, section 4.1",
            Self::ContentRange => "RFC 9111, section 3.3",
            Self::NotPermitted => "RFC 9111, section 3",
            Self::NeverReusable => "RFC 9111, section 4.3.1",
            Self::Rule => "store",
            Self::RequestCookie => "cookies of the request",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{ForwardedExchange, judge};
    use crate::{CacheRules, Overrides};
    use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
    use shoal_core::Timestamp;
    use std::time::Duration;

    fn source(fields: &[(&'static str, &'static str)], overrides: Overrides) -> (&'static str, bool, bool) {
        let line = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query: None,
            request: &HeaderMap::new(),
            status: StatusCode::OK,
            response: &fields.iter().map(line).collect::<HeaderMap>(),
            request_time: Timestamp::from_seconds(1_000_000_000),
            response_time: Timestamp::from_seconds(1_000_000_000),
        };
        let judged = judge(&exchanged, &CacheRules { overrides, ..CacheRules::default() });
        (judged.source.map_or("", LifetimeSource::as_str), judged.is_limited, judged.is_targeted)
    }

    #[test]
    fn grounds_of_a_lifetime_are_named() {
        let minute = Some(Duration::from_secs(60));
        let control = |value| ("cache-control", value);
        let none = Overrides::default;
        for (fields, overrides, grounds) in [
            (vec![control("max-age=5, s-maxage=6")], none(), ("s-maxage", false, false)),
            (vec![control("max-age=5"), ("expires", "0")], none(), ("max-age", false, false)),
            (vec![("expires", "0")], none(), ("expires", false, false)),
            (vec![("cdn-cache-control", "max-age=5")], none(), ("max-age", false, true)),
            (vec![("last-modified", "Sat, 29 Oct 1994 19:43:31 GMT")], none(), ("heuristic", false, false)),
            (vec![], none(), ("none", false, false)),
            (vec![control("no-store")], none(), ("", false, false)),
            (
                vec![],
                Overrides { lifetime_default: minute, ..none() },
                ("rule.lifetime_default", false, false),
            ),
            (
                vec![control("max-age=5")],
                Overrides { lifetime_default: minute, ..none() },
                ("max-age", false, false),
            ),
            (
                vec![control("max-age=5")],
                Overrides { lifetime_min: minute, ..none() },
                ("rule.lifetime_min", false, false),
            ),
            (
                vec![control("max-age=500")],
                Overrides { lifetime_max: minute, ..none() },
                ("max-age", true, false),
            ),
            (
                vec![control("max-age=500")],
                Overrides { lifetime: minute, lifetime_max: minute, ..none() },
                ("rule.lifetime", false, false),
            ),
        ] {
            assert_eq!(source(&fields, overrides.clone()), grounds, "{fields:?} {overrides:?}");
        }
    }
}
