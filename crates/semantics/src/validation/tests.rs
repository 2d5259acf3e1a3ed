//! Conditions in both directions, and changes that a 304 or a HEAD makes to the stored response.

use super::*;
use crate::storage::{CachePolicy, ForwardedExchange, StorageDecision, may_store};
use crate::{CacheRules, date};
use http::{HeaderValue, Method, StatusCode};
use proptest::prelude::*;
use shoal_core::Timestamp;

const NOW: Timestamp = Timestamp::from_seconds(1_795_000_000);

/// Makes fields from `Name: value` lines; `@N` stands for the date N seconds from now.
fn fields(lines: &[&str]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a field");
        let value = match value.trim().strip_prefix('@').map(|offset| offset.parse::<i64>().expect("seconds"))
        {
            Some(offset) => {
                date::format(Timestamp::from_seconds(NOW.seconds().saturating_add_signed(offset)))
            }
            None => HeaderValue::from_bytes(value.trim().as_bytes()).expect("a field value"),
        };
        fields.append(HeaderName::from_bytes(name.as_bytes()).expect("a field name"), value);
    }
    fields
}

fn policy(stored: &HeaderMap) -> CachePolicy {
    let mut response = stored.clone();
    response.insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
    let exchanged = ForwardedExchange {
        method: &Method::GET,
        query: None,
        request: &HeaderMap::new(),
        status: StatusCode::OK,
        response: &response,
        request_time: NOW,
        response_time: NOW,
    };
    match may_store(&exchanged, &CacheRules::default()) {
        StorageDecision::Store(policy) => policy,
        StorageDecision::Refuse(why) => panic!("{why:?}"),
    }
}

fn condition(request: &[&str], stored: &[&str]) -> Condition {
    let stored = fields(stored);
    evaluate(&fields(request), StatusCode::OK, &stored, &policy(&stored), NOW)
}

#[test]
fn validation_request_has_stored_validators_only() {
    let stored = fields(&["ETag: W/\"a\"", "Last-Modified: @-5"]);
    let mut request = fields(&[
        "If-None-Match: \"b\"",
        "If-Range: \"b\"",
        "If-Match: \"c\"",
        "If-Unmodified-Since: x",
        "Foo: 1",
    ]);
    assert!(is_conditional(&request));
    assert!(add_conditions(&stored, &mut request));
    assert_eq!(request[IF_NONE_MATCH], "W/\"a\"");
    assert_eq!(request[IF_MODIFIED_SINCE], stored[LAST_MODIFIED]);
    assert_eq!(request.len(), 3);
    assert!(!add_conditions(&fields(&["ETag:"]), &mut request));
    assert_eq!(request.len(), 1);
    assert!(!is_conditional(&request));
}

#[test]
fn entity_tag_conditions() {
    use Condition::{Forward, NotModified, Proceed};
    for (request, tag, expected) in [
        (&["If-None-Match: \"a\""][..], "ETag: \"a\"", NotModified),
        (&["If-None-Match: W/\"a\""], "ETag: \"a\"", NotModified),
        (&["If-None-Match: \"a\""], "ETag: W/\"a\"", NotModified),
        (&["If-None-Match: \"1\", \"a\", \"2\""], "ETag: \"a\"", NotModified),
        (&["If-None-Match: \"1\"", "If-None-Match: \"a\""], "ETag: \"a\"", NotModified),
        (&["If-None-Match: \"1,a\""], "ETag: \"1,a\"", NotModified),
        (&["If-None-Match: *"], "ETag: \"a\"", NotModified),
        (&["If-None-Match: *"], "X: no tag", NotModified),
        (&["If-None-Match: \"b\""], "ETag: \"a\"", Proceed),
        (&["If-None-Match: \"a\""], "X: no tag", Proceed),
        (&["If-None-Match:"], "ETag: \"a\"", Proceed),
        (&["If-None-Match: a"], "ETag: \"a\"", NotModified),
        (&["If-None-Match: a"], "ETag: a", NotModified),
        (&["If-None-Match: \"a\""], "ETag: a", NotModified),
        (&["If-None-Match: W\\\"a\""], "ETag: W\\\"a\"", NotModified),
        (&["If-None-Match: a\"b,c"], "ETag: a\"b,c", NotModified),
        (&["If-Match: \"a\""], "ETag: \"a\"", Forward),
        (&["If-Match: *", "If-None-Match: \"a\""], "ETag: \"a\"", Forward),
    ] {
        assert_eq!(condition(request, &[tag]), expected, "{request:?} {tag}");
    }
}

