//! Writes reply heads as HTTP/1 bytes.

use super::RequestSummary;
use crate::dates::with_date;
use crate::message::{RamHit, ReplyBody, ReplyForm, ReplyHead, VARY_OF_CODINGS};
use http::{HeaderValue, Method, StatusCode, Version, header};
use shoal_cluster::ANSWER_FIELD;
use shoal_wire::response::{self, Persistence, ResponseFraming};
use shoal_wire::{push_decimal, push_labelled};
use std::io::Write;
use std::time::Instant;

/// Returns the framing of the reply's body.
pub(super) fn framing(asked: &RequestSummary, status: StatusCode, body: &ReplyBody) -> ResponseFraming {
    let length = match body {
        ReplyBody::Empty => Some(0),
        ReplyBody::Memory(bytes) => Some(bytes.len() as u64),
        ReplyBody::Stream { length, .. } => *length,
        ReplyBody::Tunnel(_) => return ResponseFraming::Bodiless,
    };
    response::framing(&asked.method, asked.version, status, length)
}

/// Appends a whole head. `declared` is the Content-Length of a reply that has a length but no body.
pub(super) fn write(
    out: &mut Vec<u8>,
    head: &ReplyHead,
    framing: (ResponseFraming, Persistence),
    declared: Option<u64>,
    (alt_svc, now): (Option<&HeaderValue>, Instant),
) {
    let dated = match head {
        ReplyHead::Built(status, fields) => {
            response::status_line(out, *status);
            response::fields(out, *status, fields);
            fields.contains_key(header::DATE)
        }
        ReplyHead::Relayed(head) => {
            response::status_line(out, head.status);
            out.extend_from_slice(head.lines.as_bytes());
            true
        }
        ReplyHead::Stored { stored, form, age_seconds, cache_status, proxy_status, varies, peer_answer } => {
            response::status_line(out, form.status(stored));
            out.extend_from_slice(form.lines(stored));
            response::number_field(out, "age", *age_seconds);
            response::field(out, "cache-status", cache_status);
            response::field(out, "proxy-status", proxy_status.as_bytes());
            if *varies {
                response::field(out, "vary", VARY_OF_CODINGS.as_bytes());
            }
            content_range(out, *form);
            if let Some(answer) = peer_answer {
                response::field(out, ANSWER_FIELD, answer.as_bytes());
            }
            stored.is_dated()
        }
    };
    // RFC 9110 section 6.6.1: "An origin server with a clock … MUST generate a Date header field in
    // all 2xx … A recipient with a clock that receives a response message without a Date header
    // field MUST record the time it was received and append a corresponding Date header field to
    // the message's header section if it is cached or forwarded downstream."
    if !dated {
        with_date(now, |date| response::field(out, "date", date));
    }
    if let Some(alt_svc) = alt_svc {
        response::field(out, "alt-svc", alt_svc.as_bytes());
    }
    if let Some(length) = declared {
        response::number_field(out, "content-length", length);
    }
    response::framing_fields(out, framing.0, framing.1);
    out.extend_from_slice(shoal_wire::chunk::CRLF);
}

/// Appends the whole head of a hit in RAM, equal to the output of [`write`] for the same reply.
pub(super) fn hit(out: &mut Vec<u8>, hit: &RamHit<'_>, alt_svc: Option<&HeaderValue>, now: Instant) {
    let lines = hit.lines();
    out.reserve(lines.len() + HIT_FIELDS_BYTES);
    response::status_line(out, hit.status());
    out.extend_from_slice(lines);
    push_labelled(out, b"age: ", hit.age_seconds);
    out.extend_from_slice(&hit.own.cache_status);
    push_decimal(out, hit.ttl_seconds);
    out.extend_from_slice(&hit.own.proxy_status);
    content_range(out, hit.form);
    if !hit.stored.is_dated() {
        with_date(now, |date| response::field(out, "date", date));
    }
    if let Some(alt_svc) = alt_svc {
        response::field(out, "alt-svc", alt_svc.as_bytes());
    }
    match hit.length() {
        Some(length) => {
            push_labelled(out, b"content-length: ", length);
            out.extend_from_slice(b"\r\n\r\n");
        }
        None => out.extend_from_slice(shoal_wire::chunk::CRLF),
    }
}

/// Appends the Content-Range of a partial response.
fn content_range(out: &mut Vec<u8>, form: ReplyForm) {
    if let Some(content_range) = form.content_range() {
        // Writing to a vector does not fail.
        let _ = write!(out, "content-range: {content_range}\r\n");
    }
}

/// Returns the Content-Length to declare for a reply without a body. For HEAD this is the length of
/// the GET response, for 304 the stored response's length. RFC 9110 section 8.6 forbids the field
/// with 1xx, 204, and 2xx to CONNECT.
pub(super) fn declared(asked: &RequestSummary, head: &ReplyHead, body: &ReplyBody) -> Option<u64> {
    let status = head.status();
    let may_declare = status == StatusCode::NOT_MODIFIED
        || (asked.method == Method::HEAD && !response::is_bodiless(status));
    if !may_declare {
        return None;
    }
    match (body, head) {
        (ReplyBody::Memory(bytes), _) => Some(bytes.len() as u64),
        (ReplyBody::Stream { length, .. }, _) => *length,
        (ReplyBody::Empty, head) => head.declared_length(),
        _ => None,
    }
}

/// Returns the connection's persistence as the head declares it.
pub(super) fn persistence(asked: &RequestSummary, keep: bool, status: StatusCode) -> Persistence {
    match (keep, asked.version) {
        _ if status == StatusCode::SWITCHING_PROTOCOLS => Persistence::Upgrade,
        (false, _) => Persistence::Close,
        (true, Version::HTTP_10) => Persistence::KeepExplicitly,
        (true, _) => Persistence::Keep,
    }
}

/// Expected maximum bytes of the status line and our own fields of a hit.
const HIT_FIELDS_BYTES: usize = 256;
