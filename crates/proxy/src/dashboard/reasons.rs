//! The document of the page "Why not": reasons of misses, and of responses that were not stored.

use super::unix_ms;
use super::view::{NodeView, counts, requests_and_hits};
use crate::by_site::{CostKind, ListedUrl, MissReason, SiteMeter};
use shoal_dashboard::documents::{ReasonRow, ReasonsDocument};
use shoal_dashboard::shown;
use std::cmp::Reverse;
use std::sync::Arc;

/// Returns the document of one site, or of all.
pub(super) fn document(view: &NodeView, site: Option<&str>) -> ReasonsDocument {
    let live = view.live();
    let all: Vec<&Arc<SiteMeter>> = live.routes.meters().all().collect();
    let sites = all.iter().filter(|meter| counts(meter).iter().any(|count| *count > 0));
    let wanted: Vec<&&Arc<SiteMeter>> =
        all.iter().filter(|meter| site.is_none_or(|site| meter.label() == site)).collect();
    let (mut requests, mut bytes) = ([0; MissReason::COUNT], [0; MissReason::COUNT]);
    let (mut answered, mut listed) = (0, Vec::new());
    for meter in &wanted {
        let own = counts(meter);
        answered += requests_and_hits(|at| own[at]).0;
        for (reason, count) in meter.read().upstream_requests {
            requests[reason.number()] += count;
        }
        bytes.iter_mut().zip(meter.bytes_by_reason()).for_each(|(sum, bytes)| *sum += bytes);
        for kind in [CostKind::Requests, CostKind::Bytes, CostKind::Time] {
            listed.extend(meter.listed(kind).0);
        }
    }
    listed.sort_by_key(|url| Reverse(url.cost.requests));
    let row = |reason: MissReason| ReasonRow {
        reason: reason.as_str().to_owned(),
        text: reason.meaning().to_owned(),
        requests: requests[reason.number()],
        bytes: bytes[reason.number()],
        share: if answered > 0 { requests[reason.number()] as f64 / answered as f64 } else { 0.0 },
        samples: samples(&listed, reason),
        rule: reason.remedy().to_owned(),
        settings: reason.settings().iter().map(|setting| (*setting).to_owned()).collect(),
    };
    let rows = |is_of: fn(&MissReason) -> bool| {
        let mut rows: Vec<ReasonRow> = MissReason::all()
            .filter(|reason| is_of(reason) && requests[reason.number()] > 0)
            .map(row)
            .collect();
        rows.sort_by_key(|row| Reverse(row.requests));
        rows
    };
    debug_assert!(wanted.len() <= all.len(), "a site is one of all");
    ReasonsDocument {
        unix_ms: unix_ms(),
        site: site.map(shown),
        sites: sites.map(|meter| shown(meter.label())).collect(),
        requests: answered,
        misses: rows(|reason| !matches!(reason, MissReason::Storing(_))),
        not_stored: rows(|reason| matches!(reason, MissReason::Storing(_))),
    }
}

/// Returns different URLs of the reason, those with most requests first.
fn samples(listed: &[ListedUrl], reason: MissReason) -> Vec<String> {
    let mut samples: Vec<String> = Vec::new();
    for url in listed.iter().filter(|url| url.reason == reason) {
        let url = shown(&url.url);
        if !samples.contains(&url) {
            samples.push(url);
        }
        if samples.len() == SAMPLES {
            break;
        }
    }
    samples
}

/// URLs of a reason.
const SAMPLES: usize = 5;
