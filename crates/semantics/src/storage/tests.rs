//! Storing of responses: which are stored, their lifetime and age, and reading back of their
//! policy.

use super::*;
use crate::{HeuristicQuery, SetCookie, date};
use http::HeaderName;
use http::HeaderValue;
use proptest::prelude::*;
use std::time::Duration;

const SENT: Timestamp = Timestamp::from_seconds(1_795_000_000);

/// Makes fields from `Name: value` lines; `@N` stands for the date N seconds after the request.
pub(crate) fn fields(lines: &[&str]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a field");
        let value = match value.strip_prefix('@').map(|offset| offset.parse::<i64>().expect("seconds")) {
            Some(offset) => {
                date::format(Timestamp::from_seconds(SENT.seconds().saturating_add_signed(offset)))
            }
            None => HeaderValue::from_bytes(value.as_bytes()).expect("a field value"),
        };
        fields.append(HeaderName::from_bytes(name.as_bytes()).expect("a field name"), value);
    }
    fields
}

fn judge(request: &[&str], status: u16, response: &[&str]) -> StorageDecision {
    judge_by(&CacheRules::default(), request, status, response)
}

fn judge_by(rules: &CacheRules, request: &[&str], status: u16, response: &[&str]) -> StorageDecision {
    let (request, response) = (fields(request), fields(response));
    let exchanged = ForwardedExchange {
        method: &Method::GET,
        query: None,
        request: &request,
        status: StatusCode::from_u16(status).expect("a status"),
        response: &response,
        request_time: SENT,
        response_time: SENT,
    };
    may_store(&exchanged, rules)
}

fn policy(response: &[&str]) -> CachePolicy {
    match judge(&[], 200, response) {
        StorageDecision::Store(policy) => policy,
        StorageDecision::Refuse(why) => panic!("{response:?} refused: {why:?}"),
    }
}

fn refused(storage: StorageDecision) -> Option<StoreRefusal> {
    match storage {
        StorageDecision::Store(_) => None,
        StorageDecision::Refuse(why) => Some(why),
    }
}

/// ESI processors are addressed by Surrogate-Control without directives about caching.
/// Cache-Control holds then.
#[test]
fn surrogate_control_without_caching_is_ignored() {
    let rules = CacheRules { surrogate: Some("shoal".into()), ..CacheRules::default() };
    let dated = "last-modified: @-1000";
    for surrogate in
        ["content=\"ESI/1.0\"", "foobar", "content=\"ESI/1.0\";shoal, max-age=60;other", "no-store-remote"]
    {
        let line = format!("surrogate-control: {surrogate}");
        for (control, refusal) in [("private", StoreRefusal::Private), ("no-store", StoreRefusal::NoStore)] {
            let control = format!("cache-control: {control}");
            let judged = judge_by(&rules, &[], 200, &[&line, &control, dated]);
            assert_eq!(judged, StorageDecision::Refuse(refusal), "{surrogate}, {control}");
        }
    }
    let with = ["surrogate-control: content=\"ESI/1.0\", max-age=60", "cache-control: private"];
    assert!(matches!(judge_by(&rules, &[], 200, &with), StorageDecision::Store(_)));
}

#[test]
fn cookies_are_stored_by_no_directive() {
    let strip = CacheRules { set_cookie: SetCookie::Strip, ..CacheRules::default() };
    for (control, stored) in [
        ("cache-control: max-age=60", false),
        ("cache-control: max-age=60, public", false),
        ("cache-control: s-maxage=60", false),
        ("cdn-cache-control: max-age=60", false),
        ("cache-control: max-age=60, private=\"set-cookie\"", false),
        ("cache-control: max-age=60, private=\"set-cookie, set-cookie2\"", true),
        ("cache-control: max-age=60, no-cache=\"set-cookie2, set-cookie\"", true),
        ("last-modified: @-1000", false),
    ] {
        let response = [control, "set-cookie: a=b", "set-cookie2: a=b"];
        let why = (!stored).then_some(StoreRefusal::SetCookie);
        assert_eq!(refused(judge(&[], 200, &response)), why, "{control}");
        assert_eq!(refused(judge_by(&strip, &[], 200, &response)), None, "{control}");
        assert_eq!(refused(judge(&[], 200, &[control])), None, "{control}");
        for rules in [&strip, &CacheRules::default()] {
            let (stored, apart) = split_fields(&fields(&response), rules);
            assert!(!sets_cookie(&stored) && sets_cookie(&apart), "{control}");
        }
    }
}

