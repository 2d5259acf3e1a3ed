//! Report of the cache's handling of a request, for Cache-Status (RFC 9211), Proxy-Status (RFC
//! 9209) and the log.

use super::fetch::FetchFailure;
use super::request::RequestContext;
use super::settings::ExchangeSettings;
use crate::clock;
use crate::message::{AccessRecord, CacheResult, Client, NextHop};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};
use shoal_core::Timestamp;
use shoal_semantics::status_fields::{
    CACHE_STATUS, CacheStatus, ForwardFacts, ForwardReason, HandlingWay, PROXY_STATUS, ProxyError,
    ProxyStatus, Reason,
};
use shoal_semantics::{Coding, NextHopFieldsBuilder};
use std::net::SocketAddr;
use std::sync::Arc;

/// Report about one request.
#[derive(Clone, Debug)]
pub struct HandlingReport {
    outcome: CacheResult,
    forwarded: Option<ForwardReason>,
    forward_status: Option<StatusCode>,
    stored: bool,
    collapsed: bool,
    ttl_seconds: Option<i64>,
    detail: Option<Reason>,
    proxy_error: Option<ProxyError>,
    setting: Option<&'static str>,
    upstream: Option<NextHop>,
    coding: Option<Coding>,
}

impl HandlingReport {
    /// Reports an answer from the cache.
    pub fn hit(outcome: CacheResult, ttl_seconds: i64) -> Self {
        Self { outcome, ttl_seconds: Some(ttl_seconds), ..Self::none() }
    }

    /// Reports a request forwarded towards the origin.
    pub fn forwarded(why: ForwardReason) -> Self {
        Self { outcome: CacheResult::Miss, forwarded: Some(why), ..Self::none() }
    }

    /// Reports an answer by the proxy itself; neither a hit nor forwarded.
    pub fn local(detail: Reason) -> Self {
        Self { detail: Some(detail), ..Self::none() }
    }

    fn none() -> Self {
        Self {
            outcome: CacheResult::None,
            forwarded: None,
            forward_status: None,
            stored: false,
            collapsed: false,
            ttl_seconds: None,
            detail: None,
            proxy_error: None,
            setting: None,
            upstream: None,
            coding: None,
        }
    }

    /// Sets the outcome for log and metrics.
    pub fn outcome(self, outcome: CacheResult) -> Self {
        Self { outcome, ..self }
    }

    /// Sets the status of the origin's answer (`fwd-status`).
    pub fn forward_status(self, status: StatusCode) -> Self {
        Self { forward_status: Some(status), ..self }
    }

    /// Sets whether the response is being stored.
    pub fn stored(self, stored: bool) -> Self {
        Self { stored, ..self }
    }

    /// Marks the request as sharing another's fetch.
    pub fn collapsed(self) -> Self {
        Self { collapsed: true, ..self }
    }

    /// Sets the remaining freshness in seconds, negative if stale.
    pub fn ttl(self, ttl_seconds: i64) -> Self {
        Self { ttl_seconds: Some(ttl_seconds), ..self }
    }

    /// Sets the reason.
    pub fn detail(self, detail: Reason) -> Self {
        Self { detail: Some(detail), ..self }
    }

    /// Sets the coding of the body, if this node coded it.
    pub fn coding(self, coding: Option<Coding>) -> Self {
        Self { coding, ..self }
    }

    /// Sets the server that answered.
    pub fn upstream(self, peer: SocketAddr) -> Self {
        Self { upstream: Some(NextHop::Address(peer)), ..self }
    }

    /// Sets the failure of the fetch.
    pub fn failure(self, failure: &FetchFailure) -> Self {
        let outcome = if failure.denied { CacheResult::Denied } else { self.outcome };
        let detail = if failure.denied { Some(Reason::Denied) } else { self.detail };
        let upstream = (!failure.denied).then(|| NextHop::Name(failure.upstream.clone()));
        let (proxy_error, setting) = (Some(failure.proxy_error), failure.setting);
        Self { outcome, detail, proxy_error, setting, upstream, ..self }
    }

    /// Sets the RFC 9209 error type of the proxy's own answer.
    pub fn error(self, proxy_error: ProxyError) -> Self {
        Self { proxy_error: Some(proxy_error), ..self }
    }

    /// Sets the setting that refuses the request, for the `details` of Proxy-Status.
    pub fn setting(self, setting: Option<&'static str>) -> Self {
        Self { setting, ..self }
    }

