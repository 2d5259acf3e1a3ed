//! Cache-Status (RFC 9211).

use super::{ForwardReason, MEMBER_BYTES, push_name, push_quoted};
use crate::Coding;
use crate::fields::append_shared_member;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode};

/// Cache-Status.
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// Member of Cache-Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheStatus<'a> {
    /// Name of this cache.
    pub cache: &'a str,
    /// Handling of the request: answered from storage, forwarded, or answered by the cache itself.
    pub handling: HandlingWay,
    /// Seconds for which the response stays fresh; negative when it is stale.
    pub ttl: Option<i64>,
    /// Cache key used.
    pub key: Option<&'a str>,
    /// Further detail, preferably a token.
    pub detail: Option<&'a str>,
    /// Coding of the body, if this cache coded it. It is the detail of a member without another.
    pub coding: Option<Coding>,
}

/// Way in which a cache handled a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlingWay {
    /// The cache answered from storage, without forwarding.
    Hit,
    /// The cache forwarded the request, or let it share a forwarded request.
    Forwarded(ForwardFacts),
    /// The cache made the answer itself, as an error page or a redirect.
    Generated,
}

/// Facts about a forwarded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardFacts {
    /// Reason for forwarding.
    pub reason: ForwardReason,
    /// Received status, when it differs from the status sent on, as with a 304 that validated.
    pub status: Option<StatusCode>,
    /// `true` if the response was stored.
    pub stored: bool,
    /// `true` if the request was collapsed with others.
    pub collapsed: bool,
}

impl CacheStatus<'_> {
    /// Returns the member as bytes.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = Vec::with_capacity(MEMBER_BYTES);
        self.write(&mut out);
        out.into()
    }

    /// Adds the member behind the members of earlier caches, and returns it.
    pub fn append_to(&self, response: &mut HeaderMap) -> Bytes {
        let member = self.to_bytes();
        append_shared_member(response, &CACHE_STATUS, member.clone());
        member
    }

    /// Writes the member.
    pub fn write(&self, out: &mut Vec<u8>) {
        push_name(out, self.cache);
        match self.handling {
            HandlingWay::Hit => out.extend_from_slice(b";hit"),
            HandlingWay::Forwarded(forwarded) => forwarded.push(out),
            HandlingWay::Generated => {}
        }
        // Before the digits of the time to live, which the fast path writes last.
        if let (Some(coding), None) = (self.coding, self.detail) {
            out.extend_from_slice(b";detail=");
            out.extend_from_slice(coding.detail().as_bytes());
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(b";ttl=");
            let ttl = ttl.clamp(-INTEGER_MAX, INTEGER_MAX);
            out.extend_from_slice(itoa::Buffer::new().format(ttl).as_bytes());
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b";key=");
            push_quoted(out, key);
        }
        if let Some(detail) = self.detail {
            out.extend_from_slice(b";detail=");
            push_name(out, detail);
        }
    }
}

impl ForwardFacts {
    fn push(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b";fwd=");
        out.extend_from_slice(self.reason.as_str().as_bytes());
        if let Some(status) = self.status {
            out.extend_from_slice(b";fwd-status=");
            out.extend_from_slice(status.as_str().as_bytes());
        }
        if self.stored {
            out.extend_from_slice(b";stored");
        }
        if self.collapsed {
            out.extend_from_slice(b";collapsed");
        }
    }
}

/// Largest structured integer.
const INTEGER_MAX: i64 = 999_999_999_999_999;

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;

    fn forwarded(reason: ForwardReason) -> ForwardFacts {
        ForwardFacts { reason, status: None, stored: false, collapsed: false }
    }

    fn cache_status(handling: HandlingWay) -> CacheStatus<'static> {
        CacheStatus { cache: "shoal", handling, ttl: None, key: None, detail: None, coding: None }
    }

    #[test]
    fn members_of_cache_status() {
        let stale =
            ForwardFacts { status: Some(StatusCode::NOT_MODIFIED), ..forwarded(ForwardReason::Stale) };
        let missed = ForwardFacts { stored: true, collapsed: true, ..forwarded(ForwardReason::UriMiss) };
        for (member, text) in [
            (CacheStatus { ttl: Some(376), ..cache_status(HandlingWay::Hit) }, "shoal;hit;ttl=376"),
            (CacheStatus { ttl: Some(-412), ..cache_status(HandlingWay::Hit) }, "shoal;hit;ttl=-412"),
            (
                CacheStatus { ttl: Some(5), coding: Some(Coding::Brotli), ..cache_status(HandlingWay::Hit) },
                "shoal;hit;detail=coded-br;ttl=5",
            ),
            (
                CacheStatus {
                    detail: Some("retry-after"),
                    coding: Some(Coding::Gzip),
                    ..cache_status(HandlingWay::Hit)
                },
                "shoal;hit;detail=retry-after",
            ),
            (cache_status(HandlingWay::Forwarded(stale)), "shoal;fwd=stale;fwd-status=304"),
            (cache_status(HandlingWay::Forwarded(missed)), "shoal;fwd=uri-miss;stored;collapsed"),
            (
                CacheStatus {
                    key: Some("GET \"x\""),
                    detail: Some("no-store"),
                    ..cache_status(HandlingWay::Generated)
                },
                "shoal;key=\"GET \\\"x\\\"\";detail=no-store",
            ),
            (
                CacheStatus {
                    cache: "a cache é",
                    detail: Some("two words"),
                    ..cache_status(HandlingWay::Hit)
                },
                "\"a cache ?\";hit;detail=\"two words\"",
            ),
            (
                CacheStatus { ttl: Some(i64::MIN), ..cache_status(HandlingWay::Hit) },
                "shoal;hit;ttl=-999999999999999",
            ),
        ] {
            assert_eq!(member.to_bytes(), text);
        }
    }

    #[test]
    fn members_are_added_behind_those_of_others() {
        let mut response = HeaderMap::from_iter([(CACHE_STATUS, HeaderValue::from_static("Origin;hit"))]);
        response.append(CACHE_STATUS, HeaderValue::from_static("CDN;fwd=miss"));
        cache_status(HandlingWay::Hit).append_to(&mut response);
        assert_eq!(response.get_all(CACHE_STATUS).iter().count(), 1);
        assert_eq!(response[CACHE_STATUS], "Origin;hit, CDN;fwd=miss, shoal;hit");
    }

    proptest! {
        /// For any name, key and detail, the field is a structured list of one member.
        #[test]
        fn members_are_structured(cache in any::<String>(), key in any::<String>(), detail in any::<String>(), ttl in any::<i64>()) {
            let member = CacheStatus {
                cache: &cache,
                ttl: Some(ttl),
                key: Some(&key),
                detail: Some(&detail),
                coding: None,
                handling: HandlingWay::Forwarded(forwarded(ForwardReason::Miss)),
            };
            let list: sfv::List = sfv::Parser::new(&member.to_bytes()).parse().expect("a list");
            prop_assert_eq!(list.len(), 1);
        }
    }
}