#[test]
fn date_conditions() {
    use Condition::{Forward, NotModified, Proceed};
    let modified = &["Last-Modified: @-3000", "Date: @0"][..];
    for (request, stored, expected) in [
        (&["If-Modified-Since: @-3000"][..], modified, NotModified),
        (&["If-Modified-Since: @-2000"], modified, NotModified),
        (&["If-Modified-Since: @-3001"], modified, Proceed),
        (&["If-Modified-Since: foo"], modified, Proceed),
        (&["If-Modified-Since: @-3000", "If-Modified-Since: @-3000"], modified, Proceed),
        (&["If-Modified-Since: @0"], &["Date: @0"], NotModified),
        (&["If-Modified-Since: @-3000"], &["Date: @0"], Proceed),
        (&["If-Modified-Since: @0"], &[], NotModified),
        (&["If-Modified-Since: @-1"], &[], Proceed),
        (&["If-None-Match: \"b\"", "If-Modified-Since: @0"], modified, Proceed),
        (&["If-Unmodified-Since: @-3000"], modified, Forward),
        (&["If-Unmodified-Since: foo"], modified, Forward),
    ] {
        assert_eq!(condition(request, stored), expected, "{request:?} {stored:?}");
    }
}

#[test]
fn conditions_count_for_successes_only() {
    let stored = fields(&["ETag: \"a\""]);
    let request = fields(&["If-None-Match: \"a\""]);
    for status in [StatusCode::NOT_FOUND, StatusCode::MOVED_PERMANENTLY] {
        assert_eq!(
            evaluate(&request, status, &stored, &policy(&stored), NOW),
            Condition::Proceed,
            "{status}"
        );
    }
}

#[test]
fn not_modified_selects_stored_response() {
    for (not_modified, stored, about) in [
        (&["ETag: \"a\""][..], &["ETag: \"a\""][..], true),
        (&["ETag: \"b\""], &["ETag: \"a\""], false),
        (&["ETag: \"a\""], &["Last-Modified: x"], false),
        (&["ETag: W/\"a\""], &["ETag: W/\"a\""], true),
        (&["ETag: W/\"a\""], &["ETag: \"a\""], true),
        (&["ETag: W/\"b\""], &["ETag: \"a\""], false),
        // nginx weakens the tag of a response that it compresses, but not that of its 304.
        (&["ETag: \"a\""], &["ETag: W/\"a\""], true),
        (&["Last-Modified: x"], &["Last-Modified: x"], true),
        (&["Last-Modified: y"], &["Last-Modified: x"], false),
        (&["Last-Modified: x"], &["ETag: \"a\""], false),
        (&["ETag: \"a\"", "Last-Modified: y"], &["ETag: \"a\"", "Last-Modified: x"], true),
        (&[], &["ETag: \"a\""], true),
    ] {
        assert_eq!(selects(&fields(not_modified), &fields(stored)), about, "{not_modified:?} {stored:?}");
    }
}

#[test]
fn freshening_replaces_fields_by_name() {
    let mut stored = fields(&[
        "Cache-Control: max-age=1",
        "Link: <a>",
        "Link: <b>",
        "Kept: 1",
        "ETag: W/\"a\"",
        "Content-Length: 5",
        "Content-Encoding: gzip",
        "Content-Range: bytes 0-4/5",
        "Content-MD5: x",
        "Content-Type: text/plain",
        "Age: 100",
    ]);
    let newer = fields(&[
        "Cache-Control: max-age=60",
        "Link: <c>",
        "Link: <d>",
        "New: 1",
        "ETag: \"a\"",
        "Content-Length: 10",
        "Content-Encoding: br",
        "Content-Range: bytes 0-9/10",
        "Content-MD5: y",
        "Content-Type: text/html",
        "Connection: hop",
        "Hop: 1",
        "Transfer-Encoding: chunked",
    ]);
    freshen(&mut stored, &newer);
    let mut lines: Vec<String> =
        stored.iter().map(|(name, value)| format!("{name}: {}", value.to_str().expect("ASCII"))).collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "cache-control: max-age=60",
            "content-encoding: gzip",
            "content-length: 5",
            "content-md5: x",
            "content-range: bytes 0-4/5",
            "content-type: text/html",
            "etag: W/\"a\"",
            "kept: 1",
            "link: <c>",
            "link: <d>",
            "new: 1",
        ]
    );
}

#[test]
fn freshen_takes_newer_age_and_first_tag() {
    let mut stored = fields(&["Age: 100"]);
    freshen(&mut stored, &fields(&["Age: 3", "ETag: \"a\""]));
    assert_eq!(
        (&stored[http::header::AGE], &stored[ETAG]),
        (&HeaderValue::from_static("3"), &HeaderValue::from_static("\"a\""))
    );
}