#[test]
fn proofs_of_authentication_are_not_stored() {
    for (line, is_stored) in [
        ("authentication-info: nextnonce=\"1\"", false),
        ("secure-session-challenge: \"1\"", false),
        ("www-authenticate: Negotiate oRQ=", false),
        ("www-authenticate: Basic realm=\"a, b\", NTLM", false),
        ("www-authenticate: Basic realm=\"a, negotiate\"", true),
        ("clear-site-data: \"cookies\"", true),
    ] {
        let stored = stored_fields(&fields(&["cache-control: max-age=60", line]), &CacheRules::default());
        assert_eq!(stored.len() == 2, is_stored, "{line}");
    }
}

#[test]
fn storing_is_forbidden_with_reason() {
    for (request, status, response, why) in [
        (&[][..], 200, &["cache-control: max-age=60"][..], None),
        (&[], 200, &["cache-control: max-age=60, no-store"], Some(StoreRefusal::NoStore)),
        (&[], 200, &["cache-control: max-age=60, private"], Some(StoreRefusal::Private)),
        (&[], 200, &["cache-control: max-age=60, private=\"set-cookie\""], None),
        (&[], 200, &["cache-control: max-age=60, private=\"\""], Some(StoreRefusal::Private)),
        (
            &["cache-control: no-store"],
            200,
            &["cache-control: max-age=60"],
            Some(StoreRefusal::RequestNoStore),
        ),
        (&["authorization: x"], 200, &["cache-control: max-age=60"], Some(StoreRefusal::Authorization)),
        (&["authorization: x"], 200, &["expires: @60"], Some(StoreRefusal::Authorization)),
        (
            &["authorization: x"],
            200,
            &["cache-control: max-age=60, proxy-revalidate"],
            Some(StoreRefusal::Authorization),
        ),
        (&["authorization: x"], 200, &["cache-control: max-age=60, public"], None),
        (&["authorization: x"], 200, &["cache-control: max-age=60, must-revalidate"], None),
        (&["authorization: x"], 200, &["cache-control: s-maxage=60"], None),
        (&[], 200, &["cache-control: max-age=60", "vary: *"], Some(StoreRefusal::VaryAny)),
        (&[], 200, &["cache-control: max-age=60", "vary: foo"], None),
        (&[], 200, &["cache-control: max-age=60", "set-cookie: a=b"], Some(StoreRefusal::SetCookie)),
        (&["cookie: a=b"], 200, &["cache-control: max-age=60"], None),
        (&[], 599, &["cache-control: max-age=60, must-understand"], Some(StoreRefusal::Status)),
        (&[], 599, &["cache-control: max-age=60, no-store, must-understand"], Some(StoreRefusal::Status)),
        (&[], 200, &["cache-control: max-age=60, no-store, must-understand"], None),
        (&[], 200, &["cdn-cache-control: max-age=60", "cache-control: no-store"], None),
        (
            &[],
            200,
            &["cdn-cache-control: no-store", "cache-control: max-age=60"],
            Some(StoreRefusal::NoStore),
        ),
        (&[], 206, &["cache-control: max-age=60", "content-range: bytes 0-4/10"], None),
        (&[], 206, &["cache-control: max-age=60"], Some(StoreRefusal::ContentRange)),
        (
            &[],
            206,
            &["cache-control: max-age=60", "content-range: bytes 0-14/10"],
            Some(StoreRefusal::ContentRange),
        ),
        (
            &[],
            206,
            &["cache-control: max-age=60", "content-range: bytes */10"],
            Some(StoreRefusal::ContentRange),
        ),
    ] {
        assert_eq!(refused(judge(request, status, response)), why, "{request:?} {status} {response:?}");
    }
}

#[test]
fn statuses_with_explicit_freshness() {
    let fresh = &["cache-control: max-age=60"];
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        assert_eq!(refused(judge(&[], status, fresh)), None, "{status}");
    }
    for status in [101, 103, 226, 304, 407, 412, 416, 428, 429, 431, 511] {
        assert_eq!(refused(judge(&[], status, fresh)), Some(StoreRefusal::Status), "{status}");
    }
}

#[test]
fn statuses_without_explicit_freshness() {
    let modified = &["last-modified: @-86400", "date: @0"][..];
    for status in [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501] {
        match judge(&[], status, modified) {
            StorageDecision::Store(policy) => {
                assert!(policy.is_heuristic() && policy.is_fresh(SENT), "{status}")
            }
            StorageDecision::Refuse(why) => panic!("{status} refused: {why:?}"),
        }
    }
    for status in [201, 202, 302, 307, 403, 502, 503, 504, 599] {
        assert_eq!(refused(judge(&[], status, modified)), Some(StoreRefusal::NotPermitted), "{status}");
        let public = [modified, &["cache-control: public"]].concat();
        assert_eq!(refused(judge(&[], status, &public)), None, "{status} with public");
    }
}

