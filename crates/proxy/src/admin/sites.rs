//! Sites in the status of a node and on the metrics page.

use super::exposition::{escaped, header};
use crate::by_site::{BOUNDS, BUCKETS, MeterSums, SAMPLED, SiteMeters, Source, quantile_us};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Counts of one site since it came into the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteStatus {
    /// First host and path prefix of the site; `forward`, `other` or `none`.
    pub site: String,
    /// Requests answered, without tunnels.
    pub requests: u64,
    /// Requests answered by a stored response without validation, fresh or stale.
    pub hits: u64,
    /// Bytes of bodies sent, without tunnels.
    pub body_bytes: u64,
    /// Bytes of bodies sent from the cache, validated or not.
    pub hit_body_bytes: u64,
    /// Bytes of bodies received from origins.
    pub upstream_body_bytes: u64,
    /// Time that the hits would have taken at the origin, in microseconds: an estimate.
    #[serde(default)]
    pub saved_us: u64,
    /// Time within which half of the requests were answered, in microseconds.
    pub p50_us: Option<u64>,
    /// Time within which 99% of the requests were answered, in microseconds.
    pub p99_us: Option<u64>,
    /// Responses and body bytes by result.
    pub results: BTreeMap<String, ResultCounts>,
    /// Requests to origins by reason.
    pub upstream_requests: BTreeMap<String, u64>,
    /// Times to answer by source.
    pub times: BTreeMap<String, SourceTimes>,
}

/// Counts of one result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultCounts {
    /// Responses.
    pub responses: u64,
    /// Bytes of bodies sent.
    pub body_bytes: u64,
}

/// Times to answer of one source. Of hits in RAM one in 64 is timed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceTimes {
    /// Timed responses.
    pub count: u64,
    /// Sum of the times in microseconds.
    pub sum_us: u64,
    /// Time within which half of the responses were sent, in microseconds.
    pub p50_us: Option<u64>,
    /// Time within which 99% of the responses were sent, in microseconds.
    pub p99_us: Option<u64>,
    /// Timed responses by bucket; the metrics page names the bounds.
    pub buckets: Vec<u64>,
}

impl SiteStatus {
    /// Returns the counts of every site. Sites outside the settings are left out until they count.
    pub fn all(meters: &SiteMeters, has_forward: bool) -> Vec<Self> {
        let fixed = |site: &str| matches!(site, "other" | "none") || site == "forward" && !has_forward;
        let all = meters.all().map(|meter| Self::of(&meter.read()));
        all.filter(|status| !fixed(&status.site) || status.results.values().any(|it| it.responses > 0))
            .collect()
    }

    /// Computes the sums of these counts.
    pub fn of(reading: &MeterSums) -> Self {
        let sum = |names: &[&str], value: fn(&(&str, u64, u64)) -> u64| {
            reading.results.iter().filter(|it| names.contains(&it.0)).map(value).sum::<u64>()
        };
        let all = |value: fn(&(&str, u64, u64)) -> u64| {
            reading.results.iter().filter(|it| it.0 != TUNNEL).map(value).sum::<u64>()
        };
        let results = reading.results.iter().map(|(name, responses, body_bytes)| {
            ((*name).to_owned(), ResultCounts { responses: *responses, body_bytes: *body_bytes })
        });
        let asked = reading.upstream_requests.iter().filter(|(_, count)| *count > 0);
        let times = reading.times.iter().map(|(source, buckets, sum_us)| {
            let times = SourceTimes {
                count: buckets.iter().sum(),
                sum_us: *sum_us,
                p50_us: quantile_us(buckets, 0.5),
                p99_us: quantile_us(buckets, 0.99),
                buckets: buckets.to_vec(),
            };
            (source.as_str().to_owned(), times)
        });
        let together = together(reading);
        let (hits, hit_body_bytes) = (sum(&HITS, |it| it.1), sum(&OUT_OF_CACHE, |it| it.2));
        Self {
            site: reading.label.clone(),
            requests: all(|it| it.1),
            hits,
            body_bytes: all(|it| it.2),
            hit_body_bytes,
            upstream_body_bytes: reading.upstream_body_bytes,
            saved_us: saved_us(reading, hits, hit_body_bytes),
            p50_us: quantile_us(&together, 0.5),
            p99_us: quantile_us(&together, 0.99),
            results: results.collect(),
            upstream_requests: asked.map(|(reason, count)| (reason.as_str().to_owned(), *count)).collect(),
            times: times.filter(|(_, times)| times.count > 0).collect(),
        }
    }

