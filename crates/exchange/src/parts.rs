//! Answers from stored parts, and completes them (RFC 9111, sections 3.3 and 3.4).
//!
//! Parts are never rewritten: a reply takes its bytes from as many parts as it needs. If one range
//! is missing, only this range is fetched, stored as a further part, and sent between the stored
//! ones.

use super::CacheEngine;
use super::cache::Cache;
use super::deliver;
use super::deliver::{BodySource, Delivery, RangePiece, RangePieceSource};
use super::fetch::{ArrivingResponse, Fetch, FetchOutcome};
use super::flight::{FlightOutcome, FlightRole, PartKey};
use super::handling_report::HandlingReport;
use super::hybrid_cache::HybridCache;
use super::metadata::{PartRange, PartsMarker};
use super::request::RequestContext;
use super::serve;
use super::serve::{ForwardContext, ServeStep};
use super::target::part_key;
use crate::clock;
use crate::message::{CacheResult, Reply};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use shoal_core::ObjectKey;
use shoal_semantics::EntityTag;
use shoal_semantics::range::{ContentRange, RangeAnswer, same_representation};
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::status_fields::ForwardReason;
use std::sync::Arc;

/// Stored pieces of a wanted range, and the gaps between them.
struct Coverage {
    pieces: Vec<RangePiece>,
    gaps: Vec<PartRange>,
}

impl CacheEngine {
    /// Decides whether the stored parts answer the request, alone or after one more fetch.
    pub(super) async fn decide_parts(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        key: ObjectKey,
        note: Arc<PartsMarker>,
    ) -> ServeStep {
        if ask.has_origin_conditions() {
            let why = ForwardContext { forwarded: ForwardReason::Bypass, key, stored: None };
            return self.forward(ask, why).await;
        }
        let usable = ask.live.allowed_address(&note.head)
            && matches!(reuse::decide(&note.head.policy, &ask.directives, clock::now()), Reuse::Fresh);
        if !usable {
            let why = ForwardContext { forwarded: ForwardReason::Stale, key, stored: None };
            return self.forward(ask, why).await;
        }
        let coverage = self.cache.coverage(ask, (&key, &note), wanted(ask, &note)).await;
        match coverage.gaps.as_slice() {
            [] => {
                serve::reply_or_retry(deliver_pieces(&self.cache.objects, ask, &note, coverage.pieces, None))
            }
            [gap] if let Some(validator) = strong_validator(&note.head.stored.fields()) => {
                let gap = *gap;
                self.complete(ask, (key, &note), coverage.pieces, (gap, validator)).await
            }
            _ => {
                self.forward(ask, ForwardContext { forwarded: ForwardReason::Partial, key, stored: None })
                    .await
            }
        }
    }

    /// Fetches the one missing range and answers with the complete one.
    async fn complete(
        self: &Arc<Self>,
        ask: &Arc<RequestContext>,
        (key, note): (ObjectKey, &Arc<PartsMarker>),
        pieces: Vec<RangePiece>,
        (gap, validator): (PartRange, HeaderValue),
    ) -> ServeStep {
        let why = ForwardContext { forwarded: ForwardReason::Partial, key, stored: None };
        if ask.directives.only_if_cached {
            return self.forward(ask, why).await;
        }
        let range = format!("bytes={}-{}", gap.start, gap.end - 1);
        let part =
            PartKey { range: range.as_bytes().into(), validators: Box::new([validator.as_bytes().into()]) };
        let (arrived, is_own) = match self.cache.flights.join(ask.flight(&why.key).for_part(part)) {
            FlightRole::Lead(leader) => {
                let fetch = Fetch {
                    leader: Some(leader),
                    range: HeaderValue::try_from(range).ok(),
                    if_range: Some(validator),
                    reason: why.forwarded.into(),
                    ..self.fetcher.plan_fetch(ask, None)
                };
                match self.fetcher.spawn_fetch(fetch).await {
                    Ok(FetchOutcome::Shared(arrived, _first)) => (arrived, true),
                    // the response answers a range that the proxy asked for and the client did not
                    Ok(FetchOutcome::Private(private)) if is_about_range(private.response.status) => {
                        return ServeStep::Alone(why);
                    }
                    Ok(other) => return ServeStep::Done(Box::new(self.reply_from_fetch(ask, &why, other))),
                    Err(_) => return ServeStep::Alone(why),
                }
            }
            FlightRole::Follow(follower) => match follower.wait_outcome().await {
                FlightOutcome::Shared(arrived) if self.may_share(ask, &arrived) => (arrived, false),
                _ => return ServeStep::Alone(why),
            },
        };
        match deliver_completed(&self.cache.objects, ask, &why, note, (pieces, gap), (&arrived, is_own)) {
            Some(reply) => ServeStep::Done(Box::new(reply)),
            None => ServeStep::Alone(why),
        }
    }
}

