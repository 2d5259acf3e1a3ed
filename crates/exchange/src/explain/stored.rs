//! The stored responses for a request, and their use.

use super::variants;
use super::{ForwardReason, Reason, forwarded};
use crate::CacheEngine;
use crate::cache::Cache;
use crate::clock;
use crate::coding::is_form_of;
use crate::explain::{ReuseView, StoredView, VariantView};
use crate::hybrid_cache::PeekedObject;
use crate::lookup::{is_of_mode, variant_keys};
use crate::metadata::{ObjectMetadata, PartsMarker, ResponseMetadata, VaryMarker};
use crate::request::RequestContext;
use crate::stored_use::StoredUse;
use shoal_cache::coded::coded_key;
use shoal_core::{Fields, ObjectKey, Timestamp};
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::storage::CachePolicy;
use shoal_semantics::{Coding, date};
use std::sync::Arc;

/// Result of a look.
pub(super) struct CacheFinding {
    pub view: StoredView,
    pub reuse: ReuseView,
    /// Head of the selected response.
    pub found: Option<Arc<ResponseMetadata>>,
    pub notes: Vec<String>,
}

/// Records on the way to the response that a request selects.
#[derive(Default)]
struct Selection {
    /// The selected record, with its key.
    record: Option<(ObjectKey, PeekedObject)>,
    /// Lists of nominated fields.
    note: Option<Arc<VaryMarker>>,
    variants: Vec<VariantView>,
    variants_left_out: usize,
}

/// Looks up the response that a request selects, and decides about its use.
pub(super) async fn look(engine: &CacheEngine, ask: &RequestContext) -> CacheFinding {
    let selection = match select(engine, ask).await {
        Ok(selection) => selection,
        Err(why) => {
            let view = StoredView { kind: "nothing".into(), ..StoredView::default() };
            let reuse = forwarded(Some(ForwardReason::UriMiss), None);
            return CacheFinding { view, reuse, found: None, notes: vec![format!("The look failed: {why}")] };
        }
    };
    let Selection { record: selected, note, variants, variants_left_out } = selection;
    let name = |list: &Vec<http::HeaderName>| list.iter().map(ToString::to_string).collect();
    let varies_by = note.as_ref().map(|note| note.lists.iter().map(name).collect()).unwrap_or_default();
    let absent = if note.is_some() { ForwardReason::VaryMiss } else { ForwardReason::UriMiss };
    let (view, reuse, found) = match selected {
        Some((
            key,
            PeekedObject { record: ObjectMetadata::Response(head), body_bytes, in_memory, on_disk },
        )) => {
            let view = StoredView {
                tier: Some(if in_memory { "ram" } else { "disk" }.into()),
                on_disk,
                coded_forms: coded_forms(engine, ask, &key, &head).await,
                body_bytes: Some(body_bytes),
                ..response_view(ask, &head)
            };
            let reuse = reuse_of(engine, ask, &key, &head);
            (view, reuse, Some(head))
        }
        Some((_, PeekedObject { record: ObjectMetadata::Parts(note), in_memory, on_disk, .. })) => {
            let view = StoredView {
                tier: Some(if in_memory { "ram" } else { "disk" }.into()),
                on_disk,
                parts: note.parts.iter().map(|part| (part.start, part.end.saturating_sub(1))).collect(),
                gaps: gaps(&note),
                complete_bytes: Some(note.complete_length),
                kind: "parts".into(),
                ..response_view(ask, &note.head)
            };
            (view, reuse_of_parts(ask, &note), None)
        }
        _ => {
            let view = StoredView { kind: "nothing".into(), ..StoredView::default() };
            (view, forwarded(Some(absent), None), None)
        }
    };
    let is_missing = view.kind == "nothing";
    let notes =
        note.as_deref().filter(|_| is_missing).and_then(|note| lacking(ask, note)).into_iter().collect();
    let remembered_as_unstorable = engine.fetcher.is_pass(ask);
    let view = StoredView { varies_by, variants, variants_left_out, remembered_as_unstorable, ..view };
    debug_assert_eq!(view.kind == "response", found.is_some());
    debug_assert!(reuse.hit != Some(true) || found.is_some(), "a hit without a response");
    CacheFinding { view, reuse: without_hit(ask, reuse), found, notes }
}

