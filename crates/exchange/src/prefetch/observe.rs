//! Clients' requests as prefetching sees them: uses of prefetched answers, and new hints.

use super::early;
use super::fetching::watch_key;
use super::hint::{Hint, HintFields};
use super::place::{HintAuthor, place_of};
use super::{HintPlace, Prefetcher, now_seconds};
use crate::CacheEngine;
use crate::message::{CacheResult, NextHop, Reply, ReplyHead};
use crate::mirrored::{OwnFreshness, OwnRequest};
use crate::request::RequestContext;
use crate::settings::ExchangeSettings;
use crate::target::Target;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use shoal_cooperation::prefetch::{HintSource, Successors};
use shoal_core::{Fields, Key};
use shoal_mirrors::Place;
use shoal_mirrors::wanted::{ImageManifest, MANIFEST_MAX};
use shoal_semantics::invalidation::resolve;
use shoal_semantics::links::announced;
use shoal_settings::{EarlyHints, MirrorKind, Prefetch};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Prefetcher {
    /// Notes a client's request before it is answered. A prefetch of the same becomes an ordinary
    /// request. Returns the time, if the answer's is of interest.
    pub(crate) fn note_request(&self, ask: &RequestContext) -> Option<Instant> {
        // Another node asks for a client of its own.
        if ask.background.is_some() || !is_clients(ask) && !ask.is_for_peer {
            return None;
        }
        early::send_again(&self.early, ask);
        let is_driven = self.is_driven.load(Ordering::Relaxed);
        if is_driven {
            let key = watch_key(ask);
            for key in [Some(key), Some(ask.primary.hash().low()).filter(|whole| *whole != key)]
                .into_iter()
                .flatten()
            {
                self.note_key(key, ask.client.address.ip());
            }
        }
        (is_driven || !ask.is_for_peer && learns(&ask.live.prefetch)).then(Instant::now)
    }

    fn note_key(&self, key: u64, reader: IpAddr) {
        if let Some(background) = self.running.lock().get(&key) {
            // The end of the fetch counts the use.
            background.want();
            return;
        }
        self.watched.remove(key);
        let (is_hinted, used) = self.state.lock().asked(key, Some(reader), now_seconds());
        // Other requests change nothing for the driver, which looks at all lists when woken.
        if is_hinted || used.is_some() {
            self.wake.notify_one();
        }
    }
}

/// Learns from the answer to a client's request, which began at `began`.
pub(crate) fn learn(engine: &Arc<CacheEngine>, ask: &RequestContext, reply: &Reply, began: Option<Instant>) {
    let Some(began) = began else { return };
    debug_assert!(ask.background.is_none(), "a prefetch teaches nothing");
    let (prefetcher, live) = (&engine.prefetcher, &*ask.live);
    let settings = &live.prefetch;
    let is_miss = matches!(reply.record.outcome, CacheResult::Miss | CacheResult::RefreshModified);
    if is_miss && prefetcher.is_driven.load(Ordering::Relaxed) && !is_from_peer(ask, reply) {
        let origins = &mut prefetcher.state.lock().origins;
        let (origin, now) = (origin_of(ask), now_seconds());
        match reply.head.status() {
            StatusCode::TOO_MANY_REQUESTS => origins.refused(&origin, None, now),
            status if status.is_server_error() => origins.refused(&origin, None, now),
            _ => origins.answered(&origin, began.elapsed().as_secs_f64(), now),
        }
    }
    if ask.is_for_peer || ask.method != Method::GET || !learns(settings) {
        return;
    }
    prefetcher.note_sharing(
        ask,
        is_shared(reply),
        is_miss || reply.record.outcome == CacheResult::RefreshUnmodified,
    );
    if !reply.head.status().is_success() {
        return;
    }
    let mut hints = Vec::new();
    if settings.links && is_miss {
        hints.extend(links_of(live, ask, reply));
    }
    if settings.ranges && ask.mirror.is_none() {
        hints.extend(prefetcher.ranges_after(ask));
    }
    if settings.learn && ask.mirror.is_none() && is_shared(reply) {
        hints.extend(prefetcher.successors_of(ask));
    }
    if settings.images && is_miss {
        note_manifest(engine, ask);
    }
    give(engine, hints);
}

/// Returns `true` if another node has asked the origin: its time is that node's to know.
pub(super) fn is_from_peer(ask: &RequestContext, reply: &Reply) -> bool {
    let (Some(cluster), Some(NextHop::Address(address))) = (&ask.live.cluster, &reply.record.upstream) else {
        return false;
    };
    cluster.members().is_at(*address)
}

/// Gives single hints to the driver.
pub(super) fn give(engine: &Arc<CacheEngine>, hints: Vec<Hint>) {
    if !hints.is_empty() {
        engine.prefetcher.state.lock().add(hints, now_seconds());
        Prefetcher::begin(engine);
    }
}

