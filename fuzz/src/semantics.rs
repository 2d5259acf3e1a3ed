//! The rules of RFC 9111 over any fields.

use http::header::CACHE_CONTROL;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use shoal_core::Timestamp;
use shoal_semantics::directives::{CacheControl, RequestDirectives, Scope};
use shoal_semantics::range::{ContentRange, Extents, RangeAnswer, RangeSet};
use shoal_semantics::reuse::{Reuse, decide};
use shoal_semantics::storage::{CachePolicy, ForwardedExchange, StorageDecision};
use shoal_semantics::vary::{self, Vary};
use shoal_semantics::{AcceptedCodings, CacheRules, Coding, date, targeted};

/// A date that was read reads back from how we write it, but for the last leap second of the year
/// 9999.
pub fn dates(data: &[u8]) {
    let Some(seconds) = date::parse(data, NOW) else { return };
    let written = date::format(Timestamp::from_seconds(seconds));
    assert_eq!(date::parse(written.as_bytes(), NOW), Some(seconds.min(LAST_SECOND)), "{written:?}");
}

/// Lines of Cache-Control mean the same as one line with all their members; targeted fields parse
/// or are absent.
pub fn cache_control(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let apart = CacheControl::parse(lines.iter().copied());
    // A quoted string left open swallows what follows it on its own line only.
    if !data.contains(&b'"') {
        let joined = lines.join(&b", "[..]);
        assert_eq!(CacheControl::parse([joined.as_slice()]), apart);
    }
    for line in lines {
        let _ = targeted::parse(line);
    }
}

/// Ranges lie within the representation and do not overlap; Content-Range reads back; what was
/// filed is not missing.
pub fn range(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    if let Some(set) = lines.next().and_then(RangeSet::parse) {
        for length in [0, 1, 10, 1000, u64::MAX] {
            check_resolved(set.resolve(length), length);
        }
    }
    let mut extents = Extents::new();
    let mut added = Vec::new();
    for content_range in lines.filter_map(ContentRange::parse) {
        assert_eq!(ContentRange::parse(content_range.to_value().as_bytes()), Some(content_range));
        if let Some(range) = content_range.range() {
            extents.insert(range);
            added.push(range);
        }
    }
    for range in &added {
        assert!(extents.contains(*range), "{range:?} was filed");
        assert!(extents.missing(*range).is_empty(), "{range:?} was filed");
    }
    let stretches: Vec<_> = extents.iter().collect();
    assert!(stretches.windows(2).all(|pair| pair[0].end < pair[1].start), "{stretches:?} touch");
}

fn check_resolved(resolved: RangeAnswer, length: u64) {
    let RangeAnswer::Parts(parts) = resolved else { return };
    assert!(!parts.is_empty());
    let mut sorted = parts.clone();
    sorted.sort_unstable();
    assert!(parts.iter().all(|part| part.end <= length), "{parts:?} of {length}");
    assert!(sorted.windows(2).all(|pair| pair[0].end < pair[1].start), "{parts:?} overlap");
}

/// Lines of Accept-Encoding mean the same as one line. A refused coding is never chosen, nor one
/// that the node lacks.
pub fn accept_encoding(data: &[u8]) {
    let lines: Vec<&[u8]> = data.split(|byte| *byte == b'\n').collect();
    let accepted = AcceptedCodings::of(lines.iter().copied());
    // A quoted string left open swallows what follows it on its own line only.
    if !data.contains(&b'"') {
        assert_eq!(AcceptedCodings::of([lines.join(&b", "[..]).as_slice()]), accepted);
    }
    for coding in Coding::ALL {
        let chosen = accepted.best([coding]);
        assert!(chosen.is_none_or(|chosen| chosen == coding), "{chosen:?} is not among the codings");
        let refused = format!("{};q=0", coding.name());
        let refusing = AcceptedCodings::of([refused.as_bytes()].into_iter().chain([&b"*"[..]]));
        assert_ne!(refusing.best(Coding::ALL), Some(coding));
    }
    assert_eq!(accepted.best([]), None);
}

