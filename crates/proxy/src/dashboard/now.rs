//! The document of the page "Now".

use super::recorder::{CPU_MS, PEER, PEER_BYTES, Recorder, SPARED};
use super::view::{
    BYTES, COUNTS, Counts, DISK, ERROR, HIT_BYTES, NodeView, ORIGIN, ORIGIN_BYTES, OWN, RAM, SOURCES, STALE,
    TUNNEL, counts, ratio, requests_and_hits, sent_bytes, source_name,
};
use super::{fitting, halve, unix_ms, unix_s};
use crate::by_site::{BOUNDS, BUCKETS, SITES_MAX, SiteMeter, Source, quantile_us};
use crate::exchange::prefetch::{self, SourceStatus};
use bytes::Bytes;
use shoal_dashboard::documents::{
    AnswerRow, Heat, HintRow, Limits, MirrorRow, NowDocument, ROWS_MAX, SiteRow,
};
use shoal_dashboard::{COLUMN_S, COLUMNS, Rates, shown};
use std::cmp::Reverse;
use std::sync::Arc;

/// Returns the document as JSON, of one site or of all.
pub(super) fn encoded(view: &NodeView, recorder: &Recorder, site: Option<&str>) -> Bytes {
    fitting(document(view, recorder, site), |document| {
        halve(&mut document.sites);
        halve(&mut document.mirrors);
    })
}

fn document(view: &NodeView, recorder: &Recorder, site: Option<&str>) -> NowDocument {
    let live = view.live();
    let meters: Vec<&Arc<SiteMeter>> = live.routes.meters().all().collect();
    let own = site.and_then(|site| meters.iter().position(|meter| meter.label() == site));
    // A site that is not there has no counts.
    let counts = match (site, own) {
        (None, _) => SiteCounts { now: view.counts(), rates: &recorder.node, first: 0, window_ms: 5000 },
        (_, Some(at)) => SiteCounts::of_site(recorder, at, meters[at]),
        _ => SiteCounts { now: [0; COUNTS], rates: &recorder.sites, first: usize::MAX / 2, window_ms: 5000 },
    };
    let (requests, hits) = requests_and_hits(|at| counts.in_minute(at));
    let day = recorder.history.sums(unix_s(), 86_400, ["requests", "hits", "hit_bytes", "bytes"]);
    let [day_requests, day_hits, day_hit_bytes, day_bytes] = day.map(|sum| sum.unwrap_or(0.0) as u64);
    let mut sites = site_rows(recorder, &meters);
    let others = live.routes.all().len().saturating_sub(SITES_MAX);
    sites.truncate(ROWS_MAX);
    debug_assert!(sites.len() <= ROWS_MAX && hits <= requests, "a document has a limit, a hit a request");
    NowDocument {
        unix_ms: unix_ms(),
        site: site.map(shown),
        requests: requests_and_hits(|at| counts.now[at]).0,
        requests_per_s: counts.rate_of(|of| requests_and_hits(of).0),
        hit_ratio: ratio(hits, requests),
        byte_hit_ratio: ratio(counts.in_minute(HIT_BYTES), sent_bytes(|at| counts.in_minute(at))),
        hit_ratio_day: ratio(day_hits, day_requests),
        byte_hit_ratio_day: ratio(day_hit_bytes, day_bytes),
        bytes_per_s: counts.rate_of(|of| sent_bytes(of)),
        origin_bytes_per_s: counts.per_s(ORIGIN_BYTES),
        origin_bytes_saved: sent_bytes(|at| counts.now[at]).saturating_sub(counts.now[ORIGIN_BYTES]),
        answers: answers(recorder, &counts, site.is_none()),
        heat: heat(recorder, site.is_none()),
        limits: limits(view, recorder),
        mirrors: mirror_rows(view, recorder),
        hints: hint_rows(view),
        sites,
        sites_others: others,
        warnings: warnings(view),
    }
}

/// Counts of a site or of the node, with those of the last seconds.
struct SiteCounts<'r> {
    now: Counts,
    rates: &'r Rates,
    /// Index of the first count among the rates.
    first: usize,
    window_ms: u64,
}

impl<'r> SiteCounts<'r> {
    fn of_site(recorder: &'r Recorder, at: usize, meter: &SiteMeter) -> Self {
        Self { now: counts(meter), rates: &recorder.sites, first: at * COUNTS, window_ms: 10_000 }
    }

    fn in_minute(&self, at: usize) -> u64 {
        self.rates.growth(self.first + at, 60_000)
    }