#[test]
fn never_reusable_response_is_not_stored() {
    for (response, why) in [
        (&[][..], Some(StoreRefusal::NeverReusable)),
        (&["cache-control: max-age=0"], Some(StoreRefusal::NeverReusable)),
        (&["cache-control: no-cache, max-age=60"], Some(StoreRefusal::NeverReusable)),
        (&["expires: 0"], Some(StoreRefusal::NeverReusable)),
        (&["cache-control: max-age=60, must-revalidate", "age: 60"], Some(StoreRefusal::NeverReusable)),
        (&["cache-control: max-age=60", "age: 60"], None),
        (&["cache-control: max-age=0, stale-while-revalidate=60"], None),
        (&["cache-control: max-age=0, stale-if-error=60"], None),
        (&["cache-control: max-age=0", "etag: \"a\""], None),
        (&["cache-control: no-cache", "last-modified: @-5"], None),
        (&["etag: \"a\""], None),
    ] {
        assert_eq!(refused(judge(&[], 200, response)), why, "{response:?}");
    }
}

#[test]
fn only_responses_to_get_are_stored() {
    let response = fields(&["cache-control: max-age=60"]);
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
        let exchanged = ForwardedExchange {
            method: &method,
            query: None,
            request: &HeaderMap::new(),
            status: StatusCode::OK,
            response: &response,
            request_time: SENT,
            response_time: SENT,
        };
        assert_eq!(
            refused(may_store(&exchanged, &CacheRules::default())),
            Some(StoreRefusal::Method),
            "{method}"
        );
    }
}

#[test]
fn freshness_lifetimes() {
    for (response, seconds) in [
        (&["cache-control: max-age=60"][..], 60),
        (&["cache-control: max-age=60, s-maxage=5"], 5),
        (&["cache-control: s-maxage=5", "cache-control: max-age=60"], 5),
        (&["cache-control: max-age=60", "expires: @-7200", "date: @0"], 60),
        (&["cache-control: max-age=60", "expires: 0"], 60),
        (&["cdn-cache-control: max-age=60", "expires: @7200", "cache-control: s-maxage=1"], 60),
        (&["expires: @60", "date: @0"], 60),
        (&["expires: @60", "date: @-40"], 100),
        (&["expires: @60", "date: foo"], 60),
        (&["expires: @60"], 60),
        (&["expires: @60", "expires: @90"], 60),
        (&["expires: @300", "date: @400", "etag: \"a\""], 0),
        (&["expires: foo", "last-modified: @-1000"], 0),
        (&["expires: Fri, 31 Dec 9999 23:59:59 GMT"], 1 << 31),
        (&["last-modified: @-1000", "date: @0"], 100),
        (&["last-modified: @-1000", "date: @-500"], 50),
        (&["last-modified: @-100000000", "date: @0"], 86_400),
        (&["last-modified: @1000", "date: @0"], 0),
        (&["last-modified: foo", "date: @0"], 0),
        (&["cdn-cache-control: public", "expires: @60", "last-modified: @-1000"], 100),
        (&["cdn-cache-control: max-age, foo", "cache-control: max-age=7", "last-modified: @-1000"], 100),
    ] {
        assert_eq!(policy(response).freshness_lifetime(), Duration::from_secs(seconds), "{response:?}");
    }
}

#[test]
fn ages() {
    let sent_and_received = |response: &[&str], delay: Duration| {
        let response = fields(response);
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query: None,
            request: &HeaderMap::new(),
            status: StatusCode::OK,
            response: &response,
            request_time: SENT,
            response_time: SENT.plus(delay),
        };
        match may_store(&exchanged, &CacheRules::default()) {
            StorageDecision::Store(policy) => policy,
            StorageDecision::Refuse(why) => panic!("{why:?}"),
        }
    };
    let max_age = "cache-control: max-age=9999";
    for (response, delay, age) in [
        (&[max_age, "date: @0"][..], 0, 0),
        (&[max_age, "date: @0", "age: 30"], 0, 30),
        (&[max_age, "date: @-50", "age: 30"], 0, 50),
        (&[max_age, "date: @50", "age: 30"], 0, 30),
        (&[max_age, "age: 30"], 4, 34),
        (&[max_age, "date: @0"], 4, 4),
        (&[max_age, "date: foo", "age: foo"], 0, 0),
        (&[max_age, "age: 7, 9"], 0, 7),
        (&[max_age, "age: 7", "age: 9"], 0, 7),
        (&[max_age, "age: -7"], 0, 0),
        (&[max_age, "age: 7.5"], 0, 0),
        (&[max_age, "age: 99999999999"], 0, 1 << 31),
    ] {
        let policy = sent_and_received(response, Duration::from_secs(delay));
        let received = policy.response_time();
        assert_eq!(policy.current_age(received).as_secs(), age, "{response:?} after {delay} s");
        let later = received.plus(Duration::from_millis(2999));
        assert_eq!(policy.current_age(later).as_millis(), u128::from(age) * 1000 + 2999);
        assert_eq!(policy.time_to_live(later), 9999 - age as i64 - 2);
        let shortly = received.minus(Duration::from_secs(5));
        assert_eq!(policy.current_age(shortly).as_secs(), age, "by a reading of a moment before");
        let long = received.minus(Duration::from_secs(61));
        assert!(!policy.is_fresh(long), "with the clock set back nobody knows its age");
    }
}

