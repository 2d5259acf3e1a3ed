//! The fast path: a plain request with a fresh response in RAM, answered in place.
//!
//! The decisions equal those of [`CacheEngine::admit`] and the steps after it. The path covers the
//! most frequent cases, which need nothing but a lookup. There is no field map, no
//! [`super::request::RequestContext`], and no wait. Every other request takes the ordinary path,
//! with a new lookup. Tests compare the answers of both paths byte by byte.

use super::cache::Cache;
use super::{
    CacheEngine,
    admission::{AdmissionView, Grant, told_by},
    body::{BodySegment, SegmentedBody},
    handling_report::version,
    hybrid_cache::{CachedBody, HybridCache, MemoryEntry},
    metadata::{ObjectMetadata as Stored, ResponseMetadata, VaryMarker},
    mirrored::ShortcutSearch,
    settings::{ExchangeSettings, ReloadableState},
    target::FORWARD,
    variant::push_plain,
};
use crate::access::ListenerRules;
use crate::access_log::LogEntry;
use crate::by_site::SiteMeter;
use crate::clock;
use crate::message::{
    AccessRecord, CacheResult, Client, FastPathOutcome, Hold, Keeper, RamHit, ReplyBody, ReplyForm,
    SendProgress,
};
use crate::per_core::place;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use shoal_core::{Key, Timestamp};
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::range::only_range;
use shoal_semantics::reuse::{self, Reuse};
use shoal_semantics::validation::{self, Condition};
use shoal_settings::Mode;
use shoal_wire::response::is_bodiless;
use shoal_wire::{FastPathRequest, push_decimal};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

