//! Forms of a reply to a hit, and the hit in RAM on the fast path. On this path the request is
//! still in the buffer from which it was read.

use crate::holds::Hold;
use crate::stored_head::StoredHead;
use crate::{AccessRecord, CacheResult, ReplyBody};
use http::{HeaderMap, HeaderValue, StatusCode};
use shoal_memory::MemoryBody;
use shoal_semantics::range::{ByteRange, ContentRange};
use shoal_telemetry::metrics::Metrics;
use std::ops::Range;

/// A hit in RAM, while the reply is put together.
pub struct RamHit<'a> {
    /// The stored head.
    pub stored: &'a StoredHead,
    /// Form of head and body in the reply.
    pub form: ReplyForm,
    /// The stored body.
    pub body: &'a MemoryBody,
    /// Part of the body to send.
    pub content: &'a [u8],
    /// Current age in seconds, for the Age field.
    pub age_seconds: u64,
    /// Seconds until the response becomes stale, the last number of the Cache-Status value.
    pub ttl_seconds: u64,
    /// This node's part of the head.
    pub own: &'a HitFields,
    /// Keeper of the body.
    pub keeper: &'a dyn Keeper,
}

/// Keeps the body of a hit for a reply that is not sent at once.
pub trait Keeper {
    /// Keeps the range `place` of the body until it is sent. The bytes stay in memory if replies
    /// may hold them there. Otherwise the body is read in pieces, without the first `sent` bytes.
    fn keep(&self, place: Range<usize>, sent: usize) -> ReplyBody;

    /// Charges replies with `bytes` of the body, which the caller is going to hold. Returns `None`
    /// if replies may hold no more.
    fn hold(&self, bytes: usize) -> Option<Hold>;
}

impl<'a> RamHit<'a> {
    /// Builds a hit of this form, with the age and the remaining lifetime.
    #[inline]
    pub fn new(
        (stored, body): (&'a StoredHead, &'a MemoryBody),
        form: ReplyForm,
        (age_seconds, ttl_seconds): (u64, u64),
        (own, keeper): (&'a HitFields, &'a dyn Keeper),
    ) -> Self {
        let whole: &[u8] = body;
        let content = &whole[form.content_place(whole)];
        Self { stored, form, body, content, age_seconds, ttl_seconds, own, keeper }
    }

    /// Counts the hit at `place`, the calling thread's, and its body if the body was sent whole.
    /// Otherwise the bytes are counted when the body ends.
    #[inline]
    pub fn count(&self, metrics: &Metrics, place: usize, sent: SendProgress) {
        metrics.hits_memory.add_at(place, 1);
        if matches!(sent, SendProgress::Whole { .. }) {
            metrics.body_bytes.of(CacheResult::MemoryHit).add_at(place, self.content.len() as u64);
        }
    }

    /// Returns the reply's status.
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.form.status(self.stored)
    }

    /// Returns the stored part of the reply's fields, as HTTP/1 lines.
    #[inline]
    pub fn lines(&self) -> &'a [u8] {
        self.form.lines(self.stored)
    }

    /// Returns the value of the reply's Content-Length.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        match self.form {
            ReplyForm::NotModified => None,
            ReplyForm::Head { length } => length,
            ReplyForm::Whole | ReplyForm::Part { .. } => Some(self.content.len() as u64),
        }
    }

    /// Returns the content for sending later, of which `sent` bytes are already sent. In memory
    /// this is the whole content, otherwise the rest.
    pub fn keep(&self, sent: usize) -> ReplyBody {
        match self.content_place() {
            place if place.is_empty() => ReplyBody::Empty,
            place => self.keeper.keep(place, sent),
        }
    }

    /// Returns the range of the content in the body.
    pub fn content_place(&self) -> Range<usize> {
        self.form.content_place(self.body)
    }
}

/// A body that its reply alone keeps.
#[cfg(any(test, feature = "fuzzing"))]
impl Keeper for MemoryBody {
    fn keep(&self, place: Range<usize>, _: usize) -> ReplyBody {
        ReplyBody::Memory(self.bytes().slice(place))
    }

    fn hold(&self, bytes: usize) -> Option<Hold> {
        crate::holds::Holds::new(u64::MAX).hold(bytes as u64)
    }
}

/// The form that a reply gives to a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// The whole response.
    Whole,
    /// 304: the client has the response already.
    NotModified,
    /// The head alone.
    Head {
        /// Length of the body in bytes, if known.
        length: Option<u64>,
    },
    /// 206: a part of the body.
    Part {
        /// Range of the part.
        range: ByteRange,
        /// Bytes of the whole body.
        complete_length: u64,
    },
}

impl ReplyForm {
    /// Returns the reply's status.
    #[inline]
    pub fn status(self, stored: &StoredHead) -> StatusCode {
        match self {
            Self::Whole | Self::Head { .. } => stored.status(),
            Self::NotModified => StatusCode::NOT_MODIFIED,
            Self::Part { .. } => StatusCode::PARTIAL_CONTENT,
        }
    }

