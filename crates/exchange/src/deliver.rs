//! Turns a stored or arriving response into the reply for one request: conditions, ranges, age.

use super::answers;
use super::body::{BodySegment, SegmentedBody};
use super::coding::FormChoice;
use super::handling_report::HandlingReport;
use super::hybrid_cache::CachedBody;
use super::hybrid_cache::HybridCache;
use super::metadata::ResponseMetadata;
use super::request::RequestContext;
use super::shared_body::{BodyReader, SharedBody};
use crate::clock;
use crate::message::{Reply, ReplyBody, ReplyForm, ReplyHead, VARY_OF_CODINGS};
use crate::mirror::CheckedPart;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use shoal_semantics::range::{ByteRange, ContentRange, Multipart, RangeAnswer, RangeSet, if_range_holds};
use shoal_semantics::validation::{self, Condition};
use std::sync::Arc;

/// A response to deliver: head and body.
pub struct Delivery {
    /// The head.
    pub head: Arc<ResponseMetadata>,
    /// The body.
    pub body: BodySource,
    /// Form of the body; `None` if all clients get the same.
    pub choice: Option<FormChoice>,
}

/// Source of a body to deliver.
pub enum BodySource {
    /// A complete stored body.
    Held(CachedBody),
    /// Pieces of the body, in order and without overlap, and the length of the whole.
    Pieces(Vec<RangePiece>, u64),
    /// An arriving body, its length if known, and a reader attached at its start if possible.
    Growing(Arc<SharedBody>, Option<u64>, Option<BodyReader>),
}

/// Bytes `start..end` of a representation.
pub struct RangePiece {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
    /// Source of the bytes.
    pub body: RangePieceSource,
}

/// Source of a piece: a body that holds the representation from `base` on.
pub enum RangePieceSource {
    /// A stored body.
    Held {
        /// The body.
        body: CachedBody,
        /// Offset of the body's first byte within the representation.
        base: u64,
    },
    /// An arriving body.
    Growing {
        /// The body.
        body: Arc<SharedBody>,
        /// Offset of the body's first byte within the representation.
        base: u64,
    },
}

impl RangePiece {
    /// Returns the part of this piece that lies in `start..end`.
    fn segment(&self, start: u64, end: u64) -> Option<BodySegment> {
        let (start, end) = (self.start.max(start), self.end.min(end));
        match &self.body {
            RangePieceSource::Held { body, base } => Some(body.segment(start - base, end - base)),
            RangePieceSource::Growing { body, base } => {
                Some(BodySegment::Growing { reader: body.attach(start - base)?, length: Some(end - start) })
            }
        }
    }
}

impl BodySource {
    fn length(&self) -> Option<u64> {
        match self {
            Self::Held(held) => Some(held.length()),
            Self::Pieces(_, length) => Some(*length),
            Self::Growing(_, length, _) => *length,
        }
    }

    /// Returns the order in which to send these ranges. For an arriving body this is the order of
    /// arrival. A reader that waited at an earlier place for its turn would hold back the writer,
    /// and so the bytes before its turn. RFC 9110, section 15.3.7.2, has the requested order as a
    /// SHOULD.
    fn in_order(&self, mut ranges: Vec<ByteRange>) -> Vec<ByteRange> {
        let is_arriving = match self {
            Self::Held(_) => false,
            Self::Pieces(pieces, _) => {
                pieces.iter().any(|piece| matches!(piece.body, RangePieceSource::Growing { .. }))
            }
            Self::Growing(..) => true,
        };
        if is_arriving {
            ranges.sort_unstable();
        }
        ranges
    }
}

/// Returns the reply for `ask`. Returns `None` if the bytes are no longer available here.
pub(super) fn deliver(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    delivery: Delivery,
    verdict: HandlingReport,
) -> Option<Reply> {
    let ResponseMetadata { stored, policy, .. } = &*delivery.head;
    let condition =
        validation::evaluate(&ask.fields, stored.status(), &**stored, policy, clock::date_at(clock::now()));
    if condition == Condition::NotModified {
        let reply = (ReplyForm::NotModified, ReplyBody::Empty);
        return Some(of_stored(ask, (&delivery.head, delivery.choice), reply, verdict));
    }
    let is_under_check = matches!(delivery.body, BodySource::Growing(..))
        && ask.mirror.as_ref().is_some_and(|asked| asked.is_checked());
    let ranges = wanted_ranges(ask, &delivery);
    if let Some(ranges) = ranges.filter(|ranges| !is_under_check || !is_several(ranges)) {
        return deliver_ranges(objects, ask, delivery, ranges, verdict);
    }
    if ask.method == Method::HEAD {
        let form = ReplyForm::Head { length: delivery.body.length() };
        return Some(of_stored(ask, (&delivery.head, delivery.choice), (form, ReplyBody::Empty), verdict));
    }
    let body = whole(objects, delivery.body)?;
    Some(of_stored(ask, (&delivery.head, delivery.choice), (ReplyForm::Whole, body), verdict))
}

