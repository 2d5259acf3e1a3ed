//! Checks of a response's head that the HTTP codecs leave to their callers.
//!
//! The codecs accept a response with both Content-Length and Transfer-Encoding, a Transfer-Encoding
//! other than chunked, and a Content-Length without a body. A cache that passes these on lets an
//! origin, or a client that can make it echo, poison other clients' responses. The codecs
//! themselves refuse bare CR, bad chunks, two differing lengths and HTTP/0.9, as this folder's
//! tests show.

use super::error::Cause;
use http::header::{
    CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HOST,
    HeaderName, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, Method, StatusCode};
use shoal_core::{FieldLines, Fields};

/// Checks the head of a response, and leaves at most one Content-Length in it. Returns the length
/// of the body if the framing gives one.
pub(super) fn check(
    method: &Method,
    status: StatusCode,
    fields: &mut FieldLines,
) -> Result<Option<u64>, (Cause, &'static str)> {
    // RFC 9110, 15: "Values outside the range 100..599 are invalid."
    if status.as_u16() > 599 {
        return Err((Cause::Malformed, "status above 599"));
    }
    let coded = is_coded(fields)?;
    let length = content_length(fields)?;
    if coded && length.is_some() {
        // RFC 9112, 6.3: "Such a message might indicate an attempt to perform request smuggling ...
        // or response splitting ... and ought to be handled as an error."
        return Err((Cause::Malformed, "both Content-Length and Transfer-Encoding"));
    }
    if status == StatusCode::NO_CONTENT && length.is_some() {
        // RFC 9110, 8.6: "A server MUST NOT send a Content-Length header field in any response with
        // a status code of 1xx (Informational) or 204 (No Content)."
        *fields = fields.with_only(&CONTENT_LENGTH, None);
    }
    Ok(if is_bodiless(method, status) { Some(0) } else { length })
}

/// Returns `true` if the response ends with its head. RFC 9112, 6.3: "Any response to a HEAD
/// request and any response with a 1xx (Informational), 204 (No Content), or 304 (Not Modified)
/// status code is always terminated by the first empty line after the header fields".
fn is_bodiless(method: &Method, status: StatusCode) -> bool {
    *method == Method::HEAD || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Returns `true` if a response without a body has a head, as it came, that announces one. An
/// origin in error may send this body.
pub(super) fn may_have_surplus(method: &Method, status: StatusCode, fields: &FieldLines) -> bool {
    is_bodiless(method, status) && announces_body(method, fields)
}

fn announces_body(method: &Method, fields: &FieldLines) -> bool {
    match fields.value(&CONTENT_LENGTH) {
        Some(length) => length.trim_ascii() != b"0",
        None => *method == Method::HEAD || fields.has(&TRANSFER_ENCODING),
    }
}

/// Removes the trailers that RFC 9110, 6.5.1 forbids: "fields that describe message framing,
/// routing, authentication, request modifiers, response controls, or content format".
pub(super) fn clean_trailers(trailers: &mut HeaderMap) {
    for name in FORBIDDEN_TRAILERS {
        trailers.remove(name);
    }
}

/// Returns `true` if the body is chunked. Any other coding was not requested (no TE is sent) and
/// cannot be decoded here.
fn is_coded(fields: &FieldLines) -> Result<bool, (Cause, &'static str)> {
    let mut codings = fields.values(&TRANSFER_ENCODING);
    match (codings.next(), codings.next()) {
        (None, _) => Ok(false),
        (Some(coding), None) if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") => Ok(true),
        _ => Err((Cause::TransferCoding, "a transfer coding other than chunked")),
    }
}

/// Returns the single value of Content-Length. RFC 9112, 6.3 accepts a list: "if the field value
/// can be successfully parsed as a comma-separated list ..., all values in the list are valid, and
/// all values in the list are the same". Otherwise "the proxy MUST close the connection to the
/// server, discard the received response, and send a 502".
fn content_length(fields: &mut FieldLines) -> Result<Option<u64>, (Cause, &'static str)> {
    let mut length = None;
    let mut entries = 0;
    for value in fields.values(&CONTENT_LENGTH) {
        for entry in value.split(|byte| *byte == b',') {
            let number = digits(entry.trim_ascii()).ok_or((Cause::Malformed, "invalid Content-Length"))?;
            if length.is_some_and(|length| length != number) {
                return Err((Cause::Malformed, "differing Content-Lengths"));
            }
            length = Some(number);
            entries += 1;
        }
    }
    if let (Some(number), 2..) = (length, entries) {
        *fields = fields.with_only(&CONTENT_LENGTH, Some(number.to_string().as_bytes()));
    }
    Ok(length)
}

/// Parses 1*DIGIT within the range: no sign, no spaces.
fn digits(text: &[u8]) -> Option<u64> {
    let add = |number: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    };
    let number = text.iter().try_fold(0, add).filter(|_| !text.is_empty());
    number.filter(|number| *number <= shoal_wire::BODY_BYTES_MAX)
}