    /// Returns the tunnels that have ended, and the bytes sent through them to clients.
    pub fn tunnels(&self) -> ResultCounts {
        self.results.get(TUNNEL).copied().unwrap_or_default()
    }
}

/// Estimates the time that these hits would have taken at the origin. Each hit counts as the mean
/// time until the head of a response. Each of its bytes counts as the mean time of a byte. Nothing
/// counts as saved without a request to the origin, since its times are then unknown.
fn saved_us(reading: &MeterSums, hits: u64, hit_body_bytes: u64) -> u64 {
    let mean = |sum: u64, count: u64, times: u64| {
        let product = u128::from(sum) * u128::from(times);
        product.checked_div(u128::from(count)).unwrap_or(0)
    };
    let requests = reading.upstream_requests.iter().map(|(_, count)| count).sum();
    let heads = mean(reading.upstream_head_us, requests, hits);
    let bodies = mean(reading.upstream_body_us, reading.upstream_body_bytes, hit_body_bytes);
    u64::try_from(heads + bodies).unwrap_or(u64::MAX)
}

/// Adds up the times of all sources. A timed hit in RAM stands for [`SAMPLED`] of them.
fn together(reading: &MeterSums) -> [u64; BUCKETS] {
    let mut sum = [0; BUCKETS];
    for (source, buckets, _) in &reading.times {
        let weight = if *source == Source::Ram { SAMPLED } else { 1 };
        sum.iter_mut().zip(buckets).for_each(|(sum, bucket)| *sum += bucket * weight);
    }
    sum
}

/// Appends the rows of all sites to a page in Prometheus' text format.
pub(super) fn write(page: &mut String, sites: &[SiteStatus]) {
    if sites.is_empty() {
        return;
    }
    header(page, "counter", RESPONSES.0, RESPONSES.1);
    by_result(page, sites, RESPONSES.0, |counts| counts.responses);
    header(page, "counter", BODY_BYTES.0, BODY_BYTES.1);
    by_result(page, sites, BODY_BYTES.0, |counts| counts.body_bytes);
    header(page, "counter", UPSTREAM_REQUESTS.0, UPSTREAM_REQUESTS.1);
    for status in sites {
        let site = escaped(&status.site);
        for (reason, count) in &status.upstream_requests {
            let name = UPSTREAM_REQUESTS.0;
            let _ = writeln!(page, "{name}{{site=\"{site}\",reason=\"{reason}\"}} {count}");
        }
    }
    header(page, "counter", UPSTREAM_BYTES.0, UPSTREAM_BYTES.1);
    for status in sites {
        let (name, site, bytes) = (UPSTREAM_BYTES.0, escaped(&status.site), status.upstream_body_bytes);
        let _ = writeln!(page, "{name}{{site=\"{site}\"}} {bytes}");
    }
    header(page, "histogram", DURATIONS.0, DURATIONS.1);
    for status in sites {
        let site = escaped(&status.site);
        for (source, times) in &status.times {
            histogram(page, &format!("site=\"{site}\",source=\"{source}\""), times);
        }
    }
}

fn by_result(page: &mut String, sites: &[SiteStatus], name: &str, value: fn(&ResultCounts) -> u64) {
    for status in sites {
        let site = escaped(&status.site);
        for (result, counts) in &status.results {
            let _ = writeln!(page, "{name}{{site=\"{site}\",result=\"{result}\"}} {}", value(counts));
        }
    }
}

