//! Answering from stored parts, and completing them (RFC 9111, sections 3.3 and 3.4).
//!
//! Parts are never rewritten: a reply takes its bytes from as many of them as it needs. When one stretch is missing,
//! only that stretch is fetched, kept as a further part, and sent in its place between the stored ones.

use super::Exchange;
use super::ask::Ask;
use super::deliver::{Delivery, Piece, PieceBody, Source};
use super::fetch::{Arrived, Fetch, Fetched};
use super::flight::{Landing, Part, PartKey};
use super::record::{PartRange, PartsNote};
use super::serve::{Step, Why};
use super::target::part_key;
use super::verdict::Verdict;
use crate::message::{Outcome, Reply};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use shoal_core::ObjectKey;
use shoal_semantics::EntityTag;
use shoal_semantics::range::{ContentRange, Resolved, same_representation};
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::status_fields::ForwardReason;
use std::sync::Arc;

/// What of a wanted stretch is stored.
struct Coverage {
    pieces: Vec<Piece>,
    gaps: Vec<PartRange>,
}

impl Exchange {
    /// Parts of the representation are stored: do they answer the request, or nearly?
    pub(super) async fn consider_parts(
        self: &Arc<Self>,
        ask: &Arc<Ask>,
        key: ObjectKey,
        note: Arc<PartsNote>,
    ) -> Step {
        if ask.has_origin_conditions() {
            let why = Why { forwarded: ForwardReason::Bypass, key, stored: None };
            return self.forward(ask, why).await;
        }
        let usable = ask.live.allowed_address(&note.head)
            && matches!(reuse::decide(&note.head.policy, &ask.directives, self.now()), Reuse::Fresh);
        if !usable {
            let why = Why { forwarded: ForwardReason::Stale, key, stored: None };
            return self.forward(ask, why).await;
        }
        let coverage = self.coverage(ask, (&key, &note), self.wanted(ask, &note)).await;
        match coverage.gaps.as_slice() {
            [] => self.done(self.deliver_pieces(ask, &note, coverage.pieces, None)),
            [gap] if let Some(validator) = strong_validator(&note.head.stored.fields()) => {
                let gap = *gap;
                self.complete(ask, (key, &note), coverage.pieces, (gap, validator)).await
            }
            _ => self.forward(ask, Why { forwarded: ForwardReason::Partial, key, stored: None }).await,
        }
    }

    /// The stretch of the representation that covers all that the request wants.
    fn wanted(&self, ask: &Ask, note: &PartsNote) -> PartRange {
        if ask.method == Method::HEAD {
            return PartRange { start: 0, end: 0 };
        }
        let whole = PartRange { start: 0, end: note.complete_length };
        match self.resolve_ranges(ask, &note.head, note.complete_length) {
            None | Some(Resolved::Whole) => whole,
            Some(Resolved::Unsatisfiable) => PartRange { start: 0, end: 0 },
            Some(Resolved::Parts(ranges)) => {
                let start = ranges.iter().map(|range| range.start).min().unwrap_or(0);
                PartRange { start, end: ranges.iter().map(|range| range.end).max().unwrap_or(start) }
            }
        }
    }

