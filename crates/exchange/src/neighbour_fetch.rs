//! The exchange's part for Squid's neighbours: looks into the cache, the digest, and the way of a
//! fetch over siblings and parents.
//!
//! A request is taken to neighbours only if a response that they hold may answer it: a GET of an
//! http URL, without credentials, conditions, ranges and demands for a validation, that came over
//! few proxies. All others go to the origin.

use super::CacheEngine;
use super::answers;
use super::fetch::{Fetch, UnsharedResponse};
use super::fetcher::Fetcher;
use super::handling_report::HandlingReport;
use super::hybrid_cache::PeekedObject;
use super::metadata::ObjectMetadata;
use super::settings::ExchangeSettings;
use super::target::{FORWARD, Target};
use super::upstream_request::{OutgoingFetch, upstream_request};
use crate::clock;
use crate::message::{Client, Reply, ReplyBody, ReplyHead};
use crate::neighbours::{
    ClearOutcome, LocalObjects, Look, NeighbourCaches, NeighbourWay, PacedBody, SeenObject,
};
use crate::purge::{PurgeOutcome, PurgeRequest};
use crate::upstream::{UpstreamError, UpstreamResponse};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use shoal_core::{Fields, ObjectKey};
use shoal_neighbours::digest::digest_key;
use shoal_semantics::date;
use shoal_semantics::directives::RequestDirectives;
use shoal_semantics::status_fields::Reason;
use shoal_settings::{Mode, NeighbourKind};
use shoal_wire::RequestParts;
use std::time::Duration;
use tokio::time::timeout;

impl LocalObjects for CacheEngine {
    fn holds_in_memory(&self, url: &str, sites: bool) -> Option<bool> {
        let Ok(target) = Target::parse(url) else { return Some(false) };
        let live = self.live();
        let mut is_on_disk = false;
        for mode in modes(sites) {
            let key = target.key(*mode);
            match self.cache.objects.record_in_memory(&key) {
                Some(record) if self.serves_plain(&live, &target, *mode, &record) => return Some(true),
                Some(_) => {}
                None => is_on_disk |= self.cache.objects.on_disk(&key),
            }
        }
        (!is_on_disk).then_some(false)
    }

    fn holds_on_disk<'a>(&'a self, url: &'a str, sites: bool) -> Look<'a, bool> {
        Box::pin(async move {
            let Ok(target) = Target::parse(url) else { return false };
            for mode in modes(sites) {
                if let Ok(Some(PeekedObject { record, .. })) =
                    self.cache.objects.peek(&target.key(*mode)).await
                    && self.serves_plain(&self.live(), &target, *mode, &record)
                {
                    return true;
                }
            }
            false
        })
    }

    fn holds(&self, key: &ObjectKey) -> bool {
        self.cache.objects.record_in_memory(key).is_some() || self.cache.objects.on_disk(key)
    }

    fn plain_objects_in_memory(&self, limit: usize, sites: bool) -> Vec<(ObjectKey, SeenObject)> {
        let (live, now) = (self.live(), clock::now());
        let look = |key: &ObjectKey, record: &ObjectMetadata| {
            let (url, mode) = match key.full().strip_suffix(FORWARD) {
                Some(url) => (url, Mode::Forward),
                None if sites => (key.full(), Mode::Reverse),
                None => return None,
            };
            let url = std::str::from_utf8(url).ok().filter(|url| !url.contains('\0'))?;
            let target = Target::parse(url).ok()?;
            let is_plain = self.serves_plain(&live, &target, mode, record);
            let ttl = record.head().filter(|_| is_plain)?.policy.time_to_live(now);
            let fresh_until = now.plus(Duration::from_secs(ttl.max(0).unsigned_abs()));
            Some((key.clone(), SeenObject { key: digest_key(url), fresh_until }))
        };
        self.cache.objects.look_at_memory(limit, look).0
    }

    fn clear<'a>(&'a self, url: &'a str) -> Look<'a, ClearOutcome> {
        Box::pin(async move {
            match self.purge_in_cluster(PurgeRequest::Url(url.to_owned())).await {
                PurgeOutcome::Purged { responses: Some(0) }
                | PurgeOutcome::Spread { responses: Some(0), .. } => ClearOutcome::NotHeld,
                PurgeOutcome::Purged { .. } | PurgeOutcome::Spread { .. } => ClearOutcome::Gone,
                PurgeOutcome::Invalid(_) | PurgeOutcome::Failed(_) => ClearOutcome::Kept,
            }
        })
    }
}

impl CacheEngine {
    /// Returns `true` if the record is a response that a plain GET without fields gets unasked.
    fn serves_plain(
        &self,
        live: &ExchangeSettings,
        target: &Target,
        mode: Mode,
        record: &ObjectMetadata,
    ) -> bool {
        // A response under the URL's own key has no Vary.
        let ObjectMetadata::Response(head) = record else { return false };
        let is_allowed = match mode {
            Mode::Forward => live.forward.request(target.host(), target.port).is_ok(),
            Mode::Reverse => live.routes.find(target.host().as_bytes(), target.path()).is_some(),
        };
        is_allowed
            && head.stored.status() == StatusCode::OK
            && head.names.via_site == (mode == Mode::Reverse)
            && head.policy.is_fresh(clock::now())
            && !head.policy.always_validates()
            && live.allowed_address(head)
            && !self.cache.is_purged(head)
    }