    fn per_s(&self, at: usize) -> f64 {
        self.rates.per_s(self.first + at, self.window_ms)
    }

    /// Returns the rate of a sum of counts.
    fn rate_of(&self, sum: impl Fn(&dyn Fn(usize) -> u64) -> u64) -> f64 {
        // Rates are sums of the same window, so that their thousandths add up.
        sum(&|at| (self.per_s(at) * 1000.0) as u64) as f64 / 1000.0
    }
}

fn answers(recorder: &Recorder, counts: &SiteCounts<'_>, is_whole: bool) -> Vec<AnswerRow> {
    let row = |source: usize| {
        let times = TIMED.iter().find(|(timed, _)| *timed == source).map(|(_, times)| *times);
        let times = times.filter(|_| is_whole).map(|times| recorder.heat.sums(times as usize, COLUMNS));
        let buckets: Option<[u64; BUCKETS]> = times.and_then(|times| times.try_into().ok());
        AnswerRow {
            source: SOURCES[source].to_owned(),
            requests: counts.now[source],
            requests_per_s: counts.per_s(source),
            bytes_per_s: counts.per_s(BYTES + source),
            p50_us: buckets.and_then(|buckets| quantile_us(&buckets, 0.5)),
            p99_us: buckets.and_then(|buckets| quantile_us(&buckets, 0.99)),
        }
    };
    let mut rows: Vec<AnswerRow> = [RAM, DISK, STALE, ORIGIN, ERROR, TUNNEL, OWN].map(row).into();
    if is_whole {
        // A spared read is a hit on disk out of another object's neighbourhood. A peer's answer
        // counts as the origin's elsewhere.
        part_off(&mut rows, DISK, "neighbourhood", counts, (SPARED, None));
        part_off(&mut rows, ORIGIN, "peer", counts, (PEER, Some(PEER_BYTES)));
    }
    rows
}

/// Takes a part of a source's answers into a row of its own. Its bytes are the share of its
/// requests where they are not counted.
fn part_off(
    rows: &mut Vec<AnswerRow>,
    whole: usize,
    name: &str,
    counts: &SiteCounts<'_>,
    (requests, bytes): (usize, Option<usize>),
) {
    let row = &mut rows[whole];
    let own = counts.rates.value(requests).min(row.requests);
    let per_s = counts.per_s(requests).min(row.requests_per_s);
    let share = if row.requests_per_s > 0.0 { per_s / row.requests_per_s } else { 0.0 };
    let bytes_per_s = bytes.map_or(row.bytes_per_s * share, |at| counts.per_s(at)).min(row.bytes_per_s);
    debug_assert!(own <= row.requests && per_s <= row.requests_per_s, "a part is no more than the whole");
    row.requests -= own;
    row.requests_per_s -= per_s;
    row.bytes_per_s -= bytes_per_s;
    rows.push(AnswerRow {
        source: name.to_owned(),
        requests: own,
        requests_per_s: per_s,
        bytes_per_s,
        ..AnswerRow::default()
    });
}

fn heat(recorder: &Recorder, is_whole: bool) -> Heat {
    let sources = Source::ALL.iter().filter(|_| is_whole);
    Heat {
        edges_us: BOUNDS.iter().map(|(bound_us, _)| *bound_us).collect(),
        column_s: COLUMN_S,
        sources: sources
            .map(|source| (source_name(*source).to_owned(), recorder.heat.columns(*source as usize)))
            .collect(),
    }
}

fn limits(view: &NodeView, recorder: &Recorder) -> Limits {
    let settings = Arc::clone(&view.settings.lock());
    let ledger = view.objects.ledger();
    let disks = view.disks.as_ref().map(|disks| disks.states()).unwrap_or_default();
    Limits {
        cpu_cores_used: recorder.node.per_s(CPU_MS, 5000) / 1000.0,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        ram_used: ledger.used(),
        ram_limit: ledger.limit(),
        rss: view.process().1,
        disk_used: disks.iter().map(|disk| disk.usage.bytes).sum(),
        disk_limit: disks.iter().map(|disk| disk.bytes).sum(),
        connections: view.metrics.connections_open.value(),
        max_connections: settings.max_connections as u64,
        origin_connections: view.metrics.upstream_connections.value(),
    }
}

/// Returns the rows of all sites with requests, those with most first.
fn site_rows(recorder: &Recorder, meters: &[&Arc<SiteMeter>]) -> Vec<SiteRow> {
    let row = |(at, meter): (usize, &&Arc<SiteMeter>)| site_row(recorder, at, meter);
    let mut rows: Vec<SiteRow> = meters.iter().enumerate().map(row).filter(|row| row.requests > 0).collect();
    rows.sort_by_key(|row| Reverse(row.requests));
    rows
}

