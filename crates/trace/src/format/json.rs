//! JSON, one object a line: our own access log, Caddy's, and others with the same names.
//!
//! Unused fields are skipped without being built. Caddy keeps the client's fields in an object of
//! its own, `request`. Our log has all fields on one level.

use crate::outcome::{Outcome, OutcomeWords, cache_control, said};
use crate::record::Record;
use crate::scan::{Reason, bytes, status, time, timestamp};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Parses one line.
pub(super) fn parse(line: &str) -> Result<Record<'_>, Reason> {
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let fields = deserializer.deserialize_any(FieldsVisitor).map_err(|_| "this is no JSON object")?;
    deserializer.end().map_err(|_| "something follows the JSON object")?;
    fields.record()
}

/// Fields that a record needs.
#[derive(Default)]
struct RecordFields<'a> {
    time: Scalar<'a>,
    client: Scalar<'a>,
    method: Scalar<'a>,
    status: Scalar<'a>,
    url: Scalar<'a>,
    scheme: Scalar<'a>,
    host: Scalar<'a>,
    bytes: Scalar<'a>,
    /// Name of the outcome, as in our own log.
    outcome: Scalar<'a>,
    cache_status: Scalar<'a>,
    /// Cache-Control of the response.
    cache_control: Scalar<'a>,
    has_tls: bool,
    request: Option<Box<RecordFields<'a>>>,
    /// Fields of the response, in Caddy's log.
    response: Option<Box<RecordFields<'a>>>,
}

/// One value. A list counts as its first value, an object as `Nothing`.
#[derive(Default)]
enum Scalar<'a> {
    #[default]
    Nothing,
    Whole(u64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl<'a> RecordFields<'a> {
    fn record(mut self) -> Result<Record<'a>, Reason> {
        if let Some(request) = self.request.take() {
            self.client = self.client.or(request.client);
            self.method = self.method.or(request.method);
            self.url = self.url.or(request.url);
            self.host = self.host.or(request.host);
            self.has_tls |= request.has_tls;
        }
        if let Some(response) = self.response.take() {
            self.cache_status = self.cache_status.or(response.cache_status);
            self.cache_control = self.cache_control.or(response.cache_control);
        }
        let mut record = Record {
            time_ms: self.time.millis()?,
            client: self.client.text(),
            method: self.method.text(),
            status: self.status.text().map_or(Ok(None), |text| status(&text))?,
            url: url(self.url.text(), self.scheme.text(), self.host.text(), self.has_tls)?,
            bytes: self.bytes.text().map_or(Ok(None), |text| bytes(&text))?,
            ..Record::default()
        };
        let (outcome, status, control) =
            (self.outcome.text(), self.cache_status.text(), self.cache_control.text());
        (record.outcome, record.ttl_seconds) =
            handling(outcome.as_deref(), status.as_deref(), control.as_deref());
        Ok(record)
    }

    fn set(&mut self, name: &str) -> Option<&mut Scalar<'a>> {
        Some(match name {
            "time" | "ts" | "timestamp" | "time_iso8601" | "msec" | "@timestamp" => &mut self.time,
            "client" | "remote_ip" | "client_ip" | "remote_addr" | "clientip" => &mut self.client,
            "method" | "request_method" => &mut self.method,
            "status" | "status_code" => &mut self.status,
            "url" | "uri" | "request_uri" => &mut self.url,
            "scheme" => &mut self.scheme,
            "host" | "http_host" | "vhost" => &mut self.host,
            "body_bytes" | "bytes" | "size" | "body_bytes_sent" | "bytes_sent" => &mut self.bytes,
            "outcome" => &mut self.outcome,
            "upstream_cache_status" | "cache_status" | "cache" | "x_cache" | "Cache-Status" => {
                &mut self.cache_status
            }
            "cache_control" | "sent_http_cache_control" | "upstream_http_cache_control" | "Cache-Control" => {
                &mut self.cache_control
            }
            _ => return None,
        })
    }
}