/// Returns the codings of the forms that are held of a response.
async fn coded_forms(
    engine: &CacheEngine,
    ask: &RequestContext,
    key: &ObjectKey,
    head: &ResponseMetadata,
) -> Vec<String> {
    let mut codings = Vec::new();
    if ask.live.compress.is_none() || ask.site.is_none() {
        return codings;
    }
    for coding in Coding::ALL {
        let found = engine.cache().objects.peek(&coded_key(key, coding)).await;
        if found.ok().flatten().is_some_and(|found| is_form_of(&found.record, head)) {
            codings.push(coding.name().to_owned());
        }
    }
    codings
}

/// Returns the record that the request selects, as a lookup finds it.
async fn select(engine: &CacheEngine, ask: &RequestContext) -> Result<Selection, String> {
    let cache = engine.cache();
    let first = peek(cache, ask, &ask.primary).await?;
    let Some(PeekedObject { record: ObjectMetadata::Vary(note), .. }) = first else {
        let record = first.map(|found| (ask.primary.clone(), found));
        return Ok(Selection { record, ..Selection::default() });
    };
    let mut looked_at = Vec::new();
    for key in variant_keys(ask, &note) {
        let found = peek(cache, ask, &key).await?;
        looked_at.push((key, found));
    }
    let (variants, variants_left_out) = variants::views(engine, ask, &note, &looked_at);
    let date = |object: &PeekedObject| Some(object.record.head()?.policy.date().unwrap_or(0));
    let mut record: Option<(ObjectKey, PeekedObject)> = None;
    for (key, found) in looked_at {
        let Some(found) = found else { continue };
        if date(&found) > record.as_ref().and_then(|(_, best)| date(best)) {
            record = Some((key, found));
        }
    }
    Ok(Selection { record, note: Some(note), variants, variants_left_out })
}

/// Returns the ranges between stored parts, as first and last byte.
fn gaps(note: &PartsMarker) -> Vec<(u64, u64)> {
    let mut parts = note.parts.clone();
    parts.sort_by_key(|part| part.start);
    let (mut gaps, mut end) = (Vec::new(), 0);
    for part in parts {
        if part.start > end {
            gaps.push((end, part.start - 1));
        }
        end = end.max(part.end);
    }
    if end < note.complete_length {
        gaps.push((end, note.complete_length - 1));
    }
    gaps
}

/// Looks at a record that may serve the request.
async fn peek(cache: &Cache, ask: &RequestContext, key: &ObjectKey) -> Result<Option<PeekedObject>, String> {
    let found = cache.objects.peek(key).await?;
    let serves = |found: &PeekedObject| {
        is_of_mode(ask, &found.record) && found.record.head().is_none_or(|head| !cache.is_purged(head))
    };
    Ok(found.filter(serves))
}

fn response_view(ask: &RequestContext, head: &ResponseMetadata) -> StoredView {
    let (policy, now) = (&head.policy, clock::now());
    let ttl = policy.time_to_live(now);
    let turn = Timestamp::from_seconds(clock::date_at(now).seconds().saturating_add_signed(ttl));
    let if_error = policy.stale_if_error().unwrap_or(ask.live.rules(ask).stale_if_error);
    StoredView {
        kind: "response".into(),
        status: Some(head.stored.status().as_u16()),
        age_seconds: Some(policy.age_seconds(now)),
        lifetime_seconds: Some(policy.freshness_lifetime().as_secs()),
        ttl_seconds: Some(ttl),
        fresh_until: date::format(turn).to_str().ok().map(str::to_owned),
        always_validates: policy.always_validates(),
        forbids_stale: policy.forbids_stale(),
        stale_while_revalidate_seconds: policy.stale_while_revalidate().as_secs(),
        stale_if_error_seconds: if policy.forbids_stale() { 0 } else { if_error.as_secs() },
        ..StoredView::default()
    }
}

