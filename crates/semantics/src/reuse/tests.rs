//! Reuse by age, by the request's directives, and by the response's prohibitions.

use super::*;
use crate::storage::{ForwardedExchange, StorageDecision, may_store};
use http::header::{CACHE_CONTROL, ETAG, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method};
use proptest::prelude::*;

const STORED: Timestamp = Timestamp::from_seconds(1_795_000_000);

fn policy(cache_control: &str) -> CachePolicy {
    let response = HeaderMap::from_iter([
        (CACHE_CONTROL, HeaderValue::from_str(cache_control).expect("a field value")),
        (ETAG, HeaderValue::from_static("\"a\"")),
    ]);
    let exchanged = ForwardedExchange {
        method: &Method::GET,
        query: None,
        request: &HeaderMap::new(),
        status: StatusCode::OK,
        response: &response,
        request_time: STORED,
        response_time: STORED,
    };
    match may_store(&exchanged, &CacheRules::default()) {
        StorageDecision::Store(policy) => policy,
        StorageDecision::Refuse(why) => panic!("{cache_control} refused: {why:?}"),
    }
}

fn asked(cache_control: &str) -> RequestDirectives {
    let value = HeaderValue::from_str(cache_control).expect("a field value");
    RequestDirectives::of(&HeaderMap::from_iter([(CACHE_CONTROL, value)]))
}

fn after(seconds: u64) -> Timestamp {
    STORED.plus(Duration::from_secs(seconds))
}

#[test]
fn decisions() {
    use Reuse::{Fresh, StaleAllowed, StaleWhileRevalidate, Validate};
    for (response, request, seconds, reuse) in [
        ("max-age=10", "", 9, Fresh),
        ("max-age=10", "", 10, Validate),
        ("max-age=10, no-cache", "", 0, Validate),
        ("max-age=10, no-cache=\"a\"", "", 0, Fresh),
        ("max-age=10, must-revalidate", "", 9, Fresh),
        ("max-age=10", "no-cache", 1, Validate),
        ("max-age=10", "max-age=0", 0, Validate),
        ("max-age=10", "max-age=5", 5, Fresh),
        ("max-age=10", "max-age=5", 6, Validate),
        ("max-age=10", "max-age=5, max-stale", 6, Validate),
        ("max-age=10, immutable", "max-age=0", 5, Fresh),
        ("max-age=10, immutable", "no-cache", 5, Validate),
        ("max-age=10, immutable", "", 10, Validate),
        ("max-age=10", "min-fresh=5", 5, Fresh),
        ("max-age=10", "min-fresh=5", 6, Validate),
        ("max-age=10, immutable", "min-fresh=5", 6, Validate),
        ("max-age=10", "max-stale", 1_000_000, StaleAllowed),
        ("max-age=10", "max-stale=5", 15, StaleAllowed),
        ("max-age=10", "max-stale=5", 16, Validate),
        ("max-age=10", "max-stale=5, max-age=12", 12, StaleAllowed),
        ("max-age=10", "max-stale=5, max-age=12", 13, Validate),
        ("max-age=10", "max-stale, min-fresh=1", 12, Validate),
        ("max-age=10, must-revalidate", "max-stale", 11, Validate),
        ("max-age=10, proxy-revalidate", "max-stale", 11, Validate),
        ("s-maxage=10", "max-stale", 11, Validate),
        ("max-age=10, stale-while-revalidate=5", "", 14, StaleWhileRevalidate),
        ("max-age=10, stale-while-revalidate=5", "", 15, Validate),
        ("max-age=10, stale-while-revalidate=5", "max-age=100", 14, Validate),
        ("max-age=10, stale-while-revalidate=5", "min-fresh=0", 14, Validate),
        ("max-age=10, stale-while-revalidate=5, must-revalidate", "", 14, Validate),
        ("s-maxage=10, stale-while-revalidate=5", "", 14, Validate),
        ("max-age=10, stale-while-revalidate=5", "max-stale=5", 14, StaleAllowed),
    ] {
        assert_eq!(
            decide(&policy(response), &asked(request), after(seconds)),
            reuse,
            "{response} | {request} | {seconds} s"
        );
    }
}