impl CacheEngine {
    /// Answers `plain` through `send` if its response is in RAM and fresh.
    pub(super) fn try_fast_path(
        &self,
        plain: &FastPathRequest<'_>,
        client: &Client,
        received: Instant,
        send: impl FnOnce(&RamHit<'_>) -> SendProgress,
    ) -> FastPathOutcome {
        if client.intercepted.is_some() {
            return FastPathOutcome::NotTaken;
        }
        let in_force = self.in_force.load();
        let ReloadableState { live, log } = &**in_force;
        let now = clock::time_at(received);
        let Some(listener) = live.listeners.get(client.listener) else { return FastPathOutcome::NotTaken };
        let told = told_by(listener, client, |heard| plain.each_field(|name, value| heard.note(name, value)));
        if told.as_ref().is_some_and(|told| told.way.tells_more) {
            return FastPathOutcome::NotTaken;
        }
        let client = told.as_ref().map_or(client, |told| &told.client);
        // A client's own trace is joined on the ordinary path, and a redirect to https made there.
        let is_traced = log.traces().is_some() && has_trace(plain);
        if is_traced || listener.redirect_https.is_some() && !client.tls {
            return FastPathOutcome::NotTaken;
        }
        URL.with_borrow_mut(|url| {
            let Some(found) = self.find_fresh((live, listener), plain, client, url, now) else {
                return FastPathOutcome::NotTaken;
            };
            let Some((found, own)) = self.coder.choose(live, plain, found, now) else {
                return FastPathOutcome::NotTaken;
            };
            let FreshHit { resident, source, meter, key, .. } = found;
            let Stored::Response(head) = &resident.record else { return FastPathOutcome::NotTaken };
            let Some(form) = form(plain, head, &resident.body, now) else { return FastPathOutcome::NotTaken };
            if live.rule_set.limits_rates() && !live.counts_plain(plain, listener.mode, client, received) {
                return FastPathOutcome::NotTaken;
            }
            let policy = source.as_ref().map_or(&head.policy, |source| &source.policy);
            let age_seconds = policy.age_seconds(now);
            let ttl_seconds = policy.time_to_live(now).unsigned_abs();
            let stored = (&*head.stored, &resident.body);
            let keeper = HitKeeper { objects: &self.cache.objects, resident: &resident };
            let hit = RamHit::new(stored, form, (age_seconds, ttl_seconds), (own, &keeper));
            let sent = send(&hit);
            let object = (key, &**url, resident.body.len());
            if !log.is_on() {
                self.count_hit(&hit, sent, (meter, object), received);
                return if matches!(sent, SendProgress::Partly) {
                    FastPathOutcome::Sending(None)
                } else {
                    FastPathOutcome::Sent
                };
            }
            let SendProgress::Whole { head_bytes } = sent else {
                let record = record((plain, client), (url, meter, key), now, &hit);
                return FastPathOutcome::Sending(Some(record));
            };
            self.count_hit(&hit, sent, (meter, object), received);
            let duration_us = received.elapsed().as_micros() as u64;
            let entry = LogEntry {
                site: meter.label(),
                ..entry((plain, client), (url, &hit), (now, duration_us), head_bytes)
            };
            match log.tells_cache_status() {
                true => with_cache_status(&hit, |cache_status| log.log(&LogEntry { cache_status, ..entry })),
                false => log.log(&entry),
            }
            FastPathOutcome::Sent
        })
    }

    /// Counts a hit for the node and for its site, and notes its object: the key, the URL and the
    /// body's length.
    #[inline(always)]
    fn count_hit(
        &self,
        hit: &RamHit<'_>,
        sent: SendProgress,
        (meter, (key, url, body_bytes)): (&SiteMeter, (Key, &[u8], usize)),
        received: Instant,
    ) {
        self.prefetcher.note_hit(key);
        let place = place();
        hit.count(&self.metrics, place, sent);
        self.metrics.samples.hit(place, key, body_bytes);
        if meter.hit_memory(place, hit.content.len(), received) {
            self.metrics.samples.hit_object(key, url, meter.label(), body_bytes);
        }
    }

    /// Returns the fresh response in RAM if this client may have it. `url` becomes the effective
    /// URI.
    fn find_fresh<'l>(
        &self,
        (live, listener): (&'l ExchangeSettings, &ListenerRules),
        plain: &FastPathRequest<'_>,
        client: &Client,
        url: &mut Vec<u8>,
        now: Timestamp,
    ) -> Option<FreshHit<'l>> {
        let mode = listener.mode;
        if plain.absolute != (mode == Mode::Forward) {
            return None;
        }
        let host = write_url(url, plain, mode == Mode::Reverse && client.tls);
        let url_bytes = url.len();
        if mode == Mode::Forward {
            url.extend_from_slice(FORWARD);
        }
        let key = Key::of(url);
        let Some(mut resident) = self.cache.objects.memory_entry_by_key(key, url) else {
            let may_be_mirrored = !live.mirrors.is_empty() && mode == Mode::Reverse;
            let search = ShortcutSearch { engine: self, live: (live, listener), plain, client };
            return may_be_mirrored.then(|| search.find(url, host, now)).flatten();
        };
        if live.rule_set.changes_requests() {
            let may_change = || {
                let is_variant = matches!(resident.record, Stored::Vary(_));
                live.may_change(mode, &url[host.clone()], plain.path_text(), is_variant)
            };
            if resident.judgement.of(live.rules_number, may_change) {
                return None;
            }
        }
        if let Stored::Vary(note) = &resident.record {
            let told = (mode == Mode::Reverse).then_some(client);
            resident = self.cache.find_variant(note, plain, url, told)?;
        }
        url.truncate(url_bytes);
        let host = &url[host];
        let Stored::Response(head) = &resident.record else { return None };
        let port = plain.authority.port.unwrap_or(80);
        let wanted = AdmissionView::Url { host, port, path: plain.path };
        let admitted = live.admit_by(listener, client, None, wanted);
        let Ok(Grant { site, .. }) = &admitted else { return None };
        let is_usable = self.cache.is_usable((live, mode), head, now);
        if !is_usable || self.prefetcher.wants_hit(&live.prefetch, (plain.version, key), now) {
            return None;
        }
        let meter = match site {
            Some(site) => &site.meter,
            None => live.routes.meters().forward(),
        };
        Some(FreshHit { resident, source: None, may_be_coded: mode == Mode::Reverse, meter, key })
    }
}