#[test]
fn fresh_until_the_lifetime_is_reached() {
    let policy = policy(&["cache-control: max-age=2"]);
    assert!(policy.is_fresh(SENT.plus(Duration::from_millis(1999))));
    assert!(!policy.is_fresh(SENT.plus(Duration::from_millis(2000))));
    assert_eq!(policy.staleness(SENT.plus(Duration::from_millis(2500))), Duration::from_millis(500));
    assert_eq!(policy.staleness(SENT), Duration::ZERO);
}

#[test]
fn policy_keeps_relevant_facts() {
    let policy = policy(&[
        "cache-control: max-age=60, public, immutable, stale-while-revalidate=7, stale-if-error=8",
        "date: @-3",
        "last-modified: @-10",
    ]);
    assert!(policy.is_public() && policy.is_immutable() && !policy.is_heuristic() && !policy.is_partial());
    assert!(!policy.forbids_stale() && !policy.always_validates() && !policy.is_authorized());
    assert_eq!(policy.stale_while_revalidate(), Duration::from_secs(7));
    assert_eq!(policy.stale_if_error(), Some(Duration::from_secs(8)));
    assert_eq!(policy.date(), Some(SENT.seconds() - 3));
    assert_eq!(policy.last_modified(), Some(SENT.seconds() - 10));
    let invalidated = policy.invalidated();
    assert!(invalidated.is_invalidated() && invalidated.always_validates() && invalidated.forbids_stale());
}

#[test]
fn bytes_of_another_version_are_no_policy() {
    let bytes = policy(&["cache-control: max-age=60"]).to_bytes();
    for (at, byte) in [(0, 2), (1, 1), (3, 0x80)] {
        let mut other = bytes;
        other[at] = byte;
        assert_eq!(CachePolicy::from_bytes(other), None, "byte {at}");
    }
}

#[test]
fn stored_fields_omit_unstorable_fields() {
    let response = fields(&[
        "cache-control: max-age=60, private=\"set-cookie\", no-cache=\"x-token, etag\"",
        "set-cookie: a=b",
        "x-token: 1",
        "etag: \"a\"",
        "connection: x-hop",
        "x-hop: 1",
        "transfer-encoding: chunked",
        "trailer: x",
        "age: 5",
        "content-type: text/plain",
        "link: <a>",
        "link: <b>",
    ]);
    let stored = stored_fields(&response, &CacheRules::default());
    let mut names: Vec<&str> = stored.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["cache-control", "content-type", "link"]);
    assert_eq!(stored.get_all("link").iter().count(), 2);
}

#[test]
fn errors_without_freshness_last_a_moment() {
    let negative = |status, request: &[&str], response: &[&str]| match judge(request, status, response) {
        StorageDecision::Store(policy) if policy.is_negative() => {
            assert!(policy.forbids_stale() && policy.is_fresh(SENT));
            Some(policy.time_to_live(SENT))
        }
        _ => None,
    };
    for status in [404, 405, 410, 414, 501] {
        assert_eq!(negative(status, &[], &[]), Some(1), "{status}");
        assert_eq!(negative(status, &[], &["date: @-7", "age: 9"]), Some(1), "however old, {status}");
        assert_eq!(negative(status, &[], &["last-modified: @-1"]), Some(1), "{status}");
        for request in ["cookie: a=b", "authorization: x", "cache-control: no-store"] {
            assert_eq!(negative(status, &[request], &[]), None, "{status} {request}");
        }
        for response in
            ["cache-control: private", "cache-control: max-age=0", "expires: 0", "set-cookie: a=b", "vary: *"]
        {
            assert_eq!(negative(status, &[], &[response]), None, "{status} {response}");
        }
    }
    for status in [200, 204, 301, 302, 400, 401, 403, 429, 500, 502, 503, 504] {
        assert_eq!(negative(status, &[], &[]), None, "{status}");
    }
}

