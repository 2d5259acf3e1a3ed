//! The storing of an origin's answer: the judgement of a supposed or a stored response.

use super::{ExplainSource, RequestContext};
use crate::clock;
use crate::explain::{RulesView, StoringView};
use crate::fetch::ReceivedHead;
use crate::metadata::ResponseMetadata;
use crate::store_plan::judge_response;
use http::header::CONTENT_LENGTH;
use http::{Method, StatusCode, Version};
use shoal_core::{FieldLines, Fields, Timestamp, value_text};
use shoal_semantics::status_fields::Reason;
use shoal_semantics::storage::{CachePolicy, Judgement, LifetimeSource, StorageDecision};
use std::net::Ipv4Addr;

/// Returns the judgement of the given response, or else of the stored one, or else of a plain 200.
pub(super) fn view(
    source: &ExplainSource<'_>,
    ask: &RequestContext,
    (given, stored): (Option<(StatusCode, FieldLines)>, Option<&ResponseMetadata>),
    rules: &RulesView,
) -> StoringView {
    let (answer, status, fields, time) = match (given, stored) {
        (Some((status, fields)), _) => {
            let edited = ask.live.edited_response(ask, None, (status, &fields));
            ("given", status, edited.unwrap_or(fields), clock::now())
        }
        (None, Some(head)) => {
            // The rules changed these fields when they arrived.
            let fields: FieldLines = head.stored.fields().lines().collect();
            ("stored", head.stored.status(), fields, head.policy.response_time())
        }
        (None, None) => {
            let plain = FieldLines::default();
            let edited = ask.live.edited_response(ask, None, (StatusCode::OK, &plain));
            ("plain", StatusCode::OK, edited.unwrap_or(plain), clock::now())
        }
    };
    let base = StoringView { answer: answer.into(), status: status.as_u16(), ..StoringView::default() };
    if ask.method == Method::HEAD {
        return StoringView {
            decided_by: "RFC 9111, section 4.3.5".into(),
            reason: "The answer to a HEAD freshens a stored response and is not stored itself.".into(),
            remedy: "None.".into(),
            ..base
        };
    }
    let length = fields.value(&CONTENT_LENGTH).and_then(value_text).and_then(|text| text.parse().ok());
    let response = received(status, &fields, length, time);
    let judged = match judge_response(ask, response) {
        Ok(judged) => judged,
        Err(denial) => return denied(base, denial.why, "connection"),
    };
    let is_too_large = source.engine.is_some_and(|engine| !engine.cache().objects.has_room_for(length));
    match judged.decision {
        StorageDecision::Store(_) if is_too_large => denied(base, Reason::TooLarge, "store.object_max"),
        StorageDecision::Refuse(refusal) => {
            denied(base, refusal.reason(), &with_rule(refusal.decided_by(), rules))
        }
        StorageDecision::Store(ref policy) => {
            stored_view(base, (&judged, policy), policy.time_to_live(time), rules)
        }
    }
}

fn received(
    status: StatusCode,
    fields: &FieldLines,
    length: Option<u64>,
    time: Timestamp,
) -> ReceivedHead<'_> {
    ReceivedHead {
        status,
        version: Version::HTTP_11,
        fields,
        length,
        request_time: time,
        response_time: time,
        peer: (Ipv4Addr::UNSPECIFIED, 0).into(),
    }
}

fn denied(base: StoringView, reason: Reason, decided_by: &str) -> StoringView {
    StoringView {
        detail: Some(reason.as_str().to_owned()),
        decided_by: decided_by.to_owned(),
        reason: reason.meaning().to_owned(),
        remedy: reason.remedy().to_owned(),
        ..base
    }
}

