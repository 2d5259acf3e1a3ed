//! What a reply makes of a stored response; and a hit in RAM on its short way, for as long as its
//! request is still where it was read.

use crate::holds::Hold;
use crate::message::{AccessRecord, ReplyBody};
use crate::stored_head::StoredHead;
use http::{HeaderMap, HeaderValue, StatusCode};
use shoal_semantics::range::{ByteRange, ContentRange};
use shoal_store::memory::MemoryBody;
use std::ops::Range;

/// A hit in RAM, for as long as it takes to put the reply together.
pub struct RamHit<'a> {
    /// The stored head.
    pub stored: &'a StoredHead,
    /// What becomes of head and body.
    pub form: ReplyForm,
    /// The stored body,
    pub body: &'a MemoryBody,
    /// and what is sent of it.
    pub content: &'a [u8],
    /// Current age in seconds, for the Age field.
    pub age_seconds: u64,
    /// Seconds until it becomes stale, which end the Cache-Status value.
    pub ttl_seconds: u64,
    /// This node's part of the head.
    pub own: &'a HitFields,
    /// Where the body is kept.
    pub keeper: &'a dyn Keeper,
}

/// Keeps the body of a hit for a reply that is not sent at once.
pub trait Keeper {
    /// So much of the body for as long as it takes to send it: in memory where replies may hold it
    /// there, else piece by piece, without the first `sent` bytes.
    fn keep(&self, place: Range<usize>, sent: usize) -> ReplyBody;

    /// Charges replies with so many bytes of the body, which somebody else is going to hold. `None`
    /// where they may hold no more.
    fn hold(&self, bytes: usize) -> Option<Hold>;
}

impl<'a> RamHit<'a> {
    /// What `form` makes of a head and a body, of this age and for so long.
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

    /// The reply's status.
    #[inline]
    pub fn status(&self) -> StatusCode {
        self.form.status(self.stored)
    }

    /// The stored part of the reply's fields, as HTTP/1 lines.
    #[inline]
    pub fn lines(&self) -> &'a [u8] {
        self.form.lines(self.stored)
    }

    /// What the reply's Content-Length says.
    #[inline]
    pub fn length(&self) -> Option<u64> {
        match self.form {
            ReplyForm::NotModified => None,
            ReplyForm::Head { length } => length,
            ReplyForm::Whole | ReplyForm::Part { .. } => Some(self.content.len() as u64),
        }
    }

    /// The content for who sends it later, of which `sent` bytes are sent: all of it where it is in
    /// memory, else what follows them.
    pub fn keep(&self, sent: usize) -> ReplyBody {
        match self.content_place() {
            place if place.is_empty() => ReplyBody::Empty,
            place => self.keeper.keep(place, sent),
        }
    }

    /// Where in the body the content is.
    pub fn content_place(&self) -> Range<usize> {
        self.form.content_place(self.body)
    }
}

/// A body that nobody else keeps.
#[cfg(any(test, feature = "fuzzing"))]
impl Keeper for MemoryBody {
    fn keep(&self, place: Range<usize>, _: usize) -> ReplyBody {
        ReplyBody::Memory(self.bytes().slice(place))
    }

    fn hold(&self, bytes: usize) -> Option<Hold> {
        crate::holds::Holds::new(u64::MAX).hold(bytes as u64)
    }
}

/// What a reply makes of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// All of it.
    Whole,
    /// 304: the client has it already.
    NotModified,
    /// The head alone, of a body of such a length, if that is known.
    Head {
        /// In bytes.
        length: Option<u64>,
    },
    /// 206: these bytes of its body.
    Part {
        /// Which.
        range: ByteRange,
        /// Bytes of the whole body.
        complete_length: u64,
    },
}

impl ReplyForm {
    /// The reply's status.
    #[inline]
    pub fn status(self, stored: &StoredHead) -> StatusCode {
        match self {
            Self::Whole | Self::Head { .. } => stored.status(),
            Self::NotModified => StatusCode::NOT_MODIFIED,
            Self::Part { .. } => StatusCode::PARTIAL_CONTENT,
        }
    }

    /// The stored part of the reply's fields, as HTTP/1 lines.
    #[inline]
    pub fn lines(self, stored: &StoredHead) -> &[u8] {
        match self {
            Self::Whole | Self::Head { .. } | Self::Part { .. } => stored.as_bytes(),
            Self::NotModified => stored.bytes_with_304(),
        }
    }

    /// Where in the body the reply's content is.
    #[inline]
    fn content_place(self, body: &[u8]) -> Range<usize> {
        match self {
            Self::Whole => 0..body.len(),
            Self::Head { .. } | Self::NotModified => 0..0,
            Self::Part { range, .. } => range.start as usize..range.end as usize,
        }
    }

    /// The stored part of the reply's fields, as a map.
    pub fn fields(self, stored: &StoredHead) -> HeaderMap {
        match self {
            Self::Whole | Self::Head { .. } | Self::Part { .. } => stored.fields(),
            Self::NotModified => stored.fields_with_304(),
        }
    }

    /// What the reply says of the part that it has.
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

/// What a node adds to the head of each hit, kept ready to send.
pub struct HitFields {
    /// What stands between the digits of Age and those that end Cache-Status: `CRLF cache-status:
    /// …;ttl=`.
    pub cache_status: Box<[u8]>,
    /// What follows those: `CRLF proxy-status: … CRLF`.
    pub proxy_status: Box<[u8]>,
    /// The value of Proxy-Status alone.
    pub proxy_status_value: HeaderValue,
}

impl HitFields {
    /// Of the values of both fields, the first without its last digits.
    pub fn new(cache_status: &[u8], proxy_status: &HeaderValue) -> Self {
        Self {
            cache_status: [CACHE_STATUS, cache_status].concat().into(),
            proxy_status: [b"\r\nproxy-status: ", proxy_status.as_bytes(), b"\r\n"].concat().into(),
            proxy_status_value: proxy_status.clone(),
        }
    }

    /// The value of Cache-Status but for its last digits.
    pub fn cache_status_value(&self) -> &[u8] {
        &self.cache_status[CACHE_STATUS.len()..]
    }
}

const CACHE_STATUS: &[u8] = b"\r\ncache-status: ";

/// How far the reply to a hit came at once.
#[derive(Clone, Copy, Debug)]
pub enum SendProgress {
    /// The connection took all of it, whose head has so many bytes.
    Whole {
        /// Bytes of head sent.
        head_bytes: u64,
    },
    /// Some of it is still to be sent: the client is slow, the body long, or the connection gone.
    Partly,
}

/// What came of a glance at RAM.
pub enum FastPathOutcome {
    /// Nothing: the request goes the ordinary way.
    NotTaken,
    /// A hit whose reply was sent whole, counted and logged.
    Sent,
    /// A hit whose reply is still being sent. The record, when somebody wants one, is given back
    /// through [`Handler::sent`](crate::message::Handler::record_sent).
    Sending(Option<Box<AccessRecord>>),
}