impl Cache {
    /// Finds the stored pieces of a range, in order and without overlap, and the gaps between them.
    async fn coverage(
        &self,
        ask: &RequestContext,
        (key, note): (&ObjectKey, &PartsMarker),
        wanted: PartRange,
    ) -> Coverage {
        let mut parts = note.parts.clone();
        parts.sort_by_key(|part| (part.start, std::cmp::Reverse(part.end)));
        let (mut pieces, mut gaps, mut at) = (Vec::new(), Vec::new(), wanted.start);
        for part in parts.iter().filter(|part| part.end > wanted.start && part.start < wanted.end) {
            if part.end <= at {
                continue;
            }
            let object = part_key(key, note.generation, part.start, part.end);
            let Some(found) = self.find(&object, &ask.primary).await else { continue };
            // The note has only the head of the newest part.
            let is_allowed = found.record.head().is_none_or(|head| ask.live.allowed_address(head));
            if !is_allowed || found.body.length() != part.end - part.start {
                continue;
            }
            if part.start > at {
                gaps.push(PartRange { start: at, end: part.start });
            }
            let start = at.max(part.start);
            let end = part.end.min(wanted.end);
            let body = RangePieceSource::Held { body: found.body, base: part.start };
            pieces.push(RangePiece { start, end, body });
            at = end;
        }
        if at < wanted.end {
            gaps.push(PartRange { start: at, end: wanted.end });
        }
        Coverage { pieces, gaps }
    }
}

/// Returns the range of the representation that covers everything the request wants.
pub(super) fn wanted(ask: &RequestContext, note: &PartsMarker) -> PartRange {
    if ask.method == Method::HEAD {
        return PartRange { start: 0, end: 0 };
    }
    let whole = PartRange { start: 0, end: note.complete_length };
    match deliver::resolve_ranges(ask, &note.head, note.complete_length) {
        None | Some(RangeAnswer::Whole) => whole,
        Some(RangeAnswer::Unsatisfiable) => PartRange { start: 0, end: 0 },
        Some(RangeAnswer::Parts(ranges)) => {
            let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
            PartRange { start, end: ranges.iter().map(|range| range.end).max().unwrap_or(start) }
        }
    }
}

/// Delivers the stored pieces with the arriving one between them. If the origin sent another
/// representation, delivers the arriving response alone.
fn deliver_completed(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    why: &ForwardContext,
    note: &PartsMarker,
    (mut pieces, gap): (Vec<RangePiece>, PartRange),
    (arrived, is_own): (&Arc<ArrivingResponse>, bool),
) -> Option<Reply> {
    let verdict = serve::arrived_verdict(why, arrived, CacheResult::Miss);
    if arrived.head.stored.status() != StatusCode::PARTIAL_CONTENT {
        let body = BodySource::Growing(Arc::clone(&arrived.body), arrived.length, None);
        let head = Arc::clone(if is_own { &arrived.own_head } else { &arrived.head });
        return deliver::deliver(objects, ask, Delivery { head, body, choice: None }, verdict);
    }
    let fields = arrived.head.stored.fields();
    let sent = ContentRange::of(&fields).and_then(|sent| sent.range())?;
    let fits = sent.start == gap.start && sent.end == gap.end;
    if !fits || !same_representation(&note.head.stored.fields(), &fields) {
        return None;
    }
    let body = RangePieceSource::Growing { body: Arc::clone(&arrived.body), base: gap.start };
    pieces.push(RangePiece { start: gap.start, end: gap.end, body });
    pieces.sort_by_key(|piece| piece.start);
    deliver_pieces(objects, ask, note, pieces, Some(verdict))
}

fn deliver_pieces(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    note: &PartsMarker,
    pieces: Vec<RangePiece>,
    verdict: Option<HandlingReport>,
) -> Option<Reply> {
    let ttl = note.head.policy.time_to_live(clock::now());
    let delivery = Delivery {
        head: Arc::clone(&note.head),
        body: BodySource::Pieces(pieces, note.complete_length),
        choice: None,
    };
    debug_assert!(!note.head.stored.fields().contains_key(header::CONTENT_RANGE), "the head is the whole's");
    deliver::deliver(
        objects,
        ask,
        delivery,
        verdict.unwrap_or_else(|| HandlingReport::hit(CacheResult::Hit, ttl)),
    )
}

/// Returns `true` if a response with this status answers a Range.
fn is_about_range(status: StatusCode) -> bool {
    matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE)
}

/// Returns the ETag for requesting a further part, if the representation has a strong one.
fn strong_validator(fields: &HeaderMap) -> Option<HeaderValue> {
    EntityTag::of(fields).filter(|tag| tag.is_strong())?;
    fields.get(header::ETAG).cloned()
}