    /// Returns the Cache-Status member of this node.
    pub fn cache_status(&self, live: &ExchangeSettings) -> Bytes {
        self.cache_member(live).to_bytes()
    }

    fn cache_member<'a>(&self, live: &'a ExchangeSettings) -> CacheStatus<'a> {
        let handling = match self.forwarded {
            None if self.outcome.is_hit() => HandlingWay::Hit,
            None => HandlingWay::Generated,
            Some(reason) => HandlingWay::Forwarded(ForwardFacts {
                reason,
                status: self.forward_status,
                stored: self.stored,
                collapsed: self.collapsed,
            }),
        };
        CacheStatus {
            cache: &live.name,
            handling,
            ttl: self.ttl_seconds,
            key: None,
            detail: self.detail.map(Reason::as_str),
            coding: self.coding,
        }
    }

    /// Returns the Proxy-Status member of this node.
    pub fn proxy_status(&self, live: &ExchangeSettings) -> HeaderValue {
        if self.proxy_error.is_none() && self.forward_status.is_none() {
            return live.own_proxy_status.clone();
        }
        let member = self.proxy_member(live).to_bytes();
        HeaderValue::from_maybe_shared(member).unwrap_or_else(|_| live.own_proxy_status.clone())
    }

    fn proxy_member<'a>(&self, live: &'a ExchangeSettings) -> ProxyStatus<'a> {
        let received_status = self.forward_status.filter(|_| self.proxy_error.is_none());
        ProxyStatus {
            proxy: &live.name,
            error: self.proxy_error,
            received_status,
            details: self.setting,
            ..ProxyStatus::default()
        }
    }

    /// Appends both fields, after the members of nodes nearer to the origin. Returns the
    /// Cache-Status member.
    pub fn add_to(&self, fields: &mut HeaderMap, live: &ExchangeSettings) -> Bytes {
        self.proxy_member(live).append_to(fields);
        self.cache_member(live).append_to(fields)
    }

    /// Adds both fields to the lines of a reply, which must not contain them yet. Returns the
    /// Cache-Status member.
    pub fn join(&self, onward: &mut NextHopFieldsBuilder<'_>, live: &ExchangeSettings) -> Bytes {
        onward.member(&PROXY_STATUS, |out| self.proxy_member(live).write(out));
        Bytes::copy_from_slice(onward.member(&CACHE_STATUS, |out| self.cache_member(live).write(out)))
    }

    /// Builds the access log's record of an answer given before the request was parsed.
    pub fn early_record(
        &self,
        cache_status: Bytes,
        client: &Client,
        status: StatusCode,
        now: Timestamp,
    ) -> Box<AccessRecord> {
        Box::new(AccessRecord {
            time: clock::date_at(now),
            client: Some(client.address),
            status: status.as_u16(),
            outcome: self.outcome,
            cache_status,
            failed: self.is_failure(),
            ..AccessRecord::default()
        })
    }

    /// Returns `true` if the answer is the proxy's own, since no origin gave a usable response.
    fn is_failure(&self) -> bool {
        let is_own = matches!(self.outcome, CacheResult::Miss | CacheResult::Pass | CacheResult::None);
        is_own && self.proxy_error.is_some() && self.upstream.is_some()
    }

    /// Builds the access log's record of an answer with this status.
    pub fn record(
        &self,
        ask: &RequestContext,
        cache_status: Bytes,
        status: StatusCode,
        content_type: Option<HeaderValue>,
    ) -> Box<AccessRecord> {
        Box::new(AccessRecord {
            time: clock::date_at(ask.requested),
            client: Some(ask.client.address),
            user: ask.user.clone(),
            method: Some(ask.method.clone()),
            url: Arc::clone(ask.ruling.asked_url.as_ref().unwrap_or(&ask.target.url)),
            version: version(ask.version),
            status: status.as_u16(),
            outcome: self.outcome,
            upstream: self.upstream.clone(),
            referer: ask.fields.shared_value(&header::REFERER),
            user_agent: ask.fields.shared_value(&header::USER_AGENT),
            content_type,
            cache_status,
            coding: self.coding.map_or("", Coding::name),
            failed: self.is_failure(),
            site: Some(Arc::clone(ask.meter())),
            key: Some(ask.primary.hash()),
            is_stored: self.stored,
            is_for_peer: ask.is_for_peer,
            trace: ask.trace.as_ref().map(Arc::clone),
            ..AccessRecord::default()
        })
    }
}

/// Returns the version as the access log spells it.
pub fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    }
}