/// Returns the ranges to answer with. They require a GET with Range, a complete 200 of known
/// length, and an If-Range that holds.
fn wanted_ranges(ask: &RequestContext, delivery: &Delivery) -> Option<RangeAnswer> {
    let length = delivery.body.length()?;
    resolve_ranges(ask, &delivery.head, length)
}

/// Resolves the request's Range for a representation with this head and length. Returns `None` for
/// the whole.
pub(super) fn resolve_ranges(
    ask: &RequestContext,
    head: &ResponseMetadata,
    length: u64,
) -> Option<RangeAnswer> {
    let stored = &head.stored;
    if ask.method != Method::GET || stored.status() != StatusCode::OK {
        return None;
    }
    let ranges = RangeSet::of(&ask.fields)?;
    if !if_range_holds(&ask.fields, &**stored, clock::date_at(clock::now())) {
        return None;
    }
    Some(ranges.resolve(length)).filter(|resolved| *resolved != RangeAnswer::Whole)
}

fn deliver_ranges(
    objects: &Arc<HybridCache>,
    ask: &RequestContext,
    delivery: Delivery,
    ranges: RangeAnswer,
    verdict: HandlingReport,
) -> Option<Reply> {
    let length = delivery.body.length()?;
    let ranges = match ranges {
        RangeAnswer::Parts(ranges) => delivery.body.in_order(ranges),
        RangeAnswer::Whole | RangeAnswer::Unsatisfiable => {
            return Some(unsatisfiable(ask, length, verdict));
        }
    };
    if let [range] = *ranges {
        let body = match &delivery.body {
            BodySource::Growing(growing, ..)
                if ask.mirror.as_ref().is_some_and(|asked| asked.is_checked()) =>
            {
                let reader = growing.attach(range.start)?;
                let rest = [BodySegment::Growing { reader, length: None }];
                let rest = SegmentedBody::new(rest, Arc::clone(objects)).boxed();
                ReplyBody::Stream { frames: CheckedPart::boxed(rest, range.len()), length: Some(range.len()) }
            }
            body => of_segments(objects, stretch(body, range)?, range.len()),
        };
        let form = ReplyForm::Part { range, complete_length: length };
        return Some(of_stored(ask, (&delivery.head, delivery.choice), (form, body), verdict));
    }
    let verdict = verdict.coding(delivery.choice.and_then(FormChoice::coding));
    let mut fields = fields_of(ask, &delivery.head, &verdict);
    fields.remove(header::CONTENT_RANGE);
    if delivery.choice.is_some() {
        fields.append(header::VARY, HeaderValue::from_static(VARY_OF_CODINGS));
    }
    let content_type = fields.remove(header::CONTENT_TYPE);
    let multipart = Multipart::new(clock::now().millis(), content_type.as_ref(), &ranges, length);
    fields.insert(header::CONTENT_TYPE, multipart.content_type());
    let mut segments = Vec::with_capacity(ranges.len() * 2 + 1);
    for (range, head) in ranges.iter().zip(multipart.heads()) {
        segments.push(BodySegment::Memory(head.clone()));
        segments.extend(stretch(&delivery.body, *range)?);
    }
    segments.push(BodySegment::Memory(multipart.tail()));
    let body = of_segments(objects, segments, multipart.length());
    Some(built(ask, StatusCode::PARTIAL_CONTENT, fields, body, verdict))
}

/// Returns `true` for several ranges. Of a body under a check the whole is sent in their place: it
/// ends well only with the check.
fn is_several(ranges: &RangeAnswer) -> bool {
    matches!(ranges, RangeAnswer::Parts(ranges) if ranges.len() > 1)
}

/// Builds a body of these segments, `length` bytes together.
fn of_segments(objects: &Arc<HybridCache>, mut segments: Vec<BodySegment>, length: u64) -> ReplyBody {
    if let [BodySegment::Memory(bytes)] = &mut *segments {
        return ReplyBody::Memory(std::mem::take(bytes));
    }
    let frames = SegmentedBody::new(segments, Arc::clone(objects)).boxed();
    ReplyBody::Stream { frames, length: Some(length) }
}