#[test]
fn serving_when_the_origin_fails() {
    let rules = CacheRules { stale_if_error: Duration::from_secs(100), ..CacheRules::default() };
    for (response, request, seconds, serves) in [
        ("max-age=10", "", 109, true),
        ("max-age=10", "", 110, false),
        ("max-age=10", "max-age=0", 5, true),
        ("max-age=10", "max-age=0", 11, false),
        ("max-age=10", "min-fresh=5", 11, false),
        ("max-age=10", "no-cache", 5, false),
        ("max-age=10, stale-if-error=500", "", 509, true),
        ("max-age=10, stale-if-error=500", "max-age=0", 509, true),
        ("max-age=10, stale-if-error=500", "", 510, false),
        ("max-age=10, stale-if-error=0", "", 10, false),
        ("max-age=10", "stale-if-error=500", 509, true),
        ("max-age=10, must-revalidate", "", 11, false),
        ("max-age=10, must-revalidate, stale-if-error=500", "stale-if-error=500", 11, false),
        ("max-age=10, proxy-revalidate", "", 11, false),
        ("max-age=10, s-maxage=10", "", 11, false),
        ("max-age=10, no-cache", "", 5, false),
    ] {
        let may = may_serve_on_error(&policy(response), &asked(request), after(seconds), &rules);
        assert_eq!(may, serves, "{response} | {request} | {seconds} s");
    }
}

#[test]
fn invalidated_response_needs_validation() {
    let policy = policy("max-age=10").invalidated();
    assert_eq!(decide(&policy, &RequestDirectives::default(), after(1)), Reuse::Validate);
    assert_eq!(decide(&policy, &asked("max-stale"), after(1)), Reuse::Validate);
    assert!(!may_serve_on_error(&policy, &RequestDirectives::default(), after(1), &CacheRules::default()));
}

#[test]
fn errors_of_origins() {
    for status in [429, 500, 502, 503, 504] {
        assert!(is_error(StatusCode::from_u16(status).expect("a status")), "{status}");
    }
    for status in [200, 304, 404, 501, 505, 599] {
        assert!(!is_error(StatusCode::from_u16(status).expect("a status")), "{status}");
    }
}

#[test]
fn retry_after_is_heeded_within_its_limit() {
    let rules = CacheRules { retry_after_max: Duration::from_secs(10), ..CacheRules::default() };
    let date = |seconds| date::format(after(seconds)).to_str().expect("a date").to_owned();
    for (status, said, rest) in [
        (429, None, 1),
        (503, None, 0),
        (503, Some("5".to_owned()), 5),
        (429, Some("0".to_owned()), 0),
        (429, Some("3600".to_owned()), 10),
        (429, Some("soon".to_owned()), 1),
        (503, Some(date(4)), 4),
        (503, Some(date(86_400)), 10),
    ] {
        let response: HeaderMap =
            said.iter().map(|said| (RETRY_AFTER, said.parse().expect("a field value"))).collect();
        let status = StatusCode::from_u16(status).expect("a status");
        let asked_for = rest_asked_for(status, &response, after(0), &rules);
        assert_eq!(asked_for, Duration::from_secs(rest), "{status} {said:?}");
    }
}

fn some_directives() -> impl Strategy<Value = String> {
    let valued = "(max-age|min-fresh|max-stale|stale-if-error|s-maxage|stale-while-revalidate)=[0-9]{1,2}";
    let directive = prop_oneof![valued, "(no-cache|must-revalidate|max-stale|immutable)"];
    proptest::collection::vec(directive, 0..4).prop_map(|directives| directives.join(", "))
}

proptest! {
    /// RFC 9111, section 4.2.4: a directive that forbids stale responses holds against any request.
    #[test]
    fn nothing_stale_where_it_is_forbidden(response in some_directives(), request in some_directives(), seconds in 0..200_u64) {
        let policy = policy(&format!("max-age=20, {response}"));
        let now = after(seconds);
        let reuse = decide(&policy, &asked(&request), now);
        let stale_served = matches!(reuse, Reuse::StaleAllowed | Reuse::StaleWhileRevalidate);
        prop_assert!(!(stale_served && (policy.forbids_stale() || policy.is_fresh(now))));
        prop_assert!(reuse != Reuse::Fresh || policy.is_fresh(now));
        let on_error = may_serve_on_error(&policy, &asked(&request), now, &CacheRules::default());
        prop_assert!(!on_error || policy.is_fresh(now) || !policy.forbids_stale());
    }

    /// A request without directives accepts every response that a demanding request accepts.
    #[test]
    fn demands_never_widen_freshness(response in some_directives(), request in "(max-age|min-fresh)=[0-9]{1,2}", seconds in 0..200_u64) {
        let policy = policy(&format!("max-age=20, {response}"));
        let demanding = decide(&policy, &asked(&request), after(seconds));
        let plain = decide(&policy, &RequestDirectives::default(), after(seconds));
        prop_assert!(demanding == Reuse::Validate || demanding == plain);
    }
}