impl Prefetcher {
    fn ranges_after(&self, ask: &RequestContext) -> Vec<Hint> {
        let Some((first, last)) = ask.range().and_then(single_range) else { return Vec::new() };
        let key = ask.primary.hash().low();
        let found = self.state.lock().runs.asked(key, first, last.saturating_add(1));
        let Some(ahead) = found else { return Vec::new() };
        debug_assert!(ahead.pieces > 0 && ahead.length > 0, "there is something to fetch");
        let (url, is_site) = (ask.target.url.to_string(), ask.site.is_some());
        let place = HintPlace::Url { url, listener: ask.client.listener, key, is_site };
        let piece = |at: u64| {
            let start = ahead.start + at * ahead.length;
            let hint = Hint::new(HintSource::Ranges, place.clone()).read_by(ask.client.address.ip());
            let hint = hint.with_range(start, start + ahead.length - 1);
            Hint { fields: shared_fields(ask), ..hint }
        };
        (0..ahead.pieces).map(piece).collect()
    }

    fn successors_of(&self, ask: &RequestContext) -> Vec<Hint> {
        if !is_learnt(&ask.target.url) {
            return Vec::new();
        }
        let client = Key::of(ask.client.address.ip().to_string().as_bytes()).low();
        let key = ask.primary.hash().low();
        let urls = {
            let mut state = self.state.lock();
            let site = ask.meter().label();
            if !state.successors.contains_key(site) && state.successors.len() >= SITES_MAX {
                return Vec::new();
            }
            let floor = f64::from(ask.live.prefetch.precision) / 100.0;
            let table =
                state.successors.entry(site.to_owned()).or_insert_with(|| Successors::new(URLS_MAX, floor));
            table.asked(client, key, &ask.target.url)
        };
        let hint = |url: Arc<str>| {
            let place = place_of(&ask.live, &url, HintAuthor::Answer(&ask.target)).ok()?;
            let hint = Hint::new(HintSource::Learnt, place).read_by(ask.client.address.ip());
            Some(Hint { fields: shared_fields(ask), ..hint })
        };
        urls.into_iter().filter_map(hint).collect()
    }
}

/// Returns the hints of a shared answer's `Link` fields.
pub(super) fn links_of(live: &ExchangeSettings, ask: &RequestContext, reply: &Reply) -> Vec<Hint> {
    let ReplyHead::Stored { stored, .. } = &reply.head else { return Vec::new() };
    if !live.prefetch.links {
        return Vec::new();
    }
    let lines = stored.field_lines().filter(|(name, _)| name.eq_ignore_ascii_case(b"link"));
    let values: Vec<&[u8]> = lines.map(|(_, value)| value).take(LINES_MAX).collect();
    let of = (&ask.target, ask.client.address.ip(), shared_fields(ask));
    hints_of_links(live, of, &values, HintSource::Link)
}

/// Returns the hints of values of `Link` in an answer about `target` to the client at `reader`.
pub(super) fn hints_of_links(
    live: &ExchangeSettings,
    (target, reader, fields): (&Target, IpAddr, HintFields),
    values: &[&[u8]],
    source: HintSource,
) -> Vec<Hint> {
    let Ok(base) = target.url.parse::<http::Uri>() else { return Vec::new() };
    let links = values.iter().flat_map(|value| announced(value)).filter(|link| !link.uses_credentials);
    let hint = |link: shoal_semantics::links::AnnouncedLink<'_>| {
        let url = resolve(&base, link.reference)?.to_string();
        let place = place_of(live, &url, HintAuthor::Answer(target)).ok()?;
        let is_itself = matches!(&place, HintPlace::Url { url, .. } if **url == *target.url);
        (!is_itself).then(|| Hint { fields: fields.clone(), ..Hint::new(source, place).read_by(reader) })
    };
    links.filter_map(hint).take(LINKS_MAX).collect()
}

/// Fetches the layers of an image, if the answer is its manifest.
fn note_manifest(engine: &Arc<CacheEngine>, ask: &RequestContext) {
    let Some(asked) = ask.mirror.as_ref().filter(|asked| asked.mirror.settings.kind == MirrorKind::Oci)
    else {
        return;
    };
    let (Place::Below(path) | Place::Elsewhere(path)) = &asked.place;
    let Some((repository, reference)) = manifest_of(path) else { return };
    let mirror = asked.mirror.settings.name().to_owned();
    let (repository, reference) = (repository.to_owned(), reference.to_owned());
    let reader = ask.client.address.ip();
    let engine = Arc::clone(engine);
    tokio::spawn(async move {
        let path = format!("/v2/{repository}/manifests/{reference}");
        let blobs = blobs_of(&engine, &mirror, &path, &repository).await;
        let hint = |path: String| {
            let place = HintPlace::Mirror { mirror: mirror.clone(), path };
            Hint::new(HintSource::Image, place).read_by(reader)
        };
        give(&engine, blobs.into_iter().take(LAYERS_MAX).map(hint).collect());
    });
}

