//! What one line of the access log says, borrowed from wherever it stands.

use crate::message::{AccessRecord, CacheResult, NextHop};
use http::HeaderValue;
use shoal_core::Timestamp;
use std::net::SocketAddr;

/// One request as the log sees it: a [`AccessRecord`]'s fields, or those of a hit that never had
/// one.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogEntry<'a> {
    /// When the request arrived.
    pub time: Timestamp,
    /// From its first byte to the reply's last, in microseconds.
    pub duration_us: u64,
    /// Client address.
    pub client: Option<SocketAddr>,
    /// Authenticated user; empty for none, as all texts here.
    pub user: &'a str,
    /// Method.
    pub method: &'a str,
    /// Target as the client meant it.
    pub url: &'a [u8],
    /// 1.0, 1.1 or 2.
    pub version: &'static str,
    /// Final status.
    pub status: u16,
    /// Bytes of body sent.
    pub body_bytes: u64,
    /// Bytes of head sent.
    pub head_bytes: u64,
    /// Whether the reply was cut.
    pub aborted: bool,
    /// What the cache did.
    pub outcome: CacheResult,
    /// Who was asked.
    pub upstream: Option<&'a NextHop>,
    /// The Referer field.
    pub referer: &'a [u8],
    /// The User-Agent field.
    pub user_agent: &'a [u8],
    /// Content type of the reply.
    pub content_type: &'a [u8],
    /// The Cache-Status value of the reply.
    pub cache_status: &'a [u8],
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
        }
    }
}