fn reuse_of(
    engine: &CacheEngine,
    ask: &RequestContext,
    key: &ObjectKey,
    head: &ResponseMetadata,
) -> ReuseView {
    let hit = |detail: Option<Reason>, reason: &str| ReuseView {
        hit: Some(true),
        fwd: None,
        detail: detail.map(|detail| detail.as_str().to_owned()),
        reason: reason.to_owned(),
        remedy: detail.map(|detail| detail.remedy().to_owned()),
    };
    match engine.fetcher.judge_stored(ask, key, head) {
        StoredUse::Hit if head.policy.is_fresh(clock::now()) => hit(None, "The stored response is fresh."),
        StoredUse::Hit => hit(None, "The stored response is stale, and the client accepts that (max-stale)."),
        StoredUse::WhileRevalidated => hit(
            None,
            "The stored response is stale, and is served while it is validated (stale-while-revalidate).",
        ),
        StoredUse::AfterReload => hit(Some(Reason::ReloadInterval), Reason::ReloadInterval.meaning()),
        StoredUse::Forwarded { while_resting: true, .. } => {
            hit(Some(Reason::RetryAfter), Reason::RetryAfter.meaning())
        }
        StoredUse::Forwarded { forwarded: ForwardReason::Stale, .. } => stale(&head.policy),
        StoredUse::Forwarded { forwarded: why, .. } => forwarded(Some(why), None),
    }
}

/// Returns the use of a response that the origin must validate, with the cause of it.
fn stale(policy: &CachePolicy) -> ReuseView {
    let (reason, remedy) = match (policy.always_validates(), policy.forbids_stale(), policy.is_negative()) {
        (true, ..) => (
            "Each use needs a validation: the origin said `no-cache`, or a request has changed the resource.",
            "For `no-cache`, a rule with `ignore_origin = [\"no-cache\"]`.",
        ),
        (_, _, true) => ("The stored error is stale.", "A longer `cache.negative_ttl`."),
        (_, true, _) => (
            "The stored answer is stale, and the origin forbids to serve it stale (must-revalidate, \
             proxy-revalidate or s-maxage).",
            "A longer lifetime, or a rule with `ignore_origin = [\"must-revalidate\"]` and \
             `stale_while_revalidate`.",
        ),
        _ => ("The stored answer is stale.", "A longer lifetime, or a rule with `stale_while_revalidate`."),
    };
    ReuseView {
        reason: reason.into(),
        remedy: Some(remedy.into()),
        ..forwarded(Some(ForwardReason::Stale), None)
    }
}

/// Returns a remark on fields that select among stored responses and that the request lacks.
fn lacking(ask: &RequestContext, note: &VaryMarker) -> Option<String> {
    let mut names: Vec<&str> =
        note.lists.iter().flatten().filter(|name| !ask.fields.has(name)).map(|it| it.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("Stored answers differ by {names}, which this request lacks; give what clients send with --header.")
    })
}

fn reuse_of_parts(ask: &RequestContext, note: &PartsMarker) -> ReuseView {
    if ask.has_origin_conditions() {
        return forwarded(Some(ForwardReason::Bypass), None);
    }
    let usable = ask.live.allowed_address(&note.head)
        && reuse::decide(&note.head.policy, &ask.directives, clock::now()) == Reuse::Fresh;
    match usable {
        true => ReuseView {
            hit: None,
            reason: "Parts are stored: a request for bytes within them is a hit, any other is not.".into(),
            ..forwarded(Some(ForwardReason::Partial), None)
        },
        false => forwarded(Some(ForwardReason::Stale), None),
    }
}

/// Returns the use for a client that forbids to ask the origin, or has a question for the origin
/// alone.
fn without_hit(ask: &RequestContext, reuse: ReuseView) -> ReuseView {
    match reuse.hit == Some(false) {
        true if ask.directives.only_if_cached => forwarded(None, Some(Reason::OnlyIfCached)),
        true if ask.has_origin_conditions() => forwarded(Some(ForwardReason::Bypass), None),
        _ => reuse,
    }
}
