//! Access logs: Squid's native format, and NCSA common with the formats built on it.

use crate::outcome::{OutcomeWords, said_unnamed, squid as squid_outcome};
use crate::record::Record;
use crate::scan::{Reason, Words, bytes, common_time, status, time};
use memchr::{memchr, memchr2, memrchr};

/// Parses `1066036250.603 310 192.0.2.30 TCP_MISS/200 1234 GET http://example.org/ -
/// DIRECT/192.0.2.1 text/html`.
pub(super) fn squid(line: &str) -> Result<Record<'_>, Reason> {
    let mut fields = Words::of(line);
    let mut field = || fields.next().ok_or("a native log line has seven fields at least");
    let (when, elapsed, client, result) = (field()?, field()?, field()?, field()?);
    let (size, method, url) = (field()?, field()?, field()?);
    let (code, answer) = result.split_once('/').ok_or("the fourth field is not like TCP_MISS/200")?;
    // A clock that is set back makes the elapsed time negative.
    let digits = elapsed.strip_prefix('-').unwrap_or(elapsed);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("the elapsed time is not a number");
    }
    Ok(Record {
        time_ms: time(when, 1)?,
        client: Some(client.into()),
        method: Some(method.into()),
        status: status(answer)?,
        url: url.into(),
        bytes: bytes(size)?,
        outcome: Some(squid_outcome(code)),
        ttl_seconds: None,
    })
}

/// Parses `192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326 "referrer"
/// "agent" HIT`.
///
/// Apache's `vhost_combined` writes the host and its port first (`www.example.org:443 192.0.2.7 - -
/// [`). Both become part of the URL: equal paths of different hosts are different objects.
///
/// After the size, some field tells how a cache handled the request in logs of nginx
/// (`$upstream_cache_status`), varnishncsa (`%{Varnish:handling}x`) and Shoal (Cache-Status, RFC
/// 9211). Referrer and agent belong to the client and are not looked at unless they come last.
pub(super) fn common(line: &str) -> Result<Record<'_>, Reason> {
    let bytes_of = line.as_bytes();
    let space = memchr(b' ', bytes_of).ok_or("there is no client")?;
    let open = memchr(b'[', &bytes_of[space..]).ok_or("there is no [time]")? + space + 1;
    let close = memchr(b']', &bytes_of[open..]).map(|at| open + at);
    let close = close.filter(|close| bytes_of[*close..].starts_with(b"] \""));
    let close = close.ok_or("there is no [time] before a quoted request")?;
    let request = close + 3;
    let end = request + closing_quote(&bytes_of[request..]).ok_or("the quoted request does not end")?;
    let (method, url) = request_line(&line[request..end])?;
    let (client, url) = match virtual_host(&line[..open - 1]) {
        Some((host, client)) if url.starts_with('/') => (client, absolute(host, url).into()),
        Some((_, client)) => (client, url.into()),
        None => (&line[..space], url.into()),
    };
    let mut fields = Words::of(&line[end + 1..]);
    let mut field = || fields.next().ok_or("status or size is missing");
    let mut record = Record {
        time_ms: Some(common_time(&line[open..close])?),
        client: Some(client.into()),
        method: Some(method.into()),
        status: status(field()?)?,
        url,
        bytes: bytes(field()?)?,
        ..Record::default()
    };
    record.say(handling(fields.rest()));
    Ok(record)
}

/// Returns the words of the fields after the size on the cache. The last field comes first, then
/// the fields behind referrer and agent, of which the last counts.
fn handling(rest: &str) -> Option<OutcomeWords> {
    if let Some(said) = said_unnamed(last_field(rest)) {
        return Some(said);
    }
    let (mut client, mut found) = (0, None);
    for (field, is_quoted) in (QuotedFields { rest }) {
        // `cache=HIT` names its field.
        let value = field.rsplit_once('=').map_or(field, |(_, value)| value.trim_matches('"'));
        match is_quoted && client < 2 {
            true => client += 1,
            false => found = said_unnamed(field).or_else(|| said_unnamed(value)).or(found),
        }
    }
    found
}

/// Fields parted by blanks; quotes enclose a field.
struct QuotedFields<'a> {
    rest: &'a str,
}

impl<'a> Iterator for QuotedFields<'a> {
    /// A field, and `true` for a field in quotes.
    type Item = (&'a str, bool);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.trim_ascii_start();
        if let Some(quoted) = text.strip_prefix('"')
            && let Some(end) = closing_quote(quoted.as_bytes())
        {
            self.rest = &quoted[end + 1..];
            return Some((&quoted[..end], true));
        }
        if text.is_empty() {
            return None;
        }
        let end = memchr(b' ', text.as_bytes()).unwrap_or(text.len());
        self.rest = &text[end..];
        Some((&text[..end], false))
    }
}

/// Returns the host and the client if the words before the time are `host client - user`. Without a
/// host the second word is the `-` of identd, which servers no longer query.
fn virtual_host(before_time: &str) -> Option<(&str, &str)> {
    let (host, rest) = before_time.split_once(' ')?;
    if rest.starts_with("- ") {
        return None;
    }
    let mut words = Words::of(rest);
    let (client, identity, user) = (words.next()?, words.next()?, words.next());
    (identity == "-" && user.is_some()).then_some((host, client))
}

/// Returns the URL of a path on a host. The host may have a port.
fn absolute(host: &str, path: &str) -> String {
    match host.rsplit_once(':') {
        Some((name, "443")) => format!("https://{name}{path}"),
        Some((name, "80")) => format!("http://{name}{path}"),
        _ => format!("http://{host}{path}"),
    }
}

/// Returns the offset of the closing quote: the first quote without a backslash before it.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + memchr2(b'"', b'\\', &text[from..])?;
        if text[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
        if from > text.len() {
            return None;
        }
    }
}

/// Returns the method and the target of `GET /a HTTP/1.1`. Some clients sent targets with spaces;
/// such a target is kept whole.
fn request_line(request: &str) -> Result<(&str, &str), Reason> {
    let bytes = request.as_bytes();
    let space = memchr(b' ', bytes).ok_or("the request has no target")?;
    let (method, rest) = (&request[..space], &request[space + 1..]);
    let target = match memrchr(b' ', rest.as_bytes()) {
        Some(at) if rest[at + 1..].starts_with("HTTP/") => &rest[..at],
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

/// Returns the last field after the size, without its quotes. A quote behind a backslash is part of
/// the field.
fn last_field(rest: &str) -> &str {
    let rest = rest.trim_end();
    let Some(quoted) = rest.strip_suffix('"') else {
        return &rest[memrchr(b' ', rest.as_bytes()).map_or(0, |at| at + 1)..];
    };
    let mut end = quoted.len();
    while let Some(at) = memrchr(b'"', &quoted.as_bytes()[..end]) {
        match quoted.as_bytes()[..at].last() {
            Some(b'\\') => end = at,
            _ => return &quoted[at + 1..],
        }
    }
    quoted
}
