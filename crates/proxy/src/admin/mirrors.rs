//! Mirrors in the status of a node and on the metrics page: one row for each mirror of the
//! settings.

use super::exposition::{escaped, header};
use super::sites::SiteStatus;
use crate::by_site::SiteMeters;
use crate::mirror::Mirrors;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// One mirror: its place, and its counts since it came into the settings. A mirror beyond the
/// hundredth site has no counts of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// Name.
    pub name: String,
    /// Kind of the registry.
    pub kind: String,
    /// URL of the registry; empty for a build cache.
    pub upstream: String,
    /// Path without a slash at its end; empty for the root.
    pub path: String,
    /// Host names under which the mirror is served.
    pub hosts: Vec<String>,
    /// Further hosts of files.
    pub file_hosts: Vec<String>,
    /// `true` if the cache alone answers.
    pub offline: bool,
    /// Least age of a release in seconds; 0 without such a rule.
    pub minimum_age_seconds: u64,
    /// Requests answered.
    pub requests: u64,
    /// Requests answered by a stored response without validation, fresh or stale.
    pub hits: u64,
    /// Bytes of bodies sent.
    pub body_bytes: u64,
    /// Bytes of bodies sent from the cache, validated or not.
    pub hit_body_bytes: u64,
    /// Requests to the registry and to its file hosts.
    pub upstream_requests: u64,
    /// Bytes of bodies received from them.
    pub upstream_body_bytes: u64,
    /// Time that the hits would have taken at the registry, in microseconds: an estimate.
    pub saved_us: u64,
}

impl MirrorStatus {
    /// Returns the rows of all mirrors, in the order of the settings.
    pub fn all(mirrors: &Mirrors, meters: &SiteMeters) -> Vec<Self> {
        let row = |mirror: &std::sync::Arc<crate::mirror::MirrorRoute>| {
            let counts = meters.own(mirror.site).map(|meter| SiteStatus::of(&meter.read()));
            let counts = counts.unwrap_or_default();
            let settings = &mirror.settings;
            Self {
                name: settings.name().to_owned(),
                kind: settings.kind.name().to_owned(),
                upstream: settings.upstream().to_owned(),
                path: mirror.path.clone(),
                hosts: settings.hosts.clone(),
                file_hosts: settings.file_hosts.clone(),
                offline: settings.offline,
                minimum_age_seconds: settings.minimum_age.as_secs(),
                requests: counts.requests,
                hits: counts.hits,
                body_bytes: counts.body_bytes,
                hit_body_bytes: counts.hit_body_bytes,
                upstream_requests: counts.upstream_requests.values().sum(),
                upstream_body_bytes: counts.upstream_body_bytes,
                saved_us: counts.saved_us,
            }
        };
        let rows: Vec<Self> = mirrors.all().iter().map(row).collect();
        debug_assert!(rows.iter().all(|row| row.hits <= row.requests), "a hit is a request");
        rows
    }
}

/// Appends the rows of all mirrors to a page in Prometheus' text format.
pub(super) fn write(page: &mut String, mirrors: &[MirrorStatus]) {
    if mirrors.is_empty() {
        return;
    }
    for (name, help, value) in COUNTERS {
        header(page, "counter", name, help);
        for mirror in mirrors {
            let _ = writeln!(page, "{name}{{mirror=\"{}\"}} {}", escaped(&mirror.name), value(mirror));
        }
    }
    let (name, help) = SAVED;
    header(page, "gauge", name, help);
    for mirror in mirrors {
        let (seconds, micros) = (mirror.saved_us / 1_000_000, mirror.saved_us % 1_000_000);
        let _ = writeln!(page, "{name}{{mirror=\"{}\"}} {seconds}.{micros:06}", escaped(&mirror.name));
    }
}

/// Name, help and value of a counter.
type CounterRow = (&'static str, &'static str, fn(&MirrorStatus) -> u64);

const COUNTERS: [CounterRow; 6] = [
    ("shoal_mirror_requests_total", "Requests answered, by mirror.", |mirror| mirror.requests),
    (
        "shoal_mirror_hits_total",
        "Requests answered from the cache without validation, by mirror.",
        |mirror| mirror.hits,
    ),
    ("shoal_mirror_body_bytes_total", "Bytes of bodies sent, by mirror.", |mirror| mirror.body_bytes),
    ("shoal_mirror_hit_body_bytes_total", "Bytes of bodies sent from the cache, by mirror.", |mirror| {
        mirror.hit_body_bytes
    }),
    ("shoal_mirror_upstream_requests_total", "Requests to registries, by mirror.", |mirror| {
        mirror.upstream_requests
    }),
    ("shoal_mirror_upstream_body_bytes_total", "Bytes of bodies received, by mirror.", |mirror| {
        mirror.upstream_body_bytes
    }),
];

const SAVED: (&str, &str) = (
    "shoal_mirror_saved_seconds",
    "Time that the hits of a mirror would have taken at its registry, by the mean of the requests made: an estimate.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mirror_has_its_rows() {
        let mirror = MirrorStatus { name: "npm".into(), hits: 3, saved_us: 1_500_000, ..Default::default() };
        let mut page = String::new();
        write(&mut page, &[mirror]);
        assert!(page.contains("\nshoal_mirror_hits_total{mirror=\"npm\"} 3\n"), "{page}");
        assert!(page.contains("\nshoal_mirror_saved_seconds{mirror=\"npm\"} 1.500000\n"), "{page}");
        let mut none = String::new();
        write(&mut none, &[]);
        assert_eq!(none, "");
    }
}
