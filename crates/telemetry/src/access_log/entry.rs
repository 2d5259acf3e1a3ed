//! Fields of one line of the access log, borrowed from the request's own buffers.

use crate::otlp::RequestTrace;
use crate::record::{AccessRecord, CacheResult, NextHop};
use http::HeaderValue;
use shoal_core::Timestamp;
use std::net::SocketAddr;

/// One request as the log sees it: the fields of an [`AccessRecord`], or of a hit without a record.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogEntry<'a> {
    /// Arrival time of the request.
    pub time: Timestamp,
    /// Time from the request's first byte to the reply's last, in microseconds.
    pub duration_us: u64,
    /// Client address.
    pub client: Option<SocketAddr>,
    /// Authenticated user. An empty text means none, in all fields here.
    pub user: &'a str,
    /// Request method.
    pub method: &'a str,
    /// Target URL of the client's request.
    pub url: &'a [u8],
    /// HTTP version: 1.0, 1.1, 2 or 3.
    pub version: &'static str,
    /// Final status.
    pub status: u16,
    /// Number of body bytes sent.
    pub body_bytes: u64,
    /// Number of head bytes sent.
    pub head_bytes: u64,
    /// `true` if the reply was cut short.
    pub aborted: bool,
    /// Result of the cache lookup.
    pub outcome: CacheResult,
    /// Next hop that was asked.
    pub upstream: Option<&'a NextHop>,
    /// The Referer field.
    pub referer: &'a [u8],
    /// The User-Agent field.
    pub user_agent: &'a [u8],
    /// Content type of the reply.
    pub content_type: &'a [u8],
    /// The Cache-Status value of the reply.
    pub cache_status: &'a [u8],
    /// Coding of the body, if this node coded it.
    pub coding: &'static str,
    /// Name of the site.
    pub site: &'a str,
    /// Trace of the request, if one has begun.
    pub trace: Option<&'a RequestTrace>,
}

impl<'a> From<&'a AccessRecord> for LogEntry<'a> {
    fn from(record: &'a AccessRecord) -> Self {
        let value = |value: &'a Option<HeaderValue>| value.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
        Self {
            time: record.time,
            duration_us: record.duration_us,
            client: record.client,
            user: record.user.as_deref().unwrap_or_default(),
            method: record.method.as_ref().map_or("NONE", |method| method.as_str()),
            url: record.url.as_bytes(),
            version: record.version,
            status: record.status,
            body_bytes: record.body_bytes,
            head_bytes: record.head_bytes,
            aborted: record.aborted,
            outcome: record.outcome,
            upstream: record.upstream.as_ref(),
            referer: value(&record.referer),
            user_agent: value(&record.user_agent),
            content_type: value(&record.content_type),
            cache_status: &record.cache_status,
            coding: record.coding,
            site: record.site.as_ref().map_or("", |site| site.label()),
            trace: record.trace.as_deref(),
        }
    }
}