    /// Finds the stored pieces of a stretch, in order and without overlap, and the gaps between them.
    async fn coverage(
        &self,
        ask: &Ask,
        (key, note): (&ObjectKey, &PartsNote),
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
            // The note has the head of the newest part alone.
            let is_allowed = found.record.head().is_none_or(|head| ask.live.allowed_address(head));
            if !is_allowed || found.body.length() != part.end - part.start {
                continue;
            }
            if part.start > at {
                gaps.push(PartRange { start: at, end: part.start });
            }
            let start = at.max(part.start);
            let end = part.end.min(wanted.end);
            let body = PieceBody::Held { body: found.body, base: part.start };
            pieces.push(Piece { start, end, body });
            at = end;
        }
        if at < wanted.end {
            gaps.push(PartRange { start: at, end: wanted.end });
        }
        Coverage { pieces, gaps }
    }

    /// Fetches the one missing stretch and answers with all of it.
    async fn complete(
        self: &Arc<Self>,
        ask: &Arc<Ask>,
        (key, note): (ObjectKey, &Arc<PartsNote>),
        pieces: Vec<Piece>,
        (gap, validator): (PartRange, HeaderValue),
    ) -> Step {
        let why = Why { forwarded: ForwardReason::Partial, key, stored: None };
        if ask.directives.only_if_cached {
            return self.forward(ask, why).await;
        }
        let range = format!("bytes={}-{}", gap.start, gap.end - 1);
        let part =
            PartKey { range: range.as_bytes().into(), validators: Box::new([validator.as_bytes().into()]) };
        let (arrived, is_own) = match self.flights.join(ask.flight(&why.key).for_part(part)) {
            Part::Lead(leader) => {
                let fetch = Fetch {
                    leader: Some(leader),
                    range: HeaderValue::try_from(range).ok(),
                    if_range: Some(validator),
                    ..self.plan_fetch(ask, None)
                };
                match self.spawn_fetch(fetch).await {
                    Ok(Fetched::Shared(arrived, _first)) => (arrived, true),
                    // it answers a range that we asked for and the client did not
                    Ok(Fetched::Private(private)) if is_about_range(private.response.status) => {
                        return Step::Alone(why);
                    }
                    Ok(other) => return Step::Done(Box::new(self.fetched(ask, &why, other))),
                    Err(_) => return Step::Alone(why),
                }
            }
            Part::Follow(follower) => match follower.landed().await {
                Landing::Shared(arrived) if self.shares(ask, &arrived) => (arrived, false),
                _ => return Step::Alone(why),
            },
        };
        match self.deliver_completed(ask, &why, note, (pieces, gap), (&arrived, is_own)) {
            Some(reply) => Step::Done(Box::new(reply)),
            None => Step::Alone(why),
        }
    }

    /// The stored pieces with the arriving one between them; or the arriving response itself when the origin
    /// preferred to send another representation.
    fn deliver_completed(
        &self,
        ask: &Ask,
        why: &Why,
        note: &PartsNote,
        (mut pieces, gap): (Vec<Piece>, PartRange),
        (arrived, is_own): (&Arc<Arrived>, bool),
    ) -> Option<Reply> {
        let verdict = self.arrived_verdict(why, arrived, Outcome::Miss);
        if arrived.head.stored.status() != StatusCode::PARTIAL_CONTENT {
            let body = Source::Growing(Arc::clone(&arrived.body), arrived.length, None);
            let head = Arc::clone(if is_own { &arrived.own_head } else { &arrived.head });
            return self.deliver(ask, Delivery { head, body }, verdict);
        }
        let fields = arrived.head.stored.fields();
        let sent = ContentRange::of(&fields).and_then(|sent| sent.range())?;
        let fits = sent.start == gap.start && sent.end == gap.end;
        if !fits || !same_representation(&note.head.stored.fields(), &fields) {
            return None;
        }
        let body = PieceBody::Growing { body: Arc::clone(&arrived.body), base: gap.start };
        pieces.push(Piece { start: gap.start, end: gap.end, body });
        pieces.sort_by_key(|piece| piece.start);
        self.deliver_pieces(ask, note, pieces, Some(verdict))
    }

    fn deliver_pieces(
        &self,
        ask: &Ask,
        note: &PartsNote,
        pieces: Vec<Piece>,
        verdict: Option<Verdict>,
    ) -> Option<Reply> {
        let ttl = note.head.policy.time_to_live(self.now());
        let delivery =
            Delivery { head: Arc::clone(&note.head), body: Source::Pieces(pieces, note.complete_length) };
        debug_assert!(
            !note.head.stored.fields().contains_key(header::CONTENT_RANGE),
            "the head is the whole's"
        );
        self.deliver(ask, delivery, verdict.unwrap_or_else(|| Verdict::hit(Outcome::Hit, ttl)))
    }
}

/// Whether a response with this status answers a Range.
fn is_about_range(status: StatusCode) -> bool {
    matches!(status, StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE)
}

/// The ETag by which a further part can be asked for, if the representation has a strong one.
fn strong_validator(fields: &HeaderMap) -> Option<HeaderValue> {
    EntityTag::of(fields).filter(|tag| tag.is_strong())?;
    fields.get(header::ETAG).cloned()
}
