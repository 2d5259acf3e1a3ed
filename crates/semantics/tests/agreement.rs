//! Agreement with an independent RFC 9111 engine, http-cache-semantics, wherever it follows the
//! RFC.
//!
//! The generated cases avoid the points where the engine deviates. Each item gives the engine's
//! behaviour, then the RFC's and this crate's:
//!
//! - Takes `proxy-revalidate` as a lifetime of 0. 5.2.2.8: about stale responses only.
//! - Never reuses a response with Set-Cookie unless `public`. 7.3: it may; this crate stores none
//!   by default, with `public` neither.
//! - Serves stale to `max-stale` despite `s-maxage`. 5.2.2.10: s-maxage includes proxy-revalidate.
//! - Takes `private="f"` and `no-cache="f"` for the whole response. 5.2.2.4, 5.2.2.7: about these
//!   fields only.
//! - Obeys `Pragma` beside Cache-Control. 5.4: Pragma is then ignored.
//! - Has no apparent age, no response delay. 4.2.3.
//! - Keeps `immutable` fresh for a day by default. RFC 8246, section 2: only during the freshness
//!   lifetime.
//! - Takes `max-stale=5` as less than five seconds. 5.2.1.2: "no more than".
//! - Stores responses that can never be reused. Allowed, but costs a write.
//! - Keeps no error for a moment by default. 4.2.2: a lifetime may be guessed; `negative_ttl` is 0
//!   here.
//! - Knows few statuses. Section 3 requires understanding a status only with `must-understand`.

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_cache_semantics::{CacheOptions, CachePolicy};
use proptest::prelude::*;
use shoal_core::Timestamp;
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::storage::{self, ForwardedExchange, StorageDecision, StoreRefusal};
use shoal_semantics::{CacheRules, date};
use std::time::Duration;

const RECEIVED: Timestamp = Timestamp::from_seconds(1_795_000_000);

/// One exchange and one later request; all durations are even numbers of seconds, those of
/// `max-stale` odd.
#[derive(Clone, Debug)]
struct Case {
    authorization: bool,
    status: u16,
    cache_control: Vec<String>,
    expires: Option<i64>,
    last_modified: Option<i64>,
    age: Option<u32>,
    asked: Vec<String>,
    later: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let response_directive = prop_oneof![
        4 => "max-age=[0-9]{0,2}[02468]",
        2 => "s-maxage=[0-9]{0,2}[02468]",
        3 => "(no-store|no-cache|private|public|must-revalidate|foo|bar=\"max-age=9\")",
    ];
    let request_directive = prop_oneof![
        "max-age=[1-9][02468]",
        "min-fresh=[1-9][02468]",
        "max-stale(=[0-9][13579])?",
        "no-cache",
        "no-store"
    ];
    let seconds = |range: std::ops::Range<i64>| proptest::option::of(range.prop_map(|half| half * 2));
    (
        proptest::bool::weighted(0.2),
        prop_oneof![Just(200), Just(404), Just(301), Just(302)],
        proptest::collection::vec(response_directive, 0..3)
            .prop_filter("each once", |directives| each_once(directives)),
        seconds(-20..60),
        seconds(-600..1),
        proptest::option::of((0..30_u32).prop_map(|half| half * 2)),
        proptest::collection::vec(request_directive, 0..2),
        (0..80_u64).prop_map(|half| half * 2),
    )
        .prop_map(|(authorization, status, cache_control, expires, last_modified, age, asked, later)| {
            Case { authorization, status, cache_control, expires, last_modified, age, asked, later }
        })
}

fn each_once(directives: &[String]) -> bool {
    let name = |directive: &String| directive.split('=').next().unwrap_or_default().to_owned();
    directives.iter().map(name).collect::<std::collections::HashSet<_>>().len() == directives.len()
}