/// RFC 9110, section 15.5.17: a 416 to a byte range request "SHOULD" give the current length.
fn unsatisfiable(ask: &RequestContext, length: u64, verdict: HandlingReport) -> Reply {
    let mut reply = answers::own_answer(ask, StatusCode::RANGE_NOT_SATISFIABLE, UNSATISFIABLE, verdict);
    if let ReplyHead::Built(_, fields) = &mut reply.head {
        fields.insert(header::CONTENT_RANGE, ContentRange::unsatisfied(length).to_value());
    }
    reply
}

/// Returns bytes `start..end` of a body, as segments.
fn stretch(body: &BodySource, range: ByteRange) -> Option<Vec<BodySegment>> {
    let (start, end) = (range.start, range.end);
    match body {
        BodySource::Held(held) => Some(vec![held.segment(start, end)]),
        BodySource::Pieces(pieces, _) => {
            let within = pieces.iter().filter(|piece| piece.start < end && piece.end > start);
            within.map(|piece| piece.segment(start, end)).collect()
        }
        BodySource::Growing(growing, ..) => {
            Some(vec![BodySegment::Growing { reader: growing.attach(start)?, length: Some(end - start) }])
        }
    }
}

pub(super) fn whole(objects: &Arc<HybridCache>, body: BodySource) -> Option<ReplyBody> {
    let objects = Arc::clone(objects);
    Some(match body {
        BodySource::Held(CachedBody::Memory(bytes)) if bytes.is_empty() => ReplyBody::Empty,
        BodySource::Held(CachedBody::Memory(bytes)) => ReplyBody::Memory(bytes),
        BodySource::Held(held) => {
            let length = held.length();
            let frames = SegmentedBody::new([held.segment(0, length)], objects).boxed();
            ReplyBody::Stream { frames, length: Some(length) }
        }
        BodySource::Pieces(_, length) => {
            let segments = ByteRange::new(0, length).map_or(Some(Vec::new()), |all| stretch(&body, all))?;
            ReplyBody::Stream { frames: SegmentedBody::new(segments, objects).boxed(), length: Some(length) }
        }
        BodySource::Growing(growing, Some(0), _) if !growing.expects_trailers() => ReplyBody::Empty,
        BodySource::Growing(growing, length, reader) => {
            let reader = match reader {
                Some(reader) => reader,
                None => growing.attach(0)?,
            };
            let frames = SegmentedBody::new([BodySegment::Growing { reader, length: None }], objects).boxed();
            ReplyBody::Stream { frames, length }
        }
    })
}

/// Builds the reply from a stored response, with the bytes to send of its body.
fn of_stored(
    ask: &RequestContext,
    (head, choice): (&ResponseMetadata, Option<FormChoice>),
    (form, body): (ReplyForm, ReplyBody),
    verdict: HandlingReport,
) -> Reply {
    let stored = match form {
        // Content-Range is meaningful in the whole response only.
        ReplyForm::Part { .. } if head.stored.has_content_range() => {
            Arc::new(head.stored.without(&header::CONTENT_RANGE))
        }
        _ => Arc::clone(&head.stored),
    };
    let content_type = stored.content_type_value().filter(|_| form != ReplyForm::NotModified);
    let verdict = verdict.coding(choice.and_then(FormChoice::coding));
    let cache_status = verdict.cache_status(&ask.live);
    let record = verdict.record(ask, cache_status.clone(), form.status(&stored), content_type);
    let age_seconds = head.policy.age_seconds(clock::now());
    let proxy_status = verdict.proxy_status(&ask.live);
    let head = ReplyHead::Stored {
        stored,
        form,
        age_seconds,
        cache_status,
        proxy_status,
        varies: choice.is_some(),
        peer_answer: None,
    };
    Reply { head, body, record }
}

/// Returns a stored response's fields with Age and Cache-Status.
fn fields_of(ask: &RequestContext, head: &ResponseMetadata, verdict: &HandlingReport) -> HeaderMap {
    let mut fields = head.stored.fields();
    fields.insert(header::AGE, HeaderValue::from(head.policy.age_seconds(clock::now())));
    verdict.add_to(&mut fields, &ask.live);
    fields
}

/// Builds a reply with a head made for this request.
fn built(
    ask: &RequestContext,
    status: StatusCode,
    fields: HeaderMap,
    body: ReplyBody,
    verdict: HandlingReport,
) -> Reply {
    let record = verdict.record(
        ask,
        verdict.cache_status(&ask.live),
        status,
        fields.get(header::CONTENT_TYPE).cloned(),
    );
    Reply { head: ReplyHead::Built(status, fields), body, record }
}

const UNSATISFIABLE: &str = "The requested range lies outside the representation.";
