//! Cases of the public conformance suite, played on the values of this crate: store a response, let
//! time pass, send a second request.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use shoal_core::Timestamp;
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::storage::{self, CachePolicy, ForwardedExchange, StorageDecision};
use shoal_semantics::validation::{self, Condition};
use shoal_semantics::vary::{self, Vary};
use shoal_semantics::{CacheRules, date};
use std::time::Duration;

#[test]
fn every_case_has_its_outcome() {
    let cases = include_str!("conformance/cases.txt");
    let mut failures = Vec::new();
    let mut played = 0;
    for line in cases.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let case = Case::parse(line);
        let outcome = case.outcome();
        played += 1;
        // A conditional request also counts as "origin".
        let forwarded =
            case.expected == "origin" && ["if-none-match", "if-modified-since"].contains(&outcome);
        if outcome != case.expected && !forwarded {
            failures.push(format!("{line}\n    but: {outcome}"));
        }
    }
    assert!(failures.is_empty(), "{} of {played} cases fail:\n{}", failures.len(), failures.join("\n"));
    assert!(played > 250, "only {played} cases were read");
}

/// One line of the table.
struct Case<'a> {
    first_request: HeaderMap,
    status: StatusCode,
    response: HeaderMap,
    pause: Duration,
    second_request: HeaderMap,
    expected: &'a str,
}

impl<'a> Case<'a> {
    fn parse(line: &'a str) -> Self {
        let mut case = Self {
            first_request: HeaderMap::new(),
            status: StatusCode::OK,
            response: HeaderMap::new(),
            pause: Duration::ZERO,
            second_request: HeaderMap::new(),
            expected: "",
        };
        for part in line.split(" | ").skip(1) {
            match part.split_once(' ').unwrap_or((part, "")) {
                (">", field) => append(&mut case.first_request, field),
                ("<", field) => append(&mut case.response, field),
                (">>", field) => append(&mut case.second_request, field),
                ("status", code) => case.status = code.parse().expect("a status"),
                ("wait", _) => case.pause = Duration::from_secs(3),
                ("=", outcome) => case.expected = outcome,
                other => panic!("{other:?} in {line}"),
            }
        }
        case
    }

    /// Returns the action of a cache on the second request, after the first exchange.
    fn outcome(&self) -> &'static str {
        let rules = CacheRules::default();
        let exchanged = ForwardedExchange {
            method: &Method::GET,
            query: None,
            request: &self.first_request,
            status: self.status,
            response: &self.response,
            request_time: FIRST,
            response_time: FIRST.plus(Duration::from_millis(4)),
        };
        let StorageDecision::Store(policy) = storage::may_store(&exchanged, &rules) else {
            return self.at_the_origin(None);
        };
        let policy = CachePolicy::from_bytes(policy.to_bytes()).expect("its own bytes");
        let stored = storage::stored_fields(&self.response, &rules);
        if let Vary::Fields(names) = vary::nominated(&stored)
            && vary::secondary_key(&names, &self.first_request)
                != vary::secondary_key(&names, &self.second_request)
        {
            return self.at_the_origin(None);
        }
        let now = exchanged.response_time.plus(self.pause).plus(Duration::from_millis(9));
        let directives = RequestDirectives::of(&self.second_request);
        if directives.no_store || reuse::decide(&policy, &directives, now) == Reuse::Validate {
            let on_error = reuse::may_serve_on_error(&policy, &directives, now, &rules);
            return match self.expected.ends_with("on error") {
                true if on_error => "stale on error",
                _ => self.at_the_origin(Some(&stored)),
            };
        }
        match validation::evaluate(&self.second_request, self.status, &stored, &policy, now) {
            Condition::NotModified => "304",
            Condition::Proceed => "hit",
            Condition::Forward => "origin",
        }
    }

    /// Returns the form in which the second request reaches the origin.
    fn at_the_origin(&self, stored: Option<&HeaderMap>) -> &'static str {
        let mut request = self.second_request.clone();
        if self.expected.ends_with("on error") {
            return "nothing on error";
        }
        let validates = stored.is_some_and(|stored| validation::add_conditions(stored, &mut request));
        match validates {
            true if request.contains_key("if-none-match") => "if-none-match",
            true => "if-modified-since",
            false => "origin",
        }
    }
}

/// Adds `Name: value` to the fields.
fn append(fields: &mut HeaderMap, line: &str) {
    let (name, value) = line.split_once(':').expect("a field");
    let value = value.trim();
    let value = match value.strip_prefix('@').map(|offset| offset.parse::<i64>().expect("seconds")) {
        Some(offset) => date::format(Timestamp::from_seconds(FIRST.seconds().saturating_add_signed(offset))),
        None => HeaderValue::from_bytes(value.as_bytes()).expect("a field value"),
    };
    fields.append(HeaderName::from_bytes(name.as_bytes()).expect("a field name"), value);
}

/// Time when the first request was sent.
const FIRST: Timestamp = Timestamp::from_millis(1_795_000_000_250);
