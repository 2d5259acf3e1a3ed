//! The three formats of the access log, each one function from a record to a line.

use super::{date, escape};
use crate::message::{Outcome, Record};
use http::HeaderValue;
use serde::Serialize;
use shoal_settings::LogFormat;
use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;
use std::time::Duration;

/// Appends the line of `record`, its newline included.
pub(super) fn append(format: LogFormat, record: &Record, line: &mut Vec<u8>) {
    match format {
        LogFormat::Squid => squid(record, line),
        LogFormat::Combined => combined(record, line),
        LogFormat::Json => json(record, line),
    }
    line.push(b'\n');
}

/// Squid's native format:
/// `%ts.%03tu %6tr %>a %Ss/%03>Hs %<st %rm %ru %un %Sh/%<a %mt`
///
/// Its time is the moment when the request was finished; its size counts head and body.
fn squid(record: &Record, line: &mut Vec<u8>) {
    let finished = record.time.plus(Duration::from_micros(record.duration_us));
    let elapsed_ms = record.duration_us / 1000;
    write(line, format_args!("{}.{:03} {elapsed_ms:6} ", finished.seconds(), finished.millis() % 1000));
    client(record, line);
    let (code, aborted) = (result_code(record.outcome), if record.aborted { "_ABORTED" } else { "" });
    let bytes = record.head_bytes.saturating_add(record.body_bytes);
    // Squid says 000 where nothing was answered
    let status = if record.outcome == Outcome::Abandoned { 0 } else { record.status };
    write(line, format_args!(" {code}{aborted}/{status:03} {bytes} "));
    escape::blank_parted(line, method(record));
    line.push(b' ');
    escape::blank_parted(line, &record.url);
    line.push(b' ');
    escape::blank_parted(line, record.user.as_deref().unwrap_or_default());
    line.push(b' ');
    hierarchy(record, line);
    line.push(b' ');
    escape::blank_parted(line, media_type(&text(&record.content_type)));
}

/// The code of Squid's log that log analysers know.
fn result_code(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::None | Outcome::Abandoned => "NONE_NONE",
        Outcome::MemoryHit => "TCP_MEM_HIT",
        Outcome::Hit => "TCP_HIT",
        Outcome::Miss | Outcome::Pass => "TCP_MISS",
        // CF: collapsed forwarding
        Outcome::Collapsed => "TCP_CF_HIT",
        Outcome::RefreshUnmodified => "TCP_REFRESH_UNMODIFIED",
        Outcome::RefreshModified => "TCP_REFRESH_MODIFIED",
        Outcome::StaleWhileRevalidate => "TCP_STALE_HIT",
        // the validation failed and the old response was served
        Outcome::StaleIfError => "TCP_REFRESH_FAIL_OLD",
        Outcome::Tunnel => "TCP_TUNNEL",
        Outcome::Denied => "TCP_DENIED",
    }
}

/// `CODE/host`: how the origin was reached. A record may name the code itself.
fn hierarchy(record: &Record, line: &mut Vec<u8>) {
    let Some(upstream) = &record.upstream else {
        return line.extend_from_slice(b"HIER_NONE/-");
    };
    let (host, port) = upstream.rsplit_once(':').unwrap_or((upstream, ""));
    // Squid logs the host alone; a colon may also belong to a bare IPv6 address
    let has_port =
        port.bytes().all(|byte| byte.is_ascii_digit()) && (!host.contains(':') || host.ends_with(']'));
    let host = if has_port { host } else { upstream };
    let names_code = upstream.split_once('/').is_some_and(|(code, _)| {
        !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    });
    if !names_code {
        line.extend_from_slice(b"HIER_DIRECT/");
    }
    escape::blank_parted(line, host);
}

/// NCSA combined, with the Cache-Status value appended:
/// `client - user [time] "request line" status bytes "referer" "user agent" "cache status"`
fn combined(record: &Record, line: &mut Vec<u8>) {
    client(record, line);
    line.extend_from_slice(b" - ");
    escape::blank_parted(line, record.user.as_deref().unwrap_or_default());
    write(line, format_args!(" [{}] \"", date::ncsa(record.time)));
    escape::inside_quotes(line, method(record));
    line.push(b' ');
    escape::inside_quotes(line, &record.url);
    let version = if record.version.is_empty() { "-" } else { record.version };
    write(line, format_args!(" HTTP/{version}\" {} {} ", record.status, record.body_bytes));
    escape::quoted(line, &text(&record.referer));
    line.push(b' ');
    escape::quoted(line, &text(&record.user_agent));
    line.push(b' ');
    escape::quoted(line, &String::from_utf8_lossy(&record.cache_status));
}

/// A line of the JSON format. Absent fields are left out.
#[derive(Serialize)]
struct JsonLine<'a> {
    time: String,
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

fn json(record: &Record, line: &mut Vec<u8>) {
    fn some(text: &str) -> Option<&str> {
        Some(escape::clipped(text)).filter(|text| !text.is_empty())
    }
    let (referer, user_agent) = (text(&record.referer), text(&record.user_agent));
    let content_type = text(&record.content_type);
    let cache_status = String::from_utf8_lossy(&record.cache_status);
    let values = JsonLine {
        time: date::rfc3339(record.time),
        duration_us: record.duration_us,
        client: record.client.map(|client| client.ip().to_canonical()),
        client_port: record.client.map(|client| client.port()),
        user: record.user.as_deref().and_then(some),
        method: escape::clipped(method(record)),
        url: escape::clipped(&record.url),
        version: record.version,
        status: record.status,
        head_bytes: record.head_bytes,
        body_bytes: record.body_bytes,
        aborted: record.aborted,
        outcome: outcome_name(record.outcome),
        upstream: record.upstream.as_deref().and_then(some),
        referer: some(&referer),
        user_agent: some(&user_agent),
        content_type: some(&content_type),
        cache_status: escape::clipped(&cache_status),
    };
    serde_json::to_writer(line, &values).expect("strings and numbers, written to memory");
}

/// The outcome in our own words, as the metrics label it.
fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::None => "none",
        Outcome::MemoryHit => "memory_hit",
        Outcome::Hit => "hit",
        Outcome::Miss => "miss",
        Outcome::Collapsed => "collapsed",
        Outcome::RefreshUnmodified => "refresh_unmodified",
        Outcome::RefreshModified => "refresh_modified",
        Outcome::StaleWhileRevalidate => "stale_while_revalidate",
        Outcome::StaleIfError => "stale_if_error",
        Outcome::Pass => "pass",
        Outcome::Tunnel => "tunnel",
        Outcome::Denied => "denied",
        Outcome::Abandoned => "abandoned",
    }
}

/// The client's address alone; IPv4 as such when the socket is IPv6.
fn client(record: &Record, line: &mut Vec<u8>) {
    match record.client {
        Some(client) => write(line, format_args!("{}", client.ip().to_canonical())),
        None => line.push(b'-'),
    }
}

/// The content type without its parameters.
fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

/// The method, or what stands for one that could not be made out.
fn method(record: &Record) -> &str {
    record.method.as_ref().map_or("NONE", |method| method.as_str())
}

/// A field's value as text; what is not UTF-8 is replaced.
fn text(value: &Option<HeaderValue>) -> Cow<'_, str> {
    value.as_ref().map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(value.as_bytes()))
}

fn write(line: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("memory takes every write");
}
