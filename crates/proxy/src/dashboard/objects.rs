//! The document of the page "Objects": those with most requests, bytes or time of an origin.

use super::unix_ms;
use super::view::NodeView;
use crate::by_site::{CostKind, SAMPLED};
use crate::hybrid_cache::HybridCache;
use shoal_core::Key;
use shoal_dashboard::documents::{ObjectRow, ObjectsDocument, ROWS_MAX};
use shoal_dashboard::{ObjectOrder, Topic, shown, shown_bytes};
use shoal_telemetry::samples::SampledObject;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Returns the document.
pub(super) fn document(view: &NodeView, topic: &Topic) -> ObjectsDocument {
    let samples = &view.metrics.samples.objects;
    let mut objects = match topic.by {
        ObjectOrder::Requests | ObjectOrder::Bytes => sampled(view, topic),
        ObjectOrder::Cost => costly(view, topic),
    };
    objects.truncate(ROWS_MAX);
    debug_assert!(
        objects.iter().all(|object| !object.place.is_empty()),
        "each object is somewhere, or nowhere"
    );
    ObjectsDocument {
        unix_ms: unix_ms(),
        sampled_one_in: SAMPLED,
        by: topic.by.name().to_owned(),
        site: topic.site.as_deref().map(shown),
        lost: samples.lost(),
        objects,
    }
}

fn sampled(view: &NodeView, topic: &Topic) -> Vec<ObjectRow> {
    let samples = &view.metrics.samples.objects;
    let (mut objects, measure): (_, fn(&SampledObject) -> u64) = match topic.by {
        ObjectOrder::Bytes => (samples.by_bytes(), |object| object.bytes),
        _ => (samples.by_requests(), |object| object.requests),
    };
    objects.retain(|object| {
        topic.site.as_deref().is_none_or(|site| *object.site == *site)
            && has_part(&object.url, topic.part.as_bytes())
    });
    objects.sort_by_key(|object| Reverse(measure(object)));
    objects.truncate(ROWS_MAX);
    let costs: HashMap<(String, String), u64> =
        costs(view, topic).into_iter().map(|(site, url, cost, _)| ((site, url), cost)).collect();
    let row = |object: &SampledObject| {
        let url = String::from_utf8_lossy(&object.url).into_owned();
        let origin_us = costs.get(&(object.site.to_string(), url.clone()));
        ObjectRow {
            url: shown_bytes(&object.url),
            key_url: (!object.is_cut && std::str::from_utf8(&object.url).is_ok()).then_some(url),
            site: shown(&object.site),
            requests: object.requests,
            bytes: object.bytes,
            origin_ms: origin_us.map(|us| us / 1000),
            size: object.size,
            place: place(&view.objects, object.key).to_owned(),
        }
    };
    objects.iter().map(row).collect()
}

/// Returns the objects that cost most time of their origins. Their requests and bytes are those to
/// the origin.
fn costly(view: &NodeView, topic: &Topic) -> Vec<ObjectRow> {
    let keys: HashMap<Vec<u8>, Key> = {
        let samples = view.metrics.samples.objects.by_requests();
        samples.into_iter().map(|object| (object.url.to_vec(), object.key)).collect()
    };
    let mut listed = costs(view, topic);
    listed.sort_by_key(|(_, _, us, _)| Reverse(*us));
    listed.truncate(ROWS_MAX);
    let row = |(site, url, us, cost): (String, String, u64, crate::by_site::Cost)| ObjectRow {
        url: shown(&url),
        key_url: (!url.ends_with('…')).then(|| url.clone()),
        site: shown(&site),
        requests: cost.requests,
        bytes: cost.body_bytes,
        origin_ms: Some(us / 1000),
        size: cost.body_bytes.checked_div(cost.requests).unwrap_or(0),
        place: place(&view.objects, *keys.get(url.as_bytes()).unwrap_or(&Key::of(url.as_bytes()))).to_owned(),
    };
    listed.into_iter().map(row).collect()
}

/// Returns site, URL, microseconds and the whole cost of the URLs that cost most time.
fn costs(view: &NodeView, topic: &Topic) -> Vec<(String, String, u64, crate::by_site::Cost)> {
    let live = view.live();
    let mut listed = Vec::new();
    for meter in live.routes.meters().all() {
        if topic.site.as_deref().is_some_and(|site| site != meter.label()) {
            continue;
        }
        for url in meter.listed(CostKind::Time).0 {
            if has_part(url.url.as_bytes(), topic.part.as_bytes()) {
                listed.push((meter.label().to_owned(), url.url.to_string(), url.cost.time_us, url.cost));
            }
        }
    }
    listed
}

/// Returns the tier that has an object under this key, or a note of its variants.
fn place(objects: &HybridCache, key: Key) -> &'static str {
    match () {
        () if objects.memory().peek(key).is_some() => "ram",
        () if objects.holds_hash(key) => "disk",
        () => "none",
    }
}

fn has_part(url: &[u8], part: &[u8]) -> bool {
    part.is_empty() || url.windows(part.len()).any(|window| window == part)
}
