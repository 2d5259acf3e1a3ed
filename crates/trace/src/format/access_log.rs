//! Access logs: Squid's native format, and NCSA common with what is built on it.

use crate::record::Record;
use crate::scan::{Reason, bytes, common_time, status, time};

/// `1066036250.603 310 192.0.2.30 TCP_MISS/200 1234 GET http://example.org/ - DIRECT/192.0.2.1 text/html`
pub(super) fn squid(line: &str) -> Result<Record<'_>, Reason> {
    let mut fields = line.split_ascii_whitespace();
    let mut field = || fields.next().ok_or("a native log line has seven fields at least");
    let (when, elapsed, client, result) = (field()?, field()?, field()?, field()?);
    let (size, method, url) = (field()?, field()?, field()?);
    let (_, code) = result.split_once('/').ok_or("the fourth field is not like TCP_MISS/200")?;
    // A clock set back makes it negative.
    elapsed.parse::<i64>().map_err(|_| "the elapsed time is not a number")?;
    Ok(Record {
        time_ms: time(when, 1)?,
        client: Some(client.into()),
        method: Some(method.into()),
        status: status(code)?,
        url: url.into(),
        bytes: bytes(size)?,
    })
}

/// `192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326 …`
///
/// What follows the size (referrer, agent, `$upstream_cache_status`) is not read.
pub(super) fn common(line: &str) -> Result<Record<'_>, Reason> {
    let (client, rest) = line.split_once(' ').ok_or("there is no client")?;
    let (_, rest) = rest.split_once('[').ok_or("there is no [time]")?;
    let (when, rest) = rest.split_once("] \"").ok_or("there is no [time] before a quoted request")?;
    let end = closing_quote(rest).ok_or("the quoted request does not end")?;
    let (method, url) = request_line(&rest[..end])?;
    let mut fields = rest[end + 1..].split_ascii_whitespace();
    let mut field = || fields.next().ok_or("status or size is missing");
    Ok(Record {
        time_ms: Some(common_time(when)?),
        client: Some(client.into()),
        method: Some(method.into()),
        status: status(field()?)?,
        url: url.into(),
        bytes: bytes(field()?)?,
    })
}

/// Where the quote closes: one that no backslash escapes.
fn closing_quote(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })
}

/// Method and target of `GET /a HTTP/1.1`. Targets with spaces were sent by careless clients and are kept whole.
fn request_line(request: &str) -> Result<(&str, &str), Reason> {
    let (method, rest) = request.split_once(' ').ok_or("the request has no target")?;
    let target = match rest.rsplit_once(' ') {
        Some((target, version)) if version.starts_with("HTTP/") => target,
        _ => rest,
    };
    let is_method =
        !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    match (is_method, target.trim()) {
        (false, _) => Err("the request has no method"),
        (_, "") => Err("the request has no target"),
        (true, target) => Ok((method, target)),
    }
}