/// Returns the outcome and the lifetime that three fields tell. The outcome tells hits best, and
/// Cache-Status the reasons of misses. Cache-Control of the response tells its lifetime.
fn handling(
    outcome: Option<&str>,
    status: Option<&str>,
    control: Option<&str>,
) -> (Option<Outcome>, Option<i64>) {
    let (named, status) = (outcome.and_then(said), status.and_then(said));
    let (lifetime, forbidden) = control.map_or((None, None), cache_control);
    let ttl_seconds = status.and_then(|status| status.ttl_seconds).or(lifetime);
    let hit = [named, status].into_iter().flatten().find(|said| said.outcome.is_hit());
    let outcome = match (hit, status.or(named), forbidden) {
        (Some(hit), ..) => Some(hit.outcome),
        (None, Some(OutcomeWords { outcome: Outcome::Miss, .. }) | None, Some(forbidden)) => Some(forbidden),
        (None, said, _) => said.map(|said| said.outcome),
    };
    (outcome, ttl_seconds)
}

/// Returns a whole URL as it is. Joins scheme, host and path to a URL if `url` is a path.
fn url<'a>(
    url: Option<Cow<'a, str>>,
    scheme: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
    has_tls: bool,
) -> Result<Cow<'a, str>, Reason> {
    let url = url.filter(|url| !url.is_empty()).ok_or("the object has no name")?;
    match host {
        Some(host) if url.starts_with('/') && !host.is_empty() => {
            let scheme = scheme.as_deref().unwrap_or(if has_tls { "https" } else { "http" });
            Ok(format!("{scheme}://{host}{url}").into())
        }
        _ => Ok(url),
    }
}

impl<'a> Scalar<'a> {
    fn or(self, other: Self) -> Self {
        if matches!(self, Self::Nothing) { other } else { self }
    }

    fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Nothing => None,
            Self::Whole(number) => Some(number.to_string().into()),
            Self::Real(number) => Some(number.to_string().into()),
            Self::Text(text) => Some(text),
        }
    }

    /// Parses a time: seconds since 1970, or RFC 3339.
    fn millis(self) -> Result<Option<u64>, Reason> {
        match self {
            Self::Nothing => Ok(None),
            Self::Whole(seconds) => time(&seconds.to_string(), 1),
            Self::Real(seconds) if (0.0..1e12).contains(&seconds) => {
                time(&format!("{}", (seconds * 1000.0).round() as u64), 1000)
            }
            Self::Real(_) => Err("the time is absurd"),
            Self::Text(text) if text.contains('T') => timestamp(&text).map(Some),
            Self::Text(text) => time(&text, 1),
        }
    }
}

struct FieldsVisitor;

impl<'a> Visitor<'a> for FieldsVisitor {
    type Value = RecordFields<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<RecordFields<'a>, M::Error> {
        let mut fields = RecordFields::default();
        while let Some(name) = map.next_key_seed(Value)? {
            let Scalar::Text(name) = name else { continue };
            if name == "request" {
                fields.request = map.next_value_seed(NestedSeed)?.map(Box::new);
            } else if name == "resp_headers" {
                fields.response = map.next_value_seed(NestedSeed)?.map(Box::new);
            } else if name == "tls" {
                fields.has_tls = true;
                map.next_value::<IgnoredAny>()?;
            } else if let Some(field) = fields.set(&name) {
                // Among several names for one field, the first counts.
                let value = map.next_value_seed(Value)?;
                let before = std::mem::take(field);
                *field = before.or(value);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(fields)
    }
}

/// Seed that reads an object as [`RecordFields`] and skips any other value.
struct NestedSeed;

impl<'a> DeserializeSeed<'a> for NestedSeed {
    type Value = Option<RecordFields<'a>>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for NestedSeed {
    type Value = Option<RecordFields<'a>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, map: M) -> Result<Self::Value, M::Error> {
        FieldsVisitor.visit_map(map).map(Some)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Seed that reads any value as a [`Scalar`].
struct Value;

impl<'a> DeserializeSeed<'a> for Value {
    type Value = Scalar<'a>;

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<Scalar<'a>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Value {
    type Value = Scalar<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'a str) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Text(text.into()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Text(text.to_owned().into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Real(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Real(number))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_unit<E>(self) -> Result<Scalar<'a>, E> {
        Ok(Scalar::Nothing)
    }

    fn visit_seq<S: SeqAccess<'a>>(self, mut list: S) -> Result<Scalar<'a>, S::Error> {
        let first = list.next_element_seed(Value)?.unwrap_or_default();
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(first)
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<Scalar<'a>, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Nothing)
    }
}