const FORBIDDEN_TRAILERS: [HeaderName; 12] = [
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    CACHE_CONTROL,
    HOST,
    SET_COOKIE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

#[cfg(test)]
mod tests {
    use super::*;

    type Outcome = Result<(Option<u64>, Vec<String>), Cause>;

    fn judge(method: &Method, status: u16, lines: &[(&'static str, &'static str)]) -> Outcome {
        let mut fields = lines.iter().copied().collect();
        let status = StatusCode::from_u16(status).expect("a status");
        let length = check(method, status, &mut fields).map_err(|(cause, _)| cause)?;
        let left = fields.values(&CONTENT_LENGTH).map(|value| String::from_utf8_lossy(value).into());
        Ok((length, left.collect()))
    }

    #[test]
    fn ambiguous_framing_is_refused_equal_lengths_merge() {
        let five = || vec!["5".to_owned()];
        for (method, status, lines, expected) in [
            (Method::GET, 200, &[][..], Ok((None, vec![]))),
            (Method::GET, 200, &[("content-length", "5")], Ok((Some(5), five()))),
            (Method::GET, 200, &[("content-length", "5, 5")], Ok((Some(5), five()))),
            (Method::GET, 200, &[("content-length", "5"), ("content-length", "5")], Ok((Some(5), five()))),
            (Method::GET, 200, &[("content-length", "5, 6")], Err(Cause::Malformed)),
            (Method::HEAD, 200, &[("content-length", "5"), ("content-length", "6")], Err(Cause::Malformed)),
            (Method::GET, 304, &[("content-length", "+5")], Err(Cause::Malformed)),
            (Method::GET, 200, &[("content-length", "")], Err(Cause::Malformed)),
            (Method::GET, 200, &[("content-length", "5,")], Err(Cause::Malformed)),
            (Method::GET, 200, &[("content-length", "18446744073709551616")], Err(Cause::Malformed)),
            (Method::GET, 200, &[("transfer-encoding", " Chunked ")], Ok((None, vec![]))),
            (Method::GET, 200, &[("transfer-encoding", "gzip, chunked")], Err(Cause::TransferCoding)),
            (Method::GET, 200, &[("transfer-encoding", "identity")], Err(Cause::TransferCoding)),
            (
                Method::GET,
                200,
                &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
                Err(Cause::TransferCoding),
            ),
            (
                Method::GET,
                200,
                &[("transfer-encoding", "chunked"), ("content-length", "5")],
                Err(Cause::Malformed),
            ),
            (Method::HEAD, 200, &[("content-length", "5")], Ok((Some(0), five()))),
            (Method::GET, 304, &[("content-length", "5")], Ok((Some(0), five()))),
            (Method::GET, 204, &[("content-length", "5")], Ok((Some(0), vec![]))),
            (Method::GET, 599, &[], Ok((None, vec![]))),
            (Method::GET, 600, &[], Err(Cause::Malformed)),
        ] {
            assert_eq!(judge(&method, status, lines), expected, "{method} {status} {lines:?}");
        }
    }
}
