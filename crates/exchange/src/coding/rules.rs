//! Judges the responses that may be coded: a function of the settings and the head.

use crate::metadata::ResponseMetadata;
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, SET_COOKIE};
use http::{HeaderName, StatusCode};
use shoal_core::Fields;
use shoal_semantics::Coding;
use shoal_semantics::directives::{CacheControl, Scope};
use shoal_settings::{Compress, TextCoding};

/// The settings of compression, prepared.
pub(crate) struct CompressRules {
    order: Box<[Coding]>,
    types: Box<[String]>,
    bytes: std::ops::RangeInclusive<u64>,
    /// Requests after which a coding is made.
    pub after_hits: u16,
}

impl CompressRules {
    /// Prepares the settings; `None` if nothing is to be compressed.
    pub fn new(settings: &Compress) -> Option<Self> {
        let coding = |coding: &TextCoding| match coding {
            TextCoding::Br => Coding::Brotli,
            TextCoding::Zstd => Coding::Zstd,
            TextCoding::Gzip => Coding::Gzip,
        };
        settings.is_on().then(|| Self {
            order: settings.codings.iter().map(coding).collect(),
            types: settings.types.iter().map(|media_type| media_type.to_ascii_lowercase()).collect(),
            bytes: settings.bytes_min.0..=settings.bytes_max.0,
            after_hits: settings.after_hits,
        })
    }

    /// Returns the codings, best first.
    #[inline]
    pub fn order(&self) -> impl Iterator<Item = Coding> {
        self.order.iter().copied()
    }

    /// Returns `true` if the response with this head and a body of `length` bytes may be coded.
    ///
    /// RFC 9110, section 7.7: "A proxy MUST NOT transform the content (Section 6.4) of a response
    /// message that contains a no-transform cache directive".
    pub fn are_for(&self, head: &ResponseMetadata, length: u64) -> bool {
        let stored = &*head.stored;
        debug_assert!(!self.order.is_empty(), "nothing would be coded");
        let directives = CacheControl::of(stored);
        head.names.via_site
            && stored.status() == StatusCode::OK
            && self.bytes.contains(&length)
            && !head.policy.is_negative()
            && !directives.no_transform
            && directives.private == Scope::Nothing
            && !FORBIDDING.iter().any(|name| stored.has(name))
            && self.are_for_type(stored.content_type())
    }

    fn are_for_type(&self, content_type: &[u8]) -> bool {
        let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
        let Ok(media_type) = std::str::from_utf8(content_type[..end].trim_ascii()) else { return false };
        let media_type = media_type.to_ascii_lowercase();
        let Some((main, sub)) = media_type.split_once('/') else { return false };
        self.types.iter().any(|pattern| match pattern.split_once('/') {
            Some((wanted, "*")) => wanted == main,
            Some(_) => *pattern == media_type,
            None => pattern.strip_prefix('*').is_some_and(|suffix| sub.ends_with(suffix)),
        })
    }
}

/// Fields of a response that is coded already, is a part, is for one client, or is signed as it is.
const FORBIDDING: [HeaderName; 4] =
    [CONTENT_ENCODING, CONTENT_RANGE, SET_COOKIE, HeaderName::from_static("signature-input")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::metadata::{Provenance, ResponseScope};
    use crate::purge_table::Sequence;
    use http::header::CACHE_CONTROL;
    use http::{HeaderMap, HeaderValue, Method};
    use shoal_core::{ByteCount, Timestamp};
    use shoal_semantics::CacheRules;
    use shoal_semantics::storage::{ForwardedExchange, StorageDecision, may_store};

    fn rules(codings: &[TextCoding]) -> Option<CompressRules> {
        let bytes_max = ByteCount(100_000);
        CompressRules::new(&Compress { codings: codings.to_vec(), bytes_max, ..Compress::default() })
    }

    fn head(status: StatusCode, lines: &[(&'static str, &'static str)], via_site: bool) -> ResponseMetadata {
        let mut fields = HeaderMap::new();
        for (name, value) in lines {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut storable = fields.clone();
        storable.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
        storable.remove(SET_COOKIE);
        let now = Timestamp::from_seconds(10);
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query: None,
            request: &HeaderMap::new(),
            status: StatusCode::OK,
            response: &storable,
            request_time: now,
            response_time: now,
        };
        let StorageDecision::Store(policy) = may_store(&exchanged, &CacheRules::default()) else {
            panic!("storable")
        };
        let names = ResponseScope { slots: Box::new([]), groups: Box::new([]), via_site };
        let origin = Provenance { requested: Sequence::new(10), names, identity: Identity::unique() };
        ResponseMetadata::new(status, fields, policy, origin)
    }

    #[test]
    fn nothing_is_coded_without_a_coding() {
        assert!(rules(&[]).is_none());
        let rules = rules(&[TextCoding::Zstd, TextCoding::Gzip]).expect("two");
        assert!(rules.order().eq([Coding::Zstd, Coding::Gzip]));
    }

    #[test]
    fn text_alone_is_coded() {
        let rules = rules(&[TextCoding::Br]).expect("one");
        for (content_type, expected) in [
            ("text/html", true),
            ("Text/HTML; charset=utf-8", true),
            ("text/plain ;x", true),
            ("application/json", true),
            ("application/ld+json", true),
            ("image/svg+xml", true),
            ("application/javascript", true),
            ("image/png", false),
            ("application/octet-stream", false),
            ("application/zip", false),
            ("video/mp4", false),
            ("text", false),
            ("texts/html", false),
            ("", false),
        ] {
            let head = head(StatusCode::OK, &[("content-type", content_type)], true);
            assert_eq!(rules.are_for(&head, 5000), expected, "{content_type:?}");
        }
    }

    #[test]
    fn other_responses_stay_as_they_are() {
        let rules = rules(&[TextCoding::Br]).expect("one");
        let html = ("content-type", "text/html");
        let is_for =
            |status, field, length, via_site| rules.are_for(&head(status, &[html, field], via_site), length);
        let (ok, none) = (StatusCode::OK, ("x", "y"));
        assert!(is_for(ok, none, 1024, true) && is_for(ok, none, 100_000, true));
        assert!(!is_for(ok, none, 1023, true), "small");
        assert!(!is_for(ok, none, 100_001, true), "large");
        assert!(!is_for(ok, none, 5000, false), "forward mode");
        for status in [StatusCode::NOT_FOUND, StatusCode::PARTIAL_CONTENT] {
            assert!(!is_for(status, none, 5000, true), "{status}");
        }
        for field in [
            ("cache-control", "max-age=60, no-transform"),
            ("cache-control", "private"),
            ("cache-control", "private=\"x\""),
            ("content-encoding", "gzip"),
            ("content-encoding", "identity"),
            ("content-range", "bytes 0-1/2"),
            ("set-cookie", "a=b"),
            ("signature-input", "a=()"),
        ] {
            assert!(!is_for(ok, field, 5000, true), "{field:?}");
        }
    }
}