impl Case {
    fn response(&self) -> HeaderMap {
        let at = |seconds: i64| {
            date::format(Timestamp::from_seconds(RECEIVED.seconds().saturating_add_signed(seconds)))
        };
        let mut fields = HeaderMap::from_iter([(header::DATE, at(0))]);
        if !self.cache_control.is_empty() {
            fields.insert(header::CACHE_CONTROL, value(&self.cache_control.join(", ")));
        }
        fields.extend(self.expires.map(|seconds| (header::EXPIRES, at(seconds))));
        fields.extend(self.last_modified.map(|seconds| (header::LAST_MODIFIED, at(seconds))));
        fields.extend(self.age.map(|seconds| (header::AGE, HeaderValue::from(seconds))));
        fields
    }

    fn first_request(&self) -> HeaderMap {
        self.authorization.then(|| (header::AUTHORIZATION, value("x"))).into_iter().collect()
    }

    fn second_request(&self) -> HeaderMap {
        HeaderMap::from_iter([(header::CACHE_CONTROL, value(&self.asked.join(", ")))])
    }

    fn judge(&self) -> StorageDecision {
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query: None,
            request: &self.first_request(),
            status: StatusCode::from_u16(self.status).expect("a status"),
            response: &self.response(),
            request_time: RECEIVED,
            response_time: RECEIVED,
        };
        storage::may_store(
            &exchanged,
            &CacheRules {
                heuristic_max: Duration::from_secs(1 << 30),
                negative_ttl: Duration::ZERO,
                ..CacheRules::default()
            },
        )
    }

    fn theirs(&self) -> CachePolicy {
        let mut response = Response::builder().status(self.status).body(()).expect("a response");
        *response.headers_mut() = self.response();
        let options = CacheOptions { shared: true, cache_heuristic: 0.1, ..CacheOptions::default() };
        CachePolicy::new_options(&request(self.first_request()), &response, RECEIVED.to_system(), options)
    }

    /// Returns `true` if `max-stale` meets a response directive that only one of the two engines
    /// obeys.
    fn is_disputed(&self) -> bool {
        let asks_stale = self.asked.iter().any(|directive| directive.starts_with("max-stale"));
        let says = |name: &str| self.cache_control.iter().any(|directive| directive.starts_with(name));
        asks_stale && (says("s-maxage") || says("no-cache"))
    }
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("a field value")
}

fn request(fields: HeaderMap) -> Request<()> {
    let mut request = Request::get("http://example.org/").body(()).expect("a request");
    *request.headers_mut() = fields;
    request
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn engines_agree_on_storing(case in cases()) {
        let ours = !matches!(case.judge(), StorageDecision::Refuse(why) if why != StoreRefusal::NeverReusable);
        prop_assert_eq!(ours, case.theirs().is_storable());
    }

    #[test]
    fn engines_agree_on_reuse(case in cases()) {
        let StorageDecision::Store(policy) = case.judge() else { return Ok(()) };
        prop_assume!(!case.is_disputed());
        let now = RECEIVED.plus(Duration::from_secs(case.later));
        let mut directives = RequestDirectives::of(&case.second_request());
        directives.no_store = false;
        // RFC 9111, 5.2.1.2: "by no more than the specified number of seconds"; the other engine
        // wants fewer.
        let most_stale = directives.max_stale.map(i64::from);
        prop_assume!(most_stale.is_none_or(|seconds| policy.time_to_live(now) != -seconds));
        let ours = reuse::decide(&policy, &directives, now) != Reuse::Validate;
        let theirs = case.theirs().before_request(&request(case.second_request()), now.to_system());
        prop_assert_eq!(ours, theirs.satisfies_without_revalidation());
    }

    #[test]
    fn on_age_and_lifetime(case in cases()) {
        let StorageDecision::Store(policy) = case.judge() else { return Ok(()) };
        prop_assume!(!policy.always_validates());
        let now = RECEIVED.plus(Duration::from_secs(case.later));
        let theirs = case.theirs();
        prop_assert_eq!(policy.current_age(now), theirs.age(now.to_system()));
        prop_assert_eq!(policy.time_to_live(now).max(0) as u64, theirs.time_to_live(now.to_system()).as_secs());
    }
}