fn stored_view(
    base: StoringView,
    (judged, policy): (&Judgement, &CachePolicy),
    ttl_seconds: i64,
    rules: &RulesView,
) -> StoringView {
    debug_assert!(matches!(judged.decision, StorageDecision::Store(_)));
    let source = judged.source.unwrap_or(LifetimeSource::Nothing);
    let lifetime_seconds = policy.freshness_lifetime().as_secs();
    let decided_by = match (policy.always_validates(), judged.is_limited) {
        (true, _) => NO_CACHE.to_owned(),
        (false, true) => with_rule("lifetime_max", rules),
        (false, false) => with_rule(source.decided_by(), rules),
    };
    StoringView {
        stored: true,
        decided_by,
        lifetime_seconds: Some(lifetime_seconds),
        ttl_seconds: Some(ttl_seconds),
        lifetime_source: Some(source.as_str().to_owned()),
        limited: judged.is_limited,
        targeted: judged.is_targeted,
        reason: freshness(policy.always_validates(), lifetime_seconds, ttl_seconds),
        remedy: if policy.always_validates() { HEED_NO_CACHE } else { source.remedy() }.to_owned(),
        ..base
    }
}

/// Returns the freshness of an answer that is stored, as a sentence.
fn freshness(always_validates: bool, lifetime: u64, ttl: i64) -> String {
    let fresh = u64::try_from(ttl).unwrap_or(0);
    match (always_validates, lifetime, fresh) {
        (true, ..) => "Each use needs a validation (no-cache).".to_owned(),
        (false, 0, _) => "It is stale at once, and each use needs a validation.".to_owned(),
        (false, _, 0) => {
            format!("It arrives stale: its lifetime of {} is over by its Age and Date.", time(lifetime))
        }
        (false, ..) if fresh < lifetime => {
            let age = lifetime - fresh;
            format!("It is fresh for {}: its lifetime is {lifetime} s, its age {age} s.", time(fresh))
        }
        (false, ..) => format!("It is fresh for {}.", time(lifetime)),
    }
}

/// Returns seconds, and the largest unit that is readable beside them: `604800 s (7 days)`.
fn time(seconds: u64) -> String {
    let units = [(86_400, "day"), (3600, "h"), (60, "min")];
    let whole = units.iter().find(|(scale, _)| seconds >= *scale && seconds.is_multiple_of(*scale));
    let rough = units.iter().find(|(scale, _)| seconds >= 2 * *scale);
    let named = |(scale, unit): &(u64, &str)| {
        let count = seconds / scale;
        let plural = if *unit == "day" && count > 1 { "s" } else { "" };
        format!("{count} {unit}{plural}")
    };
    match (whole, rough) {
        (Some(unit), _) => format!("{seconds} s ({})", named(unit)),
        (None, Some(unit)) => format!("{seconds} s (about {})", named(unit)),
        (None, None) => format!("{seconds} s"),
    }
}

const NO_CACHE: &str = "no-cache (RFC 9111, section 5.2.2.4)";
const HEED_NO_CACHE: &str = "A rule with `ignore_origin = [\"no-cache\"]`.";

/// Returns the setting with the key of the rule that sets it: `rule[0].lifetime`.
pub(super) fn with_rule(decided_by: &str, rules: &RulesView) -> String {
    let name = decided_by.split(' ').next().unwrap_or_default();
    let sets = |rule: &&crate::explain::RuleView| {
        rule.settings.iter().any(|it| it.name == name && it.part == "wins")
    };
    match rules.matching.iter().rev().find(sets) {
        Some(rule) => format!("{}.{decided_by}", rule.key),
        None => decided_by.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_readable_unit() {
        for (seconds, text) in [
            (59, "59 s"),
            (60, "60 s (1 min)"),
            (90, "90 s"),
            (130, "130 s (about 2 min)"),
            (86_400, "86400 s (1 day)"),
            (31_057_600, "31057600 s (about 359 days)"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }

    #[test]
    fn age_counts_against_the_lifetime() {
        assert_eq!(freshness(false, 600, 600), "It is fresh for 600 s (10 min).");
        assert!(freshness(false, 600, 40).starts_with("It is fresh for 40 s: its lifetime is 600 s"));
        assert!(freshness(false, 600, -100).starts_with("It arrives stale: its lifetime of 600 s"));
        assert!(freshness(true, 600, 600).contains("no-cache"));
    }
}