/// Reads a manifest, which has just been fetched, and returns the paths of its blobs.
async fn blobs_of(engine: &Arc<CacheEngine>, mirror: &str, path: &str, repository: &str) -> Vec<String> {
    let freshness = OwnFreshness::Any;
    let asked = OwnRequest { mirror, path, accept: None, freshness, pinned_until: None };
    let mut answer = engine.ask_mirror(asked).await;
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = answer.body.frame().await {
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if bytes.len() > MANIFEST_MAX {
            return Vec::new();
        }
    }
    let manifest = ImageManifest::parse(&bytes).filter(|_| answer.status == StatusCode::OK);
    manifest.map_or_else(Vec::new, |manifest| {
        manifest.blobs(repository).into_iter().map(|file| file.path).collect()
    })
}

/// Returns repository and reference of a manifest's path.
fn manifest_of(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/v2/")?;
    let (repository, reference) = rest.rsplit_once("/manifests/")?;
    (!repository.is_empty() && !reference.contains('/')).then_some((repository, reference))
}

/// Returns first and last byte of a Range with one range of known ends.
pub(super) fn single_range(range: &str) -> Option<(u64, u64)> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some((first, last))
}

/// Returns the client's fields by which a page's parts are likely to differ.
pub(super) fn shared_fields(ask: &RequestContext) -> HintFields {
    let kept = [http::header::ACCEPT_ENCODING, http::header::ACCEPT_LANGUAGE];
    let value = |name: &http::HeaderName| {
        let value = ask.fields.value(name).filter(|value| value.len() <= super::hint::VALUE_MAX)?;
        Some((name.as_str().into(), value.into()))
    };
    kept.iter().filter_map(value).collect()
}

/// Returns `true` if a URL is short enough for the tables of successors.
fn is_learnt(url: &str) -> bool {
    url.len() <= URL_BYTES_MAX
}

/// Returns `true` for a request of a client, and not of this node or another one.
fn is_clients(ask: &RequestContext) -> bool {
    ask.background.is_none() && !ask.is_for_peer && ask.client.address.port() != 0
}

fn is_shared(reply: &Reply) -> bool {
    matches!(reply.head, ReplyHead::Stored { .. })
}

fn learns(settings: &Prefetch) -> bool {
    settings.links
        || settings.ranges
        || settings.learn
        || settings.images
        || settings.early_hints != EarlyHints::Off
}

/// Returns the name of the request's origin, as hints have it.
fn origin_of(ask: &RequestContext) -> String {
    match &ask.mirror {
        Some(asked) => asked.mirror.settings.name().to_owned(),
        None => ask.target.authority().to_owned(),
    }
}

/// Most lines of `Link` of one answer.
const LINES_MAX: usize = 8;
/// Most hints of one answer.
const LINKS_MAX: usize = 16;
/// Most layers of one image.
const LAYERS_MAX: usize = 128;
/// Most sites with successors.
const SITES_MAX: usize = 64;
/// Most URLs with successors of one site.
const URLS_MAX: usize = 4096;
/// Longest URL with successors, in bytes. The tables are outside the budget of memory.
const URL_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_without_a_hint_wake_nobody() {
        let prefetcher = Prefetcher::default();
        let hint = |key: u64| {
            let place =
                HintPlace::Url { url: format!("http://a.test/{key}"), listener: 0, key, is_site: true };
            (Hint::new(HintSource::List, place), None)
        };
        let list = (1..=2).map(hint).collect();
        prefetcher.state.lock().add_list(HintSource::List, list, (None, 1e12), 0.0).expect("room");
        for (key, expected) in [(7, false), (1, true), (1, false), (2, true)] {
            prefetcher.note_key(key, [192, 0, 2, 1].into());
            let woken = tokio::time::timeout(std::time::Duration::ZERO, prefetcher.wake.notified());
            assert_eq!(woken.await.is_ok(), expected, "{key}");
        }
    }

    #[test]
    fn manifests_are_told_by_their_path() {
        assert_eq!(manifest_of("/v2/library/x/manifests/latest"), Some(("library/x", "latest")));
        for path in
            ["/v2/x/blobs/sha256:1", "/v2//manifests/a", "/v2/x/manifests/a/b", "/x", "/v2/manifests/a"]
        {
            assert_eq!(manifest_of(path), None, "{path}");
        }
    }

    #[test]
    fn successors_of_long_urls_are_not_learnt() {
        let url = |bytes: usize| format!("http://a.test/{}", "x".repeat(bytes - "http://a.test/".len()));
        assert!(is_learnt(&url(URL_BYTES_MAX)) && !is_learnt(&url(URL_BYTES_MAX + 1)));
        assert!(!is_learnt(&url(16 << 10)), "as long as a request may have it");
    }

    #[test]
    fn only_plain_ranges_count() {
        for (range, expected) in [
            ("bytes=0-99", Some((0, 99))),
            ("bytes=5-5", Some((5, 5))),
            ("bytes=9-5", None),
            ("bytes=-5", None),
            ("bytes=5-", None),
            ("bytes=0-1,3-4", None),
            ("lines=0-1", None),
        ] {
            assert_eq!(single_range(range), expected, "{range}");
        }
    }
}
