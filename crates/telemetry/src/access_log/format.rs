//! The three formats of the access log, each one function from an entry to a line.

use super::{LogEntry, date, escape};
use crate::ip_text::push_address;
use crate::record::{CacheResult, NextHop};
use serde::Serialize;
use shoal_settings::LogFormat;
use shoal_wire::{push_decimal, push_filled, three_digits};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Appends the line of `entry`, its newline included.
#[inline]
pub(super) fn append(format: LogFormat, entry: &LogEntry<'_>, line: &mut Vec<u8>) {
    match format {
        LogFormat::Squid => squid(entry, line),
        LogFormat::Combined => combined(entry, line),
        LogFormat::Json => json(entry, line),
    }
    line.push(b'\n');
}

/// Appends Squid's native format:
/// `%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %un %Sh/%<a %mt`
///
/// The time is the moment at which the request finished. The size counts head and body.
fn squid(entry: &LogEntry<'_>, line: &mut Vec<u8>) {
    let finished = entry.time.plus(Duration::from_micros(entry.duration_us));
    push_decimal(line, finished.seconds());
    let [hundreds, tens, units] = three_digits(finished.millis());
    line.extend_from_slice(&[b'.', hundreds, tens, units, b' ']);
    push_filled(line, entry.duration_us / 1000, 6, b' ');
    line.push(b' ');
    client(entry, line);
    line.extend_from_slice(result_code(entry.outcome));
    line.extend_from_slice(if entry.aborted { b"_ABORTED/" } else { b"/" });
    // Squid logs 000 for a request without an answer
    let status = if entry.outcome == CacheResult::Abandoned { 0 } else { entry.status };
    let [hundreds, tens, units] = three_digits(status.into());
    line.extend_from_slice(&[hundreds, tens, units, b' ']);
    push_decimal(line, entry.head_bytes.saturating_add(entry.body_bytes));
    match entry.method {
        "GET" => line.extend_from_slice(b" GET "),
        // A method is a token and needs no escape.
        method => [" ", method, " "].iter().for_each(|text| line.extend_from_slice(text.as_bytes())),
    }
    escape::blank_parted(line, entry.url);
    line.push(b' ');
    escape::blank_parted(line, entry.user.as_bytes());
    hierarchy(entry, line);
    line.push(b' ');
    escape::blank_parted(line, media_type(entry.content_type));
}

/// Returns the result code of Squid's log, after a space. Log analysers know these codes.
pub(super) fn result_code(outcome: CacheResult) -> &'static [u8] {
    match outcome {
        CacheResult::None | CacheResult::Abandoned => b" NONE_NONE",
        CacheResult::MemoryHit => b" TCP_MEM_HIT",
        CacheResult::Hit => b" TCP_HIT",
        // Squid calls a sibling's hit a miss, and names the sibling behind it.
        CacheResult::Miss | CacheResult::Pass | CacheResult::PeerHit => b" TCP_MISS",
        // CF: collapsed forwarding
        CacheResult::Collapsed => b" TCP_CF_HIT",
        CacheResult::RefreshUnmodified => b" TCP_REFRESH_UNMODIFIED",
        CacheResult::RefreshModified => b" TCP_REFRESH_MODIFIED",
        CacheResult::StaleWhileRevalidate => b" TCP_STALE_HIT",
        // the validation failed and the old response was served
        CacheResult::StaleIfError => b" TCP_REFRESH_FAIL_OLD",
        CacheResult::Tunnel => b" TCP_TUNNEL",
        CacheResult::Denied => b" TCP_DENIED",
    }
}

/// Appends ` CODE/host`, the route to the origin. An entry may name the code itself.
fn hierarchy(entry: &LogEntry<'_>, line: &mut Vec<u8>) {
    let code: &[u8] = match entry.outcome {
        CacheResult::PeerHit => b" SIBLING_HIT/",
        _ => b" HIER_DIRECT/",
    };
    let upstream = match entry.upstream {
        Some(NextHop::Address(SocketAddr::V4(address))) => {
            line.extend_from_slice(code);
            return push_address(line, (*address.ip()).into());
        }
        Some(other) => &*other.to_text(),
        None => return line.extend_from_slice(b" HIER_NONE/-"),
    };
    if upstream.is_empty() {
        return line.extend_from_slice(b" HIER_NONE/-");
    }
    let (host, port) = upstream.rsplit_once(':').unwrap_or((upstream, ""));
    // Squid logs the host alone; a colon may also belong to a bare IPv6 address
    let has_port =
        port.bytes().all(|byte| byte.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']'));
    let host = if has_port { host } else { upstream };
    let names_code = upstream.split_once('/').is_some_and(|(code, _)| {
        !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    });
    line.extend_from_slice(if names_code { b" " } else { code });
    escape::blank_parted(line, host.as_bytes());
}