/// White space around values selects no other variant, and presence does.
pub fn vary(data: &[u8]) {
    let (response, request) = two_messages(data);
    let Vary::Fields(names) = vary::nominated(&response) else { return };
    assert!(names.windows(2).all(|pair| pair[0].as_str() < pair[1].as_str()), "{names:?} unsorted");
    let key = vary::secondary_key(&names, &request);
    let mut spaced = HeaderMap::new();
    for (name, value) in &request {
        let value = [b" ", value.as_bytes(), b"\t "].concat();
        spaced.append(name, HeaderValue::from_bytes(&value).expect("white space may stand in a value"));
    }
    assert_eq!(vary::secondary_key(&names, &spaced), key);
    for name in names.iter().filter(|name| request.contains_key(*name)) {
        let mut without = request.clone();
        without.remove(name);
        assert_ne!(vary::secondary_key(&names, &without), key, "{name} made no difference");
    }
}

/// What forbids storing is obeyed, a policy reads back, and nothing becomes fresh by waiting.
pub fn storing(data: &[u8]) {
    let Some((status, rest)) = data.split_at_checked(3) else { return };
    let Ok(status) = StatusCode::from_bytes(status) else { return };
    let (response, request) = two_messages(rest);
    let exchanged = ForwardedExchange {
        method: &Method::GET,
        query: None,
        request: &request,
        status,
        response: &response,
        request_time: NOW,
        response_time: Timestamp::from_millis(NOW.millis() + 1500),
    };
    let rules = CacheRules::default();
    let StorageDecision::Store(policy) = shoal_semantics::storage::may_store(&exchanged, &rules) else {
        return;
    };
    check_stored(&exchanged, &rules);
    assert_eq!(CachePolicy::from_bytes(policy.to_bytes()), Some(policy));
    let directives = RequestDirectives::of(&request);
    let mut was_fresh = true;
    for seconds in [0, 1, 10, 59, 3600, 86_400, 31_536_000, u64::from(u32::MAX)] {
        let now = Timestamp::from_seconds(NOW.seconds() + 2 + seconds);
        let fresh = decide(&policy, &directives, now) == Reuse::Fresh;
        assert!(was_fresh || !fresh, "fresh again after {seconds} s: {policy:?}");
        was_fresh = fresh;
    }
}

/// RFC 9111, section 3, where Cache-Control governs.
fn check_stored(exchanged: &ForwardedExchange<'_>, rules: &CacheRules) {
    let directives = CacheControl::of(exchanged.response);
    assert!(!RequestDirectives::of(exchanged.request).no_store, "the request said no-store");
    if rules.targeted.iter().any(|name| exchanged.response.contains_key(name)) {
        return;
    }
    assert!(!directives.no_store || directives.must_understand, "the response said no-store");
    assert!(directives.private != Scope::Response, "the response said private");
    let shared = directives.public || directives.must_revalidate || directives.s_maxage.is_some();
    assert!(shared || !exchanged.request.contains_key("authorization"), "the request was authorized");
}

/// Lines `name: value`, those of the response, an empty line, those of the request; what is no
/// field is left out.
fn two_messages(data: &[u8]) -> (HeaderMap, HeaderMap) {
    let mut messages = (HeaderMap::new(), HeaderMap::new());
    let mut in_request = false;
    for line in data.split(|byte| *byte == b'\n').take(64) {
        if line.is_empty() {
            in_request = true;
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let name = HeaderName::from_bytes(&line[..colon]).unwrap_or(CACHE_CONTROL);
        if let Ok(value) = HeaderValue::from_bytes(line.get(colon + 1..).unwrap_or_default()) {
            let fields = if in_request { &mut messages.1 } else { &mut messages.0 };
            fields.append(name, value);
        }
    }
    messages
}

/// 31 December 9999, 23:59:59: an IMF-fixdate says nothing later.
const LAST_SECOND: u64 = 253_402_300_799;

/// 2 January 2026, 00:00:00.
const NOW: Timestamp = Timestamp::from_seconds(1_767_312_000);