/// Returns `true` if the client tells a trace.
fn has_trace(plain: &FastPathRequest<'_>) -> bool {
    let mut is_told = false;
    plain.each_field(|name, _| is_told |= name.eq_ignore_ascii_case(b"traceparent"));
    is_told
}

/// Fresh response in RAM.
pub(super) struct FreshHit<'l> {
    /// Object to send.
    pub resident: Arc<MemoryEntry>,
    /// Head of the response from which the object was derived, and which alone is fresh or not.
    pub source: Option<Arc<ResponseMetadata>>,
    /// `true` if clients may get a coded form.
    pub may_be_coded: bool,
    /// Meter of the site.
    pub meter: &'l Arc<SiteMeter>,
    /// Primary key of the object.
    pub key: Key,
}

impl Cache {
    /// Returns `true` if a plain request gets the response with this head, without another look.
    #[inline]
    pub(super) fn is_usable(
        &self,
        (live, mode): (&ExchangeSettings, Mode),
        head: &ResponseMetadata,
        now: Timestamp,
    ) -> bool {
        (mode == Mode::Reverse || live.allowed_address(head))
            && !is_bodiless(head.stored.status())
            // This path does not check for credentials, which a negative response would require.
            && !head.policy.is_negative()
            && head.names.via_site == (mode == Mode::Reverse)
            && !self.purge_table.is_purged(&head.names.slots, &head.names.groups, head.requested)
            && reuse::decide(&head.policy, &RequestDirectives::default(), now) == Reuse::Fresh
    }

    /// Returns the variant in RAM that the request selects, at any age.
    fn find_variant(
        &self,
        note: &VaryMarker,
        plain: &FastPathRequest<'_>,
        url: &[u8],
        told: Option<&Client>,
    ) -> Option<Arc<MemoryEntry>> {
        KEY.with_borrow_mut(|key| {
            key.clear();
            // A request over HTTP/2 may have a large head.
            key.shrink_to(KEY_BYTES_KEPT);
            key.extend_from_slice(url);
            push_plain(key, note, plain, told)?;
            self.objects.memory_entry_by_key(Key::of(key), key)
        })
    }
}

/// Returns the form of the reply, as [`CacheEngine::deliver`] would choose it. Returns `None` for
/// cases that the ordinary path must decide.
fn form(
    plain: &FastPathRequest<'_>,
    head: &ResponseMetadata,
    body: &[u8],
    now: Timestamp,
) -> Option<ReplyForm> {
    let ResponseMetadata { stored, policy, .. } = head;
    if !plain.conditions.is_empty() {
        match validation::evaluate(&plain.conditions, stored.status(), &**stored, policy, clock::date_at(now))
        {
            Condition::NotModified => return Some(ReplyForm::NotModified),
            Condition::Proceed => {}
            Condition::Forward => return None,
        }
    }
    let complete_length = body.len() as u64;
    match plain.range {
        _ if plain.is_head => Some(ReplyForm::Head { length: Some(complete_length) }),
        Some(range) if stored.status() == StatusCode::OK => {
            // The Content-Range of the whole response would have to be left out.
            let range = only_range(range, complete_length).filter(|_| !stored.has_content_range())?;
            Some(ReplyForm::Part { range, complete_length })
        }
        _ => Some(ReplyForm::Whole),
    }
}

/// Keeper of the body of a hit.
pub(super) struct HitKeeper<'a> {
    pub objects: &'a Arc<HybridCache>,
    pub resident: &'a Arc<MemoryEntry>,
}

impl Keeper for HitKeeper<'_> {
    fn keep(&self, place: Range<usize>, sent: usize) -> ReplyBody {
        match self.objects.hold(self.resident) {
            CachedBody::Memory(bytes) => ReplyBody::Memory(bytes.slice(place)),
            CachedBody::Disk(body) => {
                let (offset, length) = ((place.start + sent) as u64, (place.len() - sent) as u64);
                let segment = BodySegment::Stored { body, offset, length };
                let frames = SegmentedBody::new([segment], Arc::clone(self.objects)).boxed();
                ReplyBody::Stream { frames, length: Some(length) }
            }
        }
    }

    fn hold(&self, bytes: usize) -> Option<Hold> {
        self.objects.holds().hold(bytes as u64)
    }
}