    /// Returns the stored part of the reply's fields, as HTTP/1 lines.
    #[inline]
    pub fn lines(self, stored: &StoredHead) -> &[u8] {
        match self {
            Self::Whole | Self::Head { .. } | Self::Part { .. } => stored.as_bytes(),
            Self::NotModified => stored.bytes_with_304(),
        }
    }

    /// Returns the range of the reply's content in the body.
    #[inline]
    fn content_place(self, body: &[u8]) -> Range<usize> {
        match self {
            Self::Whole => 0..body.len(),
            Self::Head { .. } | Self::NotModified => 0..0,
            Self::Part { range, .. } => range.start as usize..range.end as usize,
        }
    }

    /// Returns the stored part of the reply's fields, as a map.
    pub fn fields(self, stored: &StoredHead) -> HeaderMap {
        match self {
            Self::Whole | Self::Head { .. } | Self::Part { .. } => stored.fields(),
            Self::NotModified => stored.fields_with_304(),
        }
    }

    /// Returns the Content-Range of a partial reply.
    #[inline]
    pub fn content_range(self) -> Option<ContentRange> {
        match self {
            Self::Part { range, complete_length } => {
                Some(ContentRange::satisfied(range, Some(complete_length)))
            }
            Self::Whole | Self::Head { .. } | Self::NotModified => None,
        }
    }
}

/// Fields that a node adds to the head of each hit, ready to send.
pub struct HitFields {
    /// Bytes between the digits of Age and the last digits of Cache-Status: `CRLF cache-status:
    /// …;ttl=`.
    pub cache_status: Vec<u8>,
    /// Bytes after the last digits of Cache-Status: `CRLF proxy-status: … CRLF`, and Vary if the
    /// hit varies.
    pub proxy_status: Vec<u8>,
    /// The value of Proxy-Status alone.
    pub proxy_status_value: HeaderValue,
    /// `true` if the form of the body depends on the request's Accept-Encoding; Vary then says so.
    pub varies: bool,
    /// Coding of the body, if this node coded it; else empty.
    pub coding: &'static str,
}

impl HitFields {
    /// Builds both fields from their values. The first value lacks its last digits.
    pub fn new(cache_status: &[u8], proxy_status: &HeaderValue) -> Self {
        Self {
            cache_status: [CACHE_STATUS, cache_status].concat(),
            proxy_status: [b"\r\nproxy-status: ", proxy_status.as_bytes(), b"\r\n"].concat(),
            proxy_status_value: proxy_status.clone(),
            varies: false,
            coding: "",
        }
    }

    /// Returns the fields of hits with a form that depends on the request's Accept-Encoding.
    pub fn varying(cache_status: &[u8], proxy_status: &HeaderValue) -> Self {
        let mut fields = Self::new(cache_status, proxy_status);
        for part in ["vary: ", VARY_OF_CODINGS, "\r\n"] {
            fields.proxy_status.extend_from_slice(part.as_bytes());
        }
        Self { varies: true, ..fields }
    }

    /// Fields without bytes.
    pub const EMPTY: Self = Self {
        cache_status: Vec::new(),
        proxy_status: Vec::new(),
        proxy_status_value: HeaderValue::from_static(""),
        varies: false,
        coding: "",
    };

    /// Becomes a copy of `own` for HTTP/1, in the same allocations.
    pub fn take_over(&mut self, own: &Self) {
        self.cache_status.clear();
        self.cache_status.extend_from_slice(&own.cache_status);
        self.proxy_status.clear();
        self.proxy_status.extend_from_slice(&own.proxy_status);
    }

    /// Returns the value of Cache-Status without its last digits.
    pub fn cache_status_value(&self) -> &[u8] {
        &self.cache_status[CACHE_STATUS.len()..]
    }
}

/// Value of Vary in a reply with a form that depends on the codings of the client.
pub const VARY_OF_CODINGS: &str = "Accept-Encoding";

const CACHE_STATUS: &[u8] = b"\r\ncache-status: ";

/// Progress of the first attempt to send the reply to a hit.
#[derive(Clone, Copy, Debug)]
pub enum SendProgress {
    /// The connection took the whole reply.
    Whole {
        /// Number of head bytes sent.
        head_bytes: u64,
    },
    /// A part is still to be sent: the client is slow, the body long, or the connection gone.
    Partly,
}

/// Outcome of the fast path.
pub enum FastPathOutcome {
    /// The request was not answered and goes the ordinary way.
    NotTaken,
    /// The reply to a hit was sent whole, counted and logged.
    Sent,
    /// The reply to a hit is still being sent. The record exists if it is needed. The caller
    /// returns the record through [`Handler::sent`](crate::Handler::record_sent).
    Sending(Option<Box<AccessRecord>>),
}