/// Rule of RFC 9111, section 4.2.2, and presigned URLs.
#[test]
fn queries_get_no_guess_by_default() {
    let (request, response) = (HeaderMap::new(), ["last-modified: @-864000", "cache-control: public"]);
    let judge = |query: Option<&str>, heuristic_query, more: &[&str]| {
        let rules = CacheRules { heuristic_query, ..CacheRules::default() };
        let response = fields(&[&response[..], more].concat());
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query,
            request: &request,
            status: StatusCode::OK,
            response: &response,
            request_time: SENT,
            response_time: SENT,
        };
        match may_store(&exchanged, &rules) {
            StorageDecision::Store(policy) => (policy.is_fresh(SENT), policy.forbids_stale()),
            StorageDecision::Refuse(why) => panic!("{query:?} refused: {why:?}"),
        }
    };
    use HeuristicQuery::{Always, Never, Unsigned};
    for (query, rule, more, fresh_and_strict) in [
        (None, Never, &[][..], (true, false)),
        (Some(""), Never, &[], (false, false)),
        (Some("v=1"), Never, &[], (false, false)),
        (Some("v=1"), Unsigned, &[], (true, false)),
        (Some("Expires=1"), Unsigned, &[], (false, true)),
        (Some("Expires=1"), Always, &[], (true, false)),
        (Some("Expires=1"), Never, &["expires: @60"], (true, false)),
        (Some("Expires=1"), Never, &["cache-control: stale-if-error=9"], (false, false)),
    ] {
        assert_eq!(judge(query, rule, more), fresh_and_strict, "{query:?} {rule:?} {more:?}");
    }
}

proptest! {
    #[test]
    fn policies_survive_storage(
        lifetime in proptest::option::of(any::<u32>()),
        swr in proptest::option::of(any::<u32>()),
        sie in proptest::option::of(any::<u32>()),
        flags in "(public|immutable|must-revalidate|proxy-revalidate|no-cache|foo)?",
        date in proptest::option::of(-100_000..100_000_i64),
        age in proptest::option::of(any::<u64>()),
    ) {
        let directive = |name: &str, value: Option<u32>| value.map(|value| format!("{name}={value}"));
        let directives = [
            directive("max-age", lifetime),
            directive("stale-while-revalidate", swr),
            directive("stale-if-error", sie),
            Some(flags),
        ];
        let cache_control =
            format!("cache-control: {}", directives.into_iter().flatten().collect::<Vec<_>>().join(", "));
        let mut lines = vec![cache_control, "etag: \"a\"".to_owned()];
        lines.extend(date.map(|date| format!("date: @{date}")));
        lines.extend(age.map(|age| format!("age: {age}")));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let policy = policy(&lines);
        prop_assert_eq!(CachePolicy::from_bytes(policy.to_bytes()), Some(policy));
    }

    #[test]
    fn no_stored_bytes_panic(bytes in any::<[u8; CachePolicy::BYTES / 2]>(), more in any::<[u8; CachePolicy::BYTES / 2]>(), now in any::<u64>()) {
        let mut whole: [u8; CachePolicy::BYTES] = [&bytes[..], &more[..]].concat().try_into().expect("two halves");
        [whole[0], whole[1], whole[3]] = [1, 0, 0];
        let now = Timestamp::from_millis(now);
        let policy = CachePolicy::from_bytes(whole).expect("the version and flags are known");
        let _ = (policy.current_age(now), policy.time_to_live(now), policy.staleness(now), policy.is_fresh(now));
        prop_assert_eq!(CachePolicy::from_bytes(policy.to_bytes()), Some(policy));
    }

    /// Passing time only reduces freshness.
    #[test]
    fn freshness_never_returns(max_age in 0..50_u32, one in 0..100_000_u64, other in 0..100_000_u64) {
        let policy = policy(&[&format!("cache-control: max-age={max_age}"), "etag: \"a\""]);
        let at = |millis| SENT.plus(Duration::from_millis(millis));
        let (sooner, later) = (one.min(other), one.max(other));
        prop_assert!(policy.is_fresh(at(sooner)) || !policy.is_fresh(at(later)));
        prop_assert!(policy.time_to_live(at(later)) <= policy.time_to_live(at(sooner)));
    }
}