/// Appends the NCSA combined format, with the Cache-Status value at the end:
/// `client - user [time] "request line" status bytes "referer" "user agent" "cache status"`
fn combined(entry: &LogEntry<'_>, line: &mut Vec<u8>) {
    client(entry, line);
    line.extend_from_slice(b" - ");
    escape::blank_parted(line, entry.user.as_bytes());
    line.extend_from_slice(b" [");
    date::ncsa(line, entry.time);
    line.extend_from_slice(b"] \"");
    escape::inside_quotes(line, entry.method.as_bytes());
    line.push(b' ');
    escape::inside_quotes(line, entry.url);
    line.extend_from_slice(b" HTTP/");
    line.extend_from_slice(if entry.version.is_empty() { b"-" } else { entry.version.as_bytes() });
    line.extend_from_slice(b"\" ");
    push_decimal(line, u64::from(entry.status));
    line.push(b' ');
    push_decimal(line, entry.body_bytes);
    for text in [entry.referer, entry.user_agent, entry.cache_status] {
        line.push(b' ');
        escape::quoted(line, text);
    }
}

/// A line of the JSON format without its time. Absent fields are left out.
#[derive(Serialize)]
struct JsonLine<'a> {
    duration_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    method: &'a str,
    url: &'a str,
    version: &'a str,
    status: u16,
    head_bytes: u64,
    body_bytes: u64,
    aborted: bool,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    cache_status: &'a str,
}

fn json(entry: &LogEntry<'_>, line: &mut Vec<u8>) {
    fn some(text: &str) -> Option<&str> {
        Some(escape::clipped(text)).filter(|text| !text.is_empty())
    }
    let [url, referer, user_agent, content_type, cache_status] =
        [entry.url, entry.referer, entry.user_agent, entry.content_type, entry.cache_status]
            .map(String::from_utf8_lossy);
    let upstream = entry.upstream.map(NextHop::to_text);
    let values = JsonLine {
        duration_us: entry.duration_us,
        client: entry.client.map(|client| client.ip().to_canonical()),
        // A proxy that reports a client reports no port.
        client_port: entry.client.map(|client| client.port()).filter(|port| *port != 0),
        user: some(entry.user),
        method: escape::clipped(entry.method),
        url: escape::clipped(&url),
        version: entry.version,
        status: entry.status,
        head_bytes: entry.head_bytes,
        body_bytes: entry.body_bytes,
        aborted: entry.aborted,
        outcome: outcome_name(entry.outcome),
        upstream: some(upstream.as_deref().unwrap_or_default()),
        referer: some(&referer),
        user_agent: some(&user_agent),
        content_type: some(&content_type),
        cache_status: escape::clipped(&cache_status),
    };
    line.extend_from_slice(b"{\"time\":\"");
    date::rfc3339(line, entry.time);
    line.push(b'"');
    let rest = line.len();
    serde_json::to_writer(&mut *line, &values).expect("strings and numbers, written to memory");
    escape::escape_invisible(line, rest);
    // The time is written first, without a serializer. The object therefore continues where another
    // would begin.
    line[rest] = b',';
}

/// Returns the outcome's name, equal to its label in the metrics.
pub(crate) fn outcome_name(outcome: CacheResult) -> &'static str {
    match outcome {
        CacheResult::None => "none",
        CacheResult::MemoryHit => "memory_hit",
        CacheResult::Hit => "hit",
        CacheResult::PeerHit => "peer_hit",
        CacheResult::Miss => "miss",
        CacheResult::Collapsed => "collapsed",
        CacheResult::RefreshUnmodified => "refresh_unmodified",
        CacheResult::RefreshModified => "refresh_modified",
        CacheResult::StaleWhileRevalidate => "stale_while_revalidate",
        CacheResult::StaleIfError => "stale_if_error",
        CacheResult::Pass => "pass",
        CacheResult::Tunnel => "tunnel",
        CacheResult::Denied => "denied",
        CacheResult::Abandoned => "abandoned",
    }
}

/// Appends the client's address alone. An IPv4 client of an IPv6 socket appears as IPv4.
fn client(entry: &LogEntry<'_>, line: &mut Vec<u8>) {
    match entry.client.map(|client| client.ip().to_canonical()) {
        Some(address) => push_address(line, address),
        None => line.push(b'-'),
    }
}

/// Returns the content type without its parameters.
fn media_type(content_type: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
    content_type[..end].trim_ascii()
}
