//! Lines of the access log by an operator's template.
//!
//! Each field is escaped by its style, so that no client ends a field or a line. Text of the
//! template itself stands as the operator wrote it.

use super::{LogEntry, date, escape, format};
use crate::ip_text::push_address;
use crate::record::NextHop;
use shoal_settings::{FieldStyle, LogField, LogTemplate, TemplatePart};
use shoal_wire::{push_decimal, three_digits};
use std::time::Duration;

/// Appends the line of `entry` without its newline.
pub(super) fn append(template: &LogTemplate, entry: &LogEntry<'_>, line: &mut Vec<u8>) {
    let mut value = Vec::new();
    for part in &template.parts {
        match part {
            TemplatePart::Text(text) => line.extend_from_slice(text.as_bytes()),
            TemplatePart::Field(field, style) => {
                value.clear();
                push(*field, entry, &mut value);
                styled(line, &value, *style);
            }
        }
    }
}

fn styled(line: &mut Vec<u8>, value: &[u8], style: FieldStyle) {
    match style {
        FieldStyle::Bare => escape::blank_parted(line, value),
        FieldStyle::Quoted => escape::quoted(line, value),
        FieldStyle::Json => {
            let start = line.len();
            let text = String::from_utf8_lossy(value);
            serde_json::to_writer(&mut *line, escape::clipped(&text)).expect("a string, written to memory");
            escape::escape_invisible(line, start);
        }
    }
}

/// Appends a field's bytes as they are.
fn push(field: LogField, entry: &LogEntry<'_>, value: &mut Vec<u8>) {
    match field {
        LogField::Time => date::rfc3339(value, entry.time),
        LogField::TimeNcsa => date::ncsa(value, entry.time),
        LogField::TimeUnix => {
            push_decimal(value, entry.time.seconds());
            let [hundreds, tens, units] = three_digits(entry.time.millis());
            value.extend_from_slice(&[b'.', hundreds, tens, units]);
        }
        LogField::DurationUs => push_decimal(value, entry.duration_us),
        LogField::DurationMs => {
            push_decimal(value, Duration::from_micros(entry.duration_us).as_millis() as u64)
        }
        LogField::Client => {
            if let Some(client) = entry.client {
                push_address(value, client.ip().to_canonical());
            }
        }
        LogField::ClientPort => {
            if let Some(client) = entry.client.filter(|client| client.port() != 0) {
                push_decimal(value, client.port().into());
            }
        }
        LogField::User => value.extend_from_slice(entry.user.as_bytes()),
        LogField::Method => value.extend_from_slice(entry.method.as_bytes()),
        LogField::Url => value.extend_from_slice(entry.url),
        LogField::Version => value.extend_from_slice(entry.version.as_bytes()),
        LogField::Request => {
            let version = if entry.version.is_empty() { "-" } else { entry.version };
            let parts = [entry.method.as_bytes(), b" ", entry.url, b" HTTP/", version.as_bytes()];
            parts.into_iter().for_each(|part| value.extend_from_slice(part));
        }
        LogField::Status => push_decimal(value, entry.status.into()),
        LogField::Bytes => push_decimal(value, entry.head_bytes.saturating_add(entry.body_bytes)),
        LogField::BodyBytes => push_decimal(value, entry.body_bytes),
        LogField::HeadBytes => push_decimal(value, entry.head_bytes),
        LogField::Aborted => value.extend_from_slice(if entry.aborted { b"true" } else { b"false" }),
        LogField::Outcome => value.extend_from_slice(format::outcome_name(entry.outcome).as_bytes()),
        LogField::ResultCode => value.extend_from_slice(format::result_code(entry.outcome).trim_ascii()),
        LogField::Upstream => {
            let upstream = entry.upstream.map(NextHop::to_text).unwrap_or_default();
            value.extend_from_slice(upstream.as_bytes());
        }
        LogField::Referer => value.extend_from_slice(entry.referer),
        LogField::UserAgent => value.extend_from_slice(entry.user_agent),
        LogField::ContentType => value.extend_from_slice(entry.content_type),
        LogField::CacheStatus => value.extend_from_slice(entry.cache_status),
        LogField::Coding => value.extend_from_slice(entry.coding.as_bytes()),
        LogField::Site => value.extend_from_slice(entry.site.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use shoal_core::Timestamp;

    fn line(template: &str, entry: &LogEntry<'_>) -> String {
        let template = LogTemplate::parse(template).expect("a template");
        let mut line = Vec::new();
        append(&template, entry, &mut line);
        String::from_utf8(line).expect("UTF-8")
    }

    fn entry() -> LogEntry<'static> {
        LogEntry {
            time: Timestamp::from_millis(971_186_136_004),
            duration_us: 1_234_567,
            client: Some(([192, 0, 2, 7], 40_000).into()),
            method: "GET",
            url: b"http://example.org/a b",
            version: "1.1",
            status: 200,
            body_bytes: 1000,
            head_bytes: 234,
            user_agent: b"curl/8 \"x\"",
            site: "example.org/",
            ..LogEntry::default()
        }
    }

    #[test]
    fn fields_are_written_by_name() {
        for (template, expected) in [
            ("{time} {time_unix}", "2000-10-10T13:55:36.004Z 971186136.004"),
            ("[{time_ncsa:quoted}]", "[\"10/Oct/2000:13:55:36 +0000\"]"),
            ("{client}:{client_port} {user} {user:quoted}", "192.0.2.7:40000 - \"-\""),
            ("{request:quoted}", "\"GET http://example.org/a b HTTP/1.1\""),
            ("{url} {status} {bytes} {body_bytes}", "http://example.org/a%20b 200 1234 1000"),
            ("{duration_ms} {duration_us}", "1234 1234567"),
            ("{{{user_agent:json}: {status:json}}}", r#"{"curl/8 \"x\"": "200"}"#),
            ("{outcome} {result_code} {aborted} {upstream}", "none NONE_NONE false -"),
            ("{site}\t{version} {method}", "example.org/\t1.1 GET"),
        ] {
            assert_eq!(line(template, &entry()), expected, "{template}");
        }
    }

    proptest! {
        /// Each style keeps a field within a line, for any bytes of a client.
        #[test]
        fn no_client_ends_a_field(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let entry = LogEntry { user_agent: &bytes, url: &bytes, ..entry() };
            let bare = line("{url} {status}", &entry);
            prop_assert_eq!(bare.split(' ').count(), 2);
            let quoted = line("{user_agent:quoted}", &entry);
            prop_assert!(quoted.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
            let json = line("{user_agent:json}", &entry);
            let text: String = serde_json::from_str(&json).expect("a JSON string");
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes).into_owned());
            prop_assert!(!json.contains('\n'));
        }
    }
}