fn histogram(page: &mut String, labels: &str, times: &SourceTimes) {
    let name = DURATIONS.0;
    let mut count = 0;
    let bounds = BOUNDS.iter().map(|(_, seconds)| *seconds).chain(["+Inf"]);
    for (bound, bucket) in bounds.zip(&times.buckets) {
        count += bucket;
        let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    let (seconds, micros) = (times.sum_us / 1_000_000, times.sum_us % 1_000_000);
    let _ = writeln!(page, "{name}_sum{{{labels}}} {seconds}.{micros:06}");
    let _ = writeln!(page, "{name}_count{{{labels}}} {count}");
}

const TUNNEL: &str = "tunnel";

/// Results without a request to the origin.
const HITS: [&str; 4] = ["memory_hit", "hit", "peer_hit", "stale"];

/// Results with a body from the cache.
const OUT_OF_CACHE: [&str; 5] = ["memory_hit", "hit", "peer_hit", "stale", "refresh_unmodified"];

/// Name and help of each metric.
const RESPONSES: (&str, &str) = (
    "shoal_site_responses_total",
    "Responses by site and by what the cache did; error: the origin gave no usable response.",
);
const BODY_BYTES: (&str, &str) =
    ("shoal_site_response_body_bytes_total", "Bytes of response bodies sent, by site and result.");
const UPSTREAM_REQUESTS: (&str, &str) = (
    "shoal_site_upstream_requests_total",
    "Finished requests to origins, by site and by why the cache did not answer.",
);
const UPSTREAM_BYTES: (&str, &str) =
    ("shoal_site_upstream_body_bytes_total", "Bytes of response bodies received from origins, by site.");
const DURATIONS: (&str, &str) = (
    "shoal_site_response_duration_seconds",
    "From the first byte of a request to the last of its response, by site and source; of hits in RAM one in 64 is timed.",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_site::SiteMeter;
    use crate::message::{AccessRecord, CacheResult};

    #[test]
    fn sums_leave_tunnels_apart() {
        let meter = SiteMeter::new("a.test/", 4);
        for (outcome, body_bytes, duration_us) in [
            (CacheResult::MemoryHit, 10, 40),
            (CacheResult::Miss, 20, 4_000),
            (CacheResult::RefreshUnmodified, 30, 900),
            (CacheResult::Tunnel, 1_000, 9_000_000),
        ] {
            meter.responded(&AccessRecord { outcome, body_bytes, duration_us, ..AccessRecord::default() });
        }
        let status = SiteStatus::of(&meter.read());
        assert_eq!((status.requests, status.hits, status.tunnels().responses), (3, 1, 1));
        assert_eq!((status.body_bytes, status.hit_body_bytes), (60, 40));
        // The timed hit stands for 64.
        assert_eq!((status.p50_us, status.p99_us), (Some(50), Some(5_000)));
        assert_eq!(status.times.keys().collect::<Vec<_>>(), ["origin", "ram"]);
    }

    #[test]
    fn saved_time_follows_the_means() {
        let meter = SiteMeter::new("a.test/", 4);
        let reading = |requests: u64| MeterSums {
            upstream_requests: vec![(shoal_semantics::status_fields::Reason::SetCookie.into(), requests)],
            upstream_head_us: 3_000,
            upstream_body_us: 10_000,
            upstream_body_bytes: 1_000,
            ..meter.read()
        };
        assert_eq!(saved_us(&reading(3), 7, 500), 7 * 1_000 + 500 * 10);
        assert_eq!(saved_us(&reading(0), 7, 0), 0);
        assert_eq!(saved_us(&meter.read(), 7, 500), 0);
        assert_eq!(saved_us(&reading(1), u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn fixed_sites_appear_once_they_count() {
        let meters = SiteMeters::after(&SiteMeters::default(), ["a.test/"].into_iter());
        let sites = |has_forward| {
            let all = SiteStatus::all(&meters, has_forward);
            all.into_iter().map(|status| status.site).collect::<Vec<_>>()
        };
        assert_eq!(sites(false), ["a.test/"]);
        meters.none().responded(&AccessRecord::default());
        assert_eq!(sites(true), ["a.test/", "forward", "none"]);
    }
}