    /// Returns the reply with this node's digest, if a listed cache asks for it.
    pub(super) fn digest_reply(&self, head: &RequestParts, client: &Client) -> Option<Box<Reply>> {
        let neighbours = self.fetcher.neighbours.as_deref()?;
        let is_asked = NeighbourCaches::is_own_digest(&head.uri, client.local)
            && neighbours.settings().serve_digest
            && matches!(head.method, Method::GET | Method::HEAD);
        if !is_asked || !neighbours.is_listed(client.address.ip()) {
            return None;
        }
        let (live, verdict) = (self.live(), HandlingReport::local(Reason::Neighbour));
        let Some(digest) = neighbours.own_digest() else {
            let later = (StatusCode::NOT_FOUND, "The digest is being built.");
            return Some(Box::new(answers::early(&live, head, client, later, verdict)));
        };
        self.metrics.neighbour_digests_served.increment();
        let mut reply = answers::early(&live, head, client, (StatusCode::OK, ""), verdict);
        let (_, mut fields) = match reply.head {
            ReplyHead::Built(status, fields) => (status, fields),
            _ => (StatusCode::OK, HeaderMap::new()),
        };
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/cache-digest"));
        fields.remove(header::CACHE_CONTROL);
        fields.insert(header::DATE, date::format(clock::date_at(clock::now())));
        fields.insert(header::LAST_MODIFIED, date::format(clock::date_at(digest.built)));
        fields.insert(header::EXPIRES, date::format(clock::date_at(digest.expires)));
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(digest.bytes.len()));
        reply.head = ReplyHead::Built(StatusCode::OK, fields);
        reply.body = match head.method == Method::HEAD {
            true => ReplyBody::Empty,
            false => ReplyBody::Stream {
                frames: PacedBody::new(&digest.bytes).boxed_unsync(),
                length: Some(digest.bytes.len() as u64),
            },
        };
        Some(Box::new(reply))
    }

    /// Replaces a refusal by 504 for a listed cache that asks with `only-if-cached`: Squid shows
    /// its client every other error of a sibling.
    pub(super) fn refusal_for_neighbour(
        &self,
        reply: Box<Reply>,
        head: &RequestParts,
        client: &Client,
    ) -> Box<Reply> {
        let is_listed = self
            .fetcher
            .neighbours
            .as_deref()
            .is_some_and(|neighbours| neighbours.is_listed(client.address.ip()));
        if !is_listed || !RequestDirectives::of(&head.fields).only_if_cached {
            return reply;
        }
        let verdict = HandlingReport::local(Reason::OnlyIfCached);
        let page = (StatusCode::GATEWAY_TIMEOUT, "Nothing that is cached here can answer.");
        Box::new(answers::early(&self.live(), head, client, page, verdict))
    }
}