fn site_row(recorder: &Recorder, at: usize, meter: &SiteMeter) -> SiteRow {
    let counts = SiteCounts::of_site(recorder, at, meter);
    let (requests, hits) = requests_and_hits(|at| counts.in_minute(at));
    let times = meter.times();
    let mut together = [0; BUCKETS];
    for (source, times) in Source::ALL.iter().zip(times) {
        let weight = if *source == Source::Ram { crate::by_site::SAMPLED } else { 1 };
        together.iter_mut().zip(times).for_each(|(sum, count)| *sum += count * weight);
    }
    SiteRow {
        name: shown(meter.label()),
        requests: requests_and_hits(|at| counts.now[at]).0,
        requests_per_s: counts.rate_of(|of| requests_and_hits(of).0),
        hit_ratio: ratio(hits, requests),
        byte_hit_ratio: ratio(counts.in_minute(HIT_BYTES), sent_bytes(|at| counts.in_minute(at))),
        bytes_per_s: counts.rate_of(|of| sent_bytes(of)),
        p99_us: quantile_us(&together, 0.99),
        errors: counts.now[ERROR],
    }
}

fn mirror_rows(view: &NodeView, recorder: &Recorder) -> Vec<MirrorRow> {
    let live = view.live();
    let meters: Vec<&Arc<SiteMeter>> = live.routes.meters().all().collect();
    let row = |mirror: &Arc<crate::mirror::MirrorRoute>| {
        let meter = live.routes.meters().own(mirror.site)?;
        let at = meters.iter().position(|other| Arc::ptr_eq(other, meter))?;
        let site = SiteRow { name: shown(mirror.settings.name()), ..site_row(recorder, at, meter) };
        Some(MirrorRow { site, kind: mirror.settings.kind.name().to_owned() })
    };
    let mut rows: Vec<MirrorRow> = live.mirrors.all().iter().filter_map(row).collect();
    rows.sort_by_key(|row| Reverse(row.site.requests));
    rows.truncate(ROWS_MAX);
    rows
}

/// Returns sentences about states that an operator should know.
/// Returns a row for each source of hints.
fn hint_rows(view: &NodeView) -> Vec<HintRow> {
    let row = |source: SourceStatus| HintRow {
        source: source.source,
        received: source.received,
        prefetched: source.prefetched,
        used: source.used,
        wasted_bytes: source.wasted_bytes,
        precision: source.precision_permille.map(|permille| permille as f64 / 1000.0),
        muted_seconds: source.muted_seconds.unwrap_or(0),
    };
    prefetch::status(&view.exchange).sources.into_iter().map(row).collect()
}

fn warnings(view: &NodeView) -> Vec<String> {
    let (metrics, mut warnings) = (&view.metrics, Vec::new());
    for disk in view.disks.as_ref().map(|disks| disks.states()).unwrap_or_default() {
        if !disk.why.is_empty() {
            warnings.push(shown(&format!("Disk {} is out of service: {}", disk.path, disk.why)));
        } else if disk.is_recovering {
            warnings.push(shown(&format!("Disk {} still looks for what was written last.", disk.path)));
        }
    }
    let live = view.live();
    let members = live.routes.all().iter().flat_map(|route| route.group.members());
    let now = std::time::Instant::now();
    let out: Vec<String> = members.filter(|member| !member.is_in(now)).map(|member| member.url()).collect();
    match out.len() {
        0 => {}
        1..=3 => warnings.push(shown(&format!("These origins do not answer: {}", out.join(", ")))),
        many => warnings.push(format!("{many} origins do not answer.")),
    }
    for (count, text) in [
        (metrics.panics.value(), "parts of Shoal failed; the error log tells which."),
        (metrics.connections_full.value(), "times a listener was full: max_connections."),
        (metrics.log_lines_dropped.value(), "lines of the access log were dropped."),
        (metrics.disk_corrupt.value(), "jobs met damaged bytes on disk."),
    ] {
        if count > 0 {
            warnings.push(format!("{count} {text}"));
        }
    }
    warnings.truncate(ROWS_MAX);
    warnings
}

/// Sources with times, by their index in [`SOURCES`].
const TIMED: [(usize, Source); 4] =
    [(RAM, Source::Ram), (DISK, Source::Disk), (STALE, Source::Stale), (ORIGIN, Source::Origin)];