/// Writes the effective URI, with which the primary key begins, like [`super::target::Target`].
/// Returns the position of the host.
pub(super) fn write_url(url: &mut Vec<u8>, plain: &FastPathRequest<'_>, https: bool) -> Range<usize> {
    url.clear();
    match https {
        true => url.extend_from_slice(b"https://"),
        false => url.extend_from_slice(b"http://"),
    }
    let start = url.len();
    url.extend_from_slice(plain.authority.host);
    let host = start..url.len();
    url[host.clone()].make_ascii_lowercase();
    let default = if https { 443 } else { 80 };
    if let Some(port) = plain.authority.port.filter(|port| *port != default) {
        url.push(b':');
        match plain.authority.digits {
            [b'0', ..] => push_decimal(url, u64::from(port)),
            // The digits are already in normal form.
            digits => url.extend_from_slice(digits),
        }
    }
    url.extend_from_slice(plain.path);
    host
}

/// Builds the log entry of a hit that was sent whole, without Cache-Status.
#[inline]
fn entry<'a>(
    (plain, client): (&FastPathRequest<'a>, &Client),
    (url, hit): (&'a [u8], &RamHit<'a>),
    (now, duration_us): (Timestamp, u64),
    head_bytes: u64,
) -> LogEntry<'a> {
    LogEntry {
        time: clock::date_at(now),
        duration_us,
        head_bytes,
        client: Some(client.address),
        method: if plain.is_head { "HEAD" } else { "GET" },
        url,
        version: version(plain.version),
        status: hit.status().as_u16(),
        body_bytes: hit.content.len() as u64,
        outcome: CacheResult::MemoryHit,
        referer: plain.referer.unwrap_or_default(),
        user_agent: plain.user_agent.unwrap_or_default(),
        content_type: if hit.form == ReplyForm::NotModified { b"" } else { hit.stored.content_type() },
        coding: hit.own.coding,
        ..LogEntry::default()
    }
}

/// Passes the Cache-Status value of the reply to `taker`.
fn with_cache_status<T>(hit: &RamHit<'_>, taker: impl FnOnce(&[u8]) -> T) -> T {
    STATUS.with_borrow_mut(|cache_status| {
        cache_status.clear();
        cache_status.extend_from_slice(hit.own.cache_status_value());
        push_decimal(cache_status, hit.ttl_seconds);
        taker(cache_status)
    })
}

/// Builds the record of a hit during transmission. The record outlives the request's bytes.
fn record(
    (plain, client): (&FastPathRequest<'_>, &Client),
    (url, meter, key): (&[u8], &Arc<SiteMeter>, Key),
    now: Timestamp,
    hit: &RamHit<'_>,
) -> Box<AccessRecord> {
    let value = |bytes: Option<&[u8]>| bytes.and_then(|bytes| HeaderValue::from_bytes(bytes).ok());
    Box::new(AccessRecord {
        time: clock::date_at(now),
        client: Some(client.address),
        method: Some(if plain.is_head { Method::HEAD } else { Method::GET }),
        url: String::from_utf8_lossy(url).into(),
        version: version(plain.version),
        status: hit.status().as_u16(),
        outcome: CacheResult::MemoryHit,
        referer: value(plain.referer),
        user_agent: value(plain.user_agent),
        content_type: hit.stored.content_type_value().filter(|_| hit.form != ReplyForm::NotModified),
        cache_status: with_cache_status(hit, Bytes::copy_from_slice),
        coding: hit.own.coding,
        site: Some(Arc::clone(meter)),
        key: Some(key),
        ..AccessRecord::default()
    })
}

/// Maximum bytes kept for a variant's key.
const KEY_BYTES_KEPT: usize = 8 << 10;

thread_local! {
    /// Buffer for the effective URI, kept to avoid an allocation.
    static URL: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };

    /// Buffer for a variant's key, kept to avoid an allocation.
    static KEY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };

    /// Buffer for the Cache-Status value in the log.
    static STATUS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}