impl Fetcher {
    /// Sends the request of a fetch: to a neighbour, or else to the origin.
    pub(super) fn send<'a>(
        &'a self,
        fetch: &Fetch,
    ) -> impl Future<Output = Result<UpstreamResponse, UpstreamError>> + Send + use<'a> {
        let over =
            self.neighbours_for(fetch).map(|neighbours| (neighbours, Box::new(OutgoingFetch::of(fetch))));
        let mirrored = fetch.ask.mirror.is_some().then(|| Box::new(OutgoingFetch::of(fetch)));
        let direct = (over.is_none() && mirrored.is_none()).then(|| upstream_request(fetch));
        async move {
            // Boxed, so that other fetches do not carry room for these futures.
            if let Some(outgoing) = mirrored {
                return Box::pin(self.fetch_mirrored(&outgoing)).await;
            }
            let request = match (direct, over) {
                (Some(request), _) => request,
                (None, Some((neighbours, outgoing))) => {
                    match Box::pin(self.ask_neighbours(neighbours, &outgoing)).await {
                        Some(response) => return Ok(response),
                        None => outgoing.to_origin(),
                    }
                }
                (None, None) => unreachable!("a fetch goes directly or over neighbours"),
            };
            self.upstreams.fetch(request).await
        }
    }

    /// Returns the neighbours if the fetch may go to them.
    pub(super) fn neighbours_for(&self, fetch: &Fetch) -> Option<&NeighbourCaches> {
        let neighbours = self.neighbours.as_deref().filter(|neighbours| neighbours.has_any())?;
        let (ask, directives) = (&*fetch.ask, &fetch.ask.directives);
        let is_plain = ask.method == Method::GET
            && !ask.target.https
            && fetch.stored.is_none()
            && fetch.range.is_none()
            && !fetch.conditional
            && ask.mirror.is_none()
            && !ask.brings_credentials()
            && !ask.ruling.passes
            && !(directives.no_cache || directives.no_store || directives.max_age == Some(0))
            && (ask.site.is_none() || neighbours.settings().sites);
        let hops = ask.fields.values(&header::VIA).map(|via| via.split(|byte| *byte == b',').count());
        let may_reach = ask.site.is_some() || self.may_reach(fetch);
        (is_plain && may_reach && hops.sum::<usize>() < HOPS_MAX).then_some(neighbours)
    }

    /// Returns `true` if the client may reach the host: a neighbour must not serve a host that is
    /// refused here. Addresses of names are judged by the neighbour that connects.
    fn may_reach(&self, fetch: &Fetch) -> bool {
        let (target, rules) = (&fetch.ask.target, &fetch.ask.live.forward);
        let bare = target.host().trim_start_matches('[').trim_end_matches(']');
        let address = bare.parse::<std::net::IpAddr>().ok();
        rules.destination(target.host()).is_ok()
            && address.is_none_or(|ip| rules.address(bare, (ip, target.port).into()).is_ok())
    }

    /// Asks a neighbour that holds the URL, then parents. Returns `None` if the origin must be
    /// asked.
    async fn ask_neighbours(
        &self,
        neighbours: &NeighbourCaches,
        fetch: &OutgoingFetch,
    ) -> Option<UpstreamResponse> {
        let (url, client) = (&fetch.ask.target.url, fetch.ask.client.address.ip());
        let findings = neighbours.holder(url, client).await;
        if let Some(index) = findings.hit {
            let way = neighbours.way_to_holder(index);
            if let Some(response) = self.ask_neighbour(neighbours, fetch, &way, true).await {
                return Some(response);
            }
        }
        // Parents serve forward mode: a site's upstreams are the operator's own choice.
        if fetch.ask.site.is_some() {
            return None;
        }
        for way in neighbours.parents(url, client, findings.first_miss) {
            if let Some(response) = self.ask_neighbour(neighbours, fetch, &way, false).await {
                return Some(response);
            }
        }
        None
    }

    /// Asks one neighbour. `says_hit` if it said that it holds the URL.
    async fn ask_neighbour(
        &self,
        neighbours: &NeighbourCaches,
        fetch: &OutgoingFetch,
        way: &NeighbourWay,
        says_hit: bool,
    ) -> Option<UpstreamResponse> {
        let is_sibling = way.entry.settings.kind == NeighbourKind::Sibling;
        let sent = self.upstreams.fetch(fetch.to_neighbour(way)?);
        let outcome = match is_sibling {
            true => timeout(neighbours.settings().sibling_timeout, sent).await.ok(),
            false => Some(sent.await),
        };
        let now = neighbours.now();
        let response = match outcome {
            Some(Ok(response)) => response,
            Some(Err(error)) if !error.cause.blames_upstream() => return None,
            Some(Err(_)) | None => {
                self.metrics.neighbour_failures.increment();
                way.entry.note_failed(now);
                return None;
            }
        };
        let is_useful = match is_sibling {
            true => is_answer_of_sibling(response.status),
            false => !is_failure_of_parent(response.status),
        };
        if !is_useful {
            match says_hit && way.only_if_cached && response.status == StatusCode::GATEWAY_TIMEOUT {
                true => {
                    self.metrics.neighbour_false_hits.increment();
                    way.entry.note_false_hit(now);
                }
                false => {
                    self.metrics.neighbour_failures.increment();
                    way.entry.note_failed(now);
                }
            }
            return None;
        }
        way.entry.note_served();
        let counter = match is_sibling {
            true => &self.metrics.neighbour_fetches_sibling,
            false => &self.metrics.neighbour_fetches_parent,
        };
        counter.increment();
        Some(UpstreamResponse { is_proxy_only: way.entry.settings.proxy_only, ..response })
    }
}

/// Returns the response, unless it is a neighbour's that is not kept here.
pub(super) fn may_keep(response: UpstreamResponse) -> Result<UpstreamResponse, Box<UnsharedResponse>> {
    match response.neighbours_refusal() {
        Some(why) => Err(Box::new(UnsharedResponse { response, why })),
        None => Ok(response),
    }
}

/// Returns `true` if a sibling's response answers the client. Errors of the sibling's own, such as
/// its refusals, say nothing about the resource.
fn is_answer_of_sibling(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 300 | 301 | 308 | 404 | 410)
}

/// Returns `true` if a parent could not ask the origin, or does not serve this node.
fn is_failure_of_parent(status: StatusCode) -> bool {
    matches!(status.as_u16(), 407 | 502 | 504)
}

fn modes(sites: bool) -> &'static [Mode] {
    if sites { &[Mode::Forward, Mode::Reverse] } else { &[Mode::Forward] }
}

/// Most proxies on the way of a request that neighbours are asked for.
const HOPS_MAX: usize = 8;