/// RFC 9111, section 4.1: other clients' values in a field that Vary names decide if the response
/// is for them.
#[test]
fn newer_vary_keeps_or_changes_selection() {
    for (before, newer, stays, after) in [
        ("Vary: A, B", "Vary: b, a", true, "A, B"),
        ("Vary: A, B", "Vary: B", true, "A, B"),
        ("Vary: A", "X: 1", true, "A"),
        ("Vary: A", "Vary: A, B", false, "A, B"),
        ("Vary: A", "Vary: *", false, "*"),
        ("X: 1", "Vary: A", false, "A"),
    ] {
        let mut stored = fields(&[before]);
        assert_eq!(freshen(&mut stored, &fields(&[newer])), stays, "{before}, then {newer}");
        assert_eq!(stored[http::header::VARY], after, "{before}, then {newer}");
    }
}

#[test]
fn error_is_validated_by_tag_alone() {
    let stored = fields(&["ETag: \"a\"", "Last-Modified: x"]);
    let asked = |status| conditions_of(status, &stored).map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(asked(StatusCode::OK), [IF_NONE_MATCH, IF_MODIFIED_SINCE]);
    assert_eq!(asked(StatusCode::NOT_FOUND), [IF_NONE_MATCH]);
}

#[test]
fn head_responses() {
    let stored = &["ETag: \"a\"", "Last-Modified: x", "Content-Length: 5"];
    let head_update =
        |stored: &HeaderMap, status, head: &HeaderMap| head_update((StatusCode::OK, stored), 5, status, head);
    for (status, head, update) in [
        (200, &["ETag: \"a\""][..], HeadUpdate::Freshen),
        (200, &[], HeadUpdate::Freshen),
        (200, &["ETag: W/\"a\"", "Last-Modified: x", "Content-Length: 5"], HeadUpdate::Freshen),
        (200, &["ETag: \"b\""], HeadUpdate::Invalidate),
        (200, &["Last-Modified: y"], HeadUpdate::Invalidate),
        (200, &["Content-Length: 6"], HeadUpdate::Invalidate),
        (304, &["ETag: \"b\""], HeadUpdate::Leave),
        (404, &[], HeadUpdate::Leave),
        (410, &["ETag: \"b\""], HeadUpdate::Leave),
    ] {
        let status = StatusCode::from_u16(status).expect("a status");
        assert_eq!(head_update(&fields(stored), status, &fields(head)), update, "{status} {head:?}");
    }
    assert_eq!(head_update(&fields(&[]), StatusCode::OK, &fields(&["ETag: \"a\""])), HeadUpdate::Invalidate);
}

#[test]
fn a_stored_error_is_no_older_form_of_a_success() {
    for status in [StatusCode::NOT_FOUND, StatusCode::MOVED_PERMANENTLY] {
        let update = head_update((status, &fields(&[])), 5, StatusCode::OK, &fields(&["Content-Length: 5"]));
        assert_eq!(update, HeadUpdate::Invalidate, "{status}");
    }
}

#[test]
fn not_modified_carries_fields_of_a_200() {
    for name in ["cache-control", "content-location", "date", "etag", "expires", "last-modified", "vary"] {
        assert!(is_sent_with_304(name.as_bytes()), "{name}");
    }
    for name in ["content-type", "content-length", "content-encoding", "set-cookie"] {
        assert!(!is_sent_with_304(name.as_bytes()), "{name}");
    }
}

proptest! {
    #[test]
    fn a_list_matches_when_one_member_does(tags in proptest::collection::vec("[a-c]{1,2}", 1..5), held in "[a-c]{1,2}") {
        let list = tags.iter().map(|tag| format!("\"{tag}\"")).collect::<Vec<_>>().join(" ,");
        let found = condition(&[&format!("If-None-Match: {list}")], &[&format!("ETag: \"{held}\"")]);
        prop_assert_eq!(found == Condition::NotModified, tags.contains(&held));
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40), tag in proptest::collection::vec(any::<u8>(), 0..20)) {
        let (Ok(value), Ok(tag)) = (HeaderValue::from_bytes(&bytes), HeaderValue::from_bytes(&tag)) else { return Ok(()) };
        let stored = HeaderMap::from_iter([(ETAG, tag), (LAST_MODIFIED, value.clone())]);
        let policy = policy(&fields(&["ETag: \"a\""]));
        for name in CONDITIONS {
            let request = HeaderMap::from_iter([(name, value.clone())]);
            let _ = evaluate(&request, StatusCode::OK, &stored, &policy, NOW);
            let _ = selects(&stored, &stored);
        }
    }
}
